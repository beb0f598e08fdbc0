"""Rows that stay with virtual workers: who holds them, and adding them up where they lie, in virtual time.

The coordinates are cut into one slice for each worker that responded in the round. An adder's slice comes in when the
ports allow it (`echelon.ports`), if the adder and all holders of chosen rows are within reach. After `PATIENCE_S`
without a slice the cluster looks why: rows that can't be read are reported as `Unread`, which ends the adding; else the
slice is given to another adder. Orders and slices are lost, late and repeated as faults have it; a slice counts once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from echelon import ports, trees
from echelon.clusters.base import Added, Message, Sum, Unread
from echelon.clusters.narrow import is_narrow, widened
from echelon.clusters.virtual_worker import VirtualWorker
from echelon.profile import Costs

if TYPE_CHECKING:
    from echelon.clusters.virtual import VirtualCluster

PATIENCE_S = 5.0  # after which a slice that is owed is asked of another adder


@dataclass(eq=False, slots=True)
class _Asked:
    """Sums that are wanted in a round.

    wanted: the tokens of messages that lie elsewhere. owed: slices that have not come. takes: seconds for a slice.
    """

    round: int
    sums: tuple[Sum, ...]
    wanted: frozenset[int]
    adders: list[VirtualWorker]
    takes: float
    owed: set[int]
    tries: int = field(default=0)


class Staying:
    """The rows that workers of a virtual cluster hold, and the sums that are asked of them."""

    def __init__(self, cluster: "VirtualCluster") -> None:
        self._cluster = cluster
        self._held: dict[int, tuple[VirtualWorker, Message]] = {}  # by token
        self._gone: set[int] = set()  # tokens that were reported as unread
        self._spoke: dict[VirtualWorker, int] = {}  # the last round in which a worker announced a row
        self._asked: _Asked | None = None

    def announced(self, worker: VirtualWorker, message: Message) -> None:
        """Note that a row lies with a worker; one whose end was told before is out of reach with all it has."""
        self._held[message.token] = worker, message
        if self._cluster.known(worker, message.worker):
            self._spoke[worker] = message.round
        else:
            self._cluster.tell(Unread(self._lose([message.token])))

    def lost(self, worker: VirtualWorker) -> tuple[Message, ...]:
        """Return the rows that were with a worker which the master takes for lost."""
        self._spoke.pop(worker, None)
        return self._lose([token for token, (holder, _) in self._held.items() if holder is worker])

    def _lose(self, tokens: Sequence[int]) -> tuple[Message, ...]:
        messages = tuple(self._held.pop(token)[1] for token in tokens)
        for message in messages:
            self._cluster.take_back(message)
        self._gone.update(tokens)
        if self._asked is not None and not self._asked.wanted.isdisjoint(tokens):
            self._asked = None
        return messages

    def released(self, token: int) -> bool:
        """Forget a row that is given back, and what it was wanted for; return whether it was lost before."""
        if self._asked is not None and token in self._asked.wanted:
            self._asked = None
        self._held.pop(token, None)
        return token in self._gone

    # adding up

    def add(self, round: int, sums: Sequence[Sum], costs: Costs) -> None:
        """Have rows added up; `Added` follows, or `Unread`."""
        assert self._asked is None, "one after the other"
        elsewhere = [message for one in sums for message in one.messages if message.elsewhere]
        wanted = frozenset(message.token for message in elsewhere)
        if not wanted.isdisjoint(self._gone):
            return  # told, and not heard yet
        holding = dict.fromkeys(self._held[token][0] for token in sorted(wanted))
        adders = list(dict.fromkeys([*holding, *(worker for worker, last in self._spoke.items() if last == round)]))
        held = np.array(
            [sum(_nbytes(message) for message in elsewhere if self._held[message.token][0] is one) for one in adders]
        )
        here = sum(_nbytes(message) for one in sums for message in one.messages if not message.elsewhere)
        total = sum(_nbytes(one.messages[0]) for one in sums)
        takes = float(ports.adding_s(costs, held, total, here=here, adders=len(adders)))
        self._asked = asked = _Asked(round, tuple(sums), wanted, adders, takes, set(range(len(adders))))
        for slice, adder in enumerate(adders):
            self._give(asked, slice, adder)
        self._cluster.at(self._cluster.time + takes + PATIENCE_S, partial(self._look, asked))

    def _give(self, asked: _Asked, slice: int, adder: VirtualWorker) -> None:
        """Tell an adder which slice is its own, and the weights."""
        self._cluster.carry(adder, partial(self._begin, asked, slice, adder))

    def _begin(self, asked: _Asked, slice: int, adder: VirtualWorker) -> None:
        self._cluster.at(self._cluster.time + asked.takes, partial(self._end, asked, slice, adder))

    def _end(self, asked: _Asked, slice: int, adder: VirtualWorker) -> None:
        """Send a slice of the total, if the adder is there and every chosen row could be read."""
        if asked is not self._asked or not adder.awake(partial(self._end, asked, slice, adder)):
            return
        if all(self._held[token][0].reachable for token in asked.wanted):
            self._cluster.carry(adder, partial(self._come, asked, slice))

    def _come(self, asked: _Asked, slice: int) -> None:
        """Take in a slice; with the last one the totals are there."""
        if asked is not self._asked:
            return
        asked.owed.discard(slice)
        if not asked.owed:
            self._asked = None
            totals = [self._cluster.combine(one.weights, list(map(self._whole, one.messages))) for one in asked.sums]
            self._cluster.tell(Added(asked.round, tuple(totals)))

    def _whole(self, message: Message) -> Message:
        """Return a message with its numbers, wherever they lie."""
        if not message.elsewhere:
            return message
        segments = self._cluster.lent[message.token]
        return message._replace(segments=widened(segments) if is_narrow(message.form) else segments)

    def _look(self, asked: _Asked) -> None:
        """Report rows that can't be read, or give what adders owe to others."""
        if asked is not self._asked:
            return
        lost = [token for token in sorted(asked.wanted) if not self._held[token][0].reachable]
        if lost:
            self._cluster.tell(Unread(self._lose(lost)))
            return
        asked.tries += 1
        able = [adder for adder in asked.adders if adder.reachable]
        for slice in sorted(asked.owed):
            self._give(asked, slice, able[(slice + asked.tries) % len(able)])
        self._cluster.at(self._cluster.time + asked.takes + PATIENCE_S, partial(self._look, asked))


def _nbytes(message: Message) -> int:
    return trees.layout(message.form).nbytes
