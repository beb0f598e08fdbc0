"""Adding up rows that lie in Ray's object store: who adds which slice, and what is done if nobody does.

The workers are the adders. They read the slices themselves; the driver sends references and weights, and gets the sum
of every slice once. A slice whose adder died, or is late, is given to the next, and in the end the driver adds it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from echelon import trees
from echelon.arrays import NumberArray
from echelon.clusters.adding import Rooms, add_up
from echelon.clusters.base import Added, Message, Report, Sum, Total, Unread
from echelon.clusters.parallel import copy, extreme
from echelon.clusters.ray_actor import RayActor
from echelon.clusters.ray_adder import Asked, Pieces, Summed, answer, cut, read
from echelon.clusters.ray_worker import ADD
from echelon.codes import combine

_LEAST_S = 2.0  # that an adder has for a slice
_TIMES = 20.0  # as many times what others took
_FIRST = 1e-8  # seconds for a byte, until the first answer
_PATIENCE = 2  # adders of a slice that may be late, one after another, before the driver adds it
_HERE_S = 5.0  # that the driver waits for slices of other nodes
_DRIVER = -1  # number of an adder that is no worker


class _Total:
    """A sum that comes slice by slice.

    far, near: which of its messages enter it, and lie elsewhere or here.
    slices: references to the rows' slices, by slice; none where all lie here.
    """

    def __init__(self, wanted: Sum, rooms: Rooms) -> None:
        self.wanted, self._rooms = wanted, rooms
        used = [i for i, weight in enumerate(wanted.weights.tolist()) if weight] or [0]
        self.far = [i for i in used if wanted.messages[i].elsewhere]
        self.near = [i for i in used if not wanted.messages[i].elsewhere]
        self.form = wanted.messages[0].form
        self.told = all(wanted.messages[i].sizes for i in self.far)
        self._counts = [segment.count for segment in trees.layout(self.form).segments]
        self.slices: list[list[Any]] = []
        if self.far:
            held = [wanted.messages[i].token.references for i in self.far]
            self.slices = [list(references) for references in zip(*held, strict=True)]
        self._segments: Pieces = []
        self._largest: list[tuple[float, ...]] = []
        self._sizes = np.zeros((len(self._counts), len(wanted.messages)))

    @property
    def weights(self) -> NumberArray:
        """Those of the rows that lie elsewhere."""
        return self.wanted.weights[self.far]

    @property
    def slice_nbytes(self) -> int:
        """What an adder reads for one slice."""
        return len(self.far) * trees.layout(self.form).nbytes // len(self.slices)

    def take(self, summed: Summed) -> None:
        """Put the sum of a slice into its place."""
        if not self._segments:
            self._segments = [
                self._room(piece.dtype, count) for piece, count in zip(summed.pieces, self._counts, strict=True)
            ]
        for target, piece in zip(self._segments, summed.pieces, strict=True):
            place = target[cut(len(target), len(self.slices), summed.at)]
            copy([(place.view(np.uint8), np.ascontiguousarray(piece).view(np.uint8))])
        self._largest.append(summed.largest)
        if summed.sizes is not None:
            self._sizes[:, self.far] = np.maximum(self._sizes[:, self.far], summed.sizes)

    def _room(self, dtype: np.dtype[Any], count: int) -> NumberArray:
        room = self._rooms.take(dtype, count)
        return np.empty(count, dtype) if room is None else room

    def total(self) -> Total:
        """Return the sum of all rows; those that lie here are added last."""
        if not self.far:
            return self._near_alone()
        segments, largest = self._segments, [float(most) for most in np.max(self._largest, axis=0)]
        if self.near:
            segments = [self._with_near(i, segment) for i, segment in enumerate(segments)]
            largest = [extreme(segment) for segment in segments]
        for i in (*self.far, *self.near):
            if self.wanted.messages[i].sizes:
                self._sizes[:, i] = self.wanted.messages[i].sizes
        return Total(segments, tuple(largest), self._sizes)

    def _near_alone(self) -> Total:
        messages = [self.wanted.messages[i] for i in self.near]
        found = add_up(self.wanted.weights[self.near], messages, self._rooms)
        self._sizes[:, self.near] = found.sizes
        return Total(found.segments, found.largest, self._sizes)

    def _with_near(self, i: int, segment: NumberArray) -> NumberArray:
        weights, sizes = np.concatenate([[1.0], self.wanted.weights[self.near]]), np.zeros(1 + len(self.near))
        near = [self.wanted.messages[at].segments[i] for at in self.near]
        total: NumberArray = combine(weights[None], [segment, *near], sizes=sizes)[0]
        self._sizes[i, self.near] = sizes[1:]
        return total


@dataclass(slots=True)
class _Owed:
    """A slice that nobody has added up yet: whom it was given to, how many of them were late, and when the last got it
    and must have answered.
    """

    sum: int
    at: int
    given: list[int] = field(default_factory=list)
    late: int = 0
    since: float = 0.0
    due: float = 0.0


class Plane:
    """The driver's side of adding. One thread uses it.

    workers: returns those that are up.
    """

    def __init__(self, rooms: Rooms, workers: Callable[[], list[RayActor]]) -> None:
        self._rooms, self._workers = rooms, workers
        self._number = self._round = 0
        self._totals: list[_Total] = []
        self._owed: dict[tuple[int, int], _Owed] = {}
        self._unread: list[Message] = []
        self._late: set[int] = set()  # workers that owe an answer for longer than they may
        self._pace = _FIRST  # seconds for a byte that an adder reads

    @property
    def due(self) -> float | None:
        """When to `look` again at the latest; None where nothing is being added up."""
        if not self._totals:
            return None
        return min((owed.due for owed in self._owed.values()), default=0.0)

    def add(self, round: int, sums: Sequence[Sum], now: float) -> None:
        """Begin to add up; whatever was begun before ends."""
        self.end()
        self._round = round
        self._totals = [_Total(wanted, self._rooms) for wanted in sums]
        for i, total in enumerate(self._totals):
            for at in range(len(total.slices)):
                self._owed[i, at] = _Owed(i, at)
        for owed in list(self._owed.values()):
            self._give(owed, now)

    def end(self) -> None:
        """Forget what is being added up; its answers are dropped when they come."""
        self._number += 1
        self._totals, self._owed, self._unread = [], {}, []

    def take(self, worker: int, summed: Summed, now: float) -> None:
        """Take in an answer, unless it is late or the slice was added up by somebody else."""
        self._late.discard(worker)
        if summed.number != self._number:
            return
        owed = self._owed.get((summed.sum, summed.at))
        if owed is None:
            return
        total = self._totals[summed.sum]
        if summed.unread:
            self._unread += [total.wanted.messages[total.far[i]] for i in summed.unread]
            self._late.clear()  # they waited for those
            return
        del self._owed[summed.sum, summed.at]
        total.take(summed)
        if owed.given[-1] == worker != _DRIVER:
            self._pace = 0.5 * (self._pace + (now - owed.since) / total.slice_nbytes)

    def look(self, now: float) -> list[Report]:
        """Give what is late to others; return the totals, or what can't be read, as soon as that is known."""
        if not self._totals:
            return []
        if self._released():
            self.end()
            return []
        living = {handle.number for handle in self._workers()}
        for owed in list(self._owed.values()):
            last = owed.given[-1]
            if not self._unread and (last not in living or now >= owed.due):
                owed.late += last in living
                self._late.add(last)
                self._give(owed, now)
        self._late &= living
        report: Report
        if self._unread:
            report = Unread(tuple(self._unread))
        elif not self._owed:
            report = Added(self._round, tuple(total.total() for total in self._totals))
        else:
            return []
        self.end()
        return [report]

    def _released(self) -> bool:
        far = (total.wanted.messages[i] for total in self._totals for i in total.far)
        return any(message.token.references is None for message in far)

    def _give(self, owed: _Owed, now: float) -> None:
        """Have a slice added up by the best worker that was not asked so far, or here."""
        total, owing = self._totals[owed.sum], Counter(other.given[-1] for other in self._owed.values() if other.given)
        asked = Asked(self._number, owed.sum, owed.at, total.weights, total.told)
        able = [handle for handle in self._workers() if handle.number not in owed.given]
        if not able or owed.late >= _PATIENCE:
            self._here(owed, asked, now)
            return

        def worth(handle: RayActor) -> tuple[bool, int, bool]:
            busy = handle.cut == self._round  # in the middle of a part, which it may be slow at
            return handle.number in self._late, owing[handle.number] + busy, busy

        adder = min(able, key=worth)
        adder.tell(ADD, *asked, references=total.slices[owed.at])
        limit = max(_LEAST_S, _TIMES * self._pace * total.slice_nbytes) * 2**owed.late
        owed.since, owed.due = now, now + limit * (1 + owing[adder.number])
        owed.given.append(adder.number)

    def _here(self, owed: _Owed, asked: Asked, now: float) -> None:
        """Add up a slice in this process: no worker did."""
        owed.given.append(_DRIVER)
        owed.due = now
        found = read(self._totals[owed.sum].slices[owed.at], _HERE_S)
        self.take(_DRIVER, answer(asked, found, self._rooms.take), now)
