"""The state of a round on its way to all workers: it leaves the master once, and relays pass their shares on."""

from collections import deque
from typing import Any

import numpy as np

from echelon.arrays import NumberArray
from echelon.clusters import frames
from echelon.clusters.mpi_link import MASTER, Link
from echelon.clusters.mpi_plane import FORGET, PATCH, SPREAD, SPREAD_OVER, Outbox, Range, Spread, cut, packed, pieces
from echelon.clusters.mpi_ranks import Rank, hung
from echelon.clusters.parallel import copy

_RECENT_S = 1.0


class Incoming:
    """A state that a worker receives, and of which it passes on its share, if it is a relay.

    forgotten: whether its round is over, so that what is missing from a relay that died is no longer needed.
    """

    def __init__(self, link: Link, outbox: Outbox, stream: int, spread: Spread, memory: NumberArray) -> None:
        self._link, self._outbox, self._spread, self.memory = link, outbox, spread, memory
        self.stream, self.number = stream, spread.number
        self.forgotten = self._told = False
        self._pending: dict[int, deque[tuple[Any, Range]]] = {}  # by share
        self._missing: set[int] = set()
        at = spread.ranks.index(link.rank)
        self._others = spread.ranks[at + 1 :] + spread.ranks[:at]  # so that not all begin with the same one
        for i, (relay, _) in enumerate(spread.relays):
            self._post(i, MASTER if relay == link.rank else relay, spread.number)

    def _post(self, i: int, source: int, operation: int) -> None:
        waiting = self._pending[i] = deque()
        for at, end in pieces(self._spread.relays[i][1]):
            request = self._link.expect(source, operation, self.memory[at:end])
            if request is None:
                self._miss(i)
                return
            waiting.append((request, (at, end)))

    def _miss(self, i: int) -> None:
        for request, (at, end) in self._pending.pop(i, ()):
            self._link.forsake(request, self.memory[at:end])
        self._missing.add(i)

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return not self._pending and (not self._missing or self.forgotten)

    def step(self) -> bool:
        """Take in what has come, and pass it on; return whether something had."""
        moved = False
        for i, waiting in list(self._pending.items()):
            while waiting:
                came = self._link.came(waiting[0][0])
                if came is None:
                    self._miss(i)
                if not came:
                    break
                moved = True
                at, end = waiting.popleft()[1]
                if self._spread.relays[i][0] == self._link.rank:
                    for rank in self._others:
                        self._outbox.send(rank, self.number, self.memory[at:end])
            else:
                self._pending.pop(i, None)
        if self.over and not self._told:
            self._told = True
            self._link.send(MASTER, self.stream, frames.pack_short(SPREAD_OVER, 0, self.number))
        return moved

    def patch(self, i: int, operation: int) -> None:
        """Receive a share from the master instead."""
        self._miss(i)
        self._missing.discard(i)
        self._told = False
        self._post(i, MASTER, operation)

    def lose(self, rank: int) -> None:
        """Expect nothing more from a rank."""
        for i, (relay, _) in enumerate(self._spread.relays):
            if relay == rank and i in self._pending:
                self._miss(i)


class Spreading:
    """The master's side: who has the state that was spread last, and what to do about relays that fail."""

    def __init__(self, link: Link, stream: int, outbox: Outbox) -> None:
        self._link, self._stream, self._outbox = link, stream, outbox
        self._spread: Spread | None = None
        self._memory: Any = None
        self._since = 0.0
        self._lacking: set[int] = set()  # ranks that do not have all of it yet
        self._failed: set[int] = set()  # shares that the master sends itself

    def begin(self, memory: NumberArray, known: list[Rank], now: float) -> int:
        """Spread a state over ranks; return the number of the operation."""
        self.forget()
        relays = [rank for rank in known if not rank.late] or known
        number = self._link.new_operation()
        shares = cut((0, len(memory)), len(relays))
        spread = Spread(
            number,
            len(memory),
            tuple((rank.rank, share) for rank, share in zip(relays, shares, strict=True)),
            tuple(rank.rank for rank in known),
        )
        self._spread, self._memory, self._since, self._failed = spread, memory, now, set()
        self._lacking = set(spread.ranks)
        frame = packed(SPREAD, spread)
        for rank in known:
            rank.behind = number
            self._link.send(rank.rank, self._stream, frame)
        listed = [[(rank.rank, piece) for piece in pieces(share)] for rank, share in zip(relays, shares, strict=True)]
        for i in range(max(map(len, listed))):
            for relay, (at, end) in (of[i] for of in listed if i < len(of)):
                self._outbox.send(relay, number, memory[at:end])
        return number

    def forget(self) -> None:
        """Let those that lack something do without it."""
        if self._spread is not None:
            for rank in self._lacking - self._link.lost:
                self._link.send(rank, self._stream, frames.pack_short(FORGET, 0, self._spread.number))
        self._spread = self._memory = None
        self._lacking = set()

    def recent(self, now: float) -> bool:
        """Return whether it has just begun, or gone on."""
        return bool(self._lacking) and now - self._since < _RECENT_S

    def reaches(self, rank: int) -> bool:
        """Return whether a rank gets the state that was spread last."""
        return self._spread is not None and rank in self._spread.ranks

    def heard(self, known: Rank, number: int, now: float) -> None:
        """Note that a rank has all of a state."""
        if known.behind == number:
            known.behind = 0
        if self._spread is not None and self._spread.number == number:
            self._lacking.discard(known.rank)
            self._since = now

    def lose(self, rank: int) -> None:
        """Send what a relay was to pass on."""
        self._lacking.discard(rank)
        if self._spread is None:
            return
        for i, (relay, share) in enumerate(self._spread.relays):
            if relay != rank or i in self._failed:
                continue
            self._failed.add(i)
            number = self._link.new_operation()
            for other in sorted(self._lacking):
                self._link.send(other, self._stream, packed(PATCH, (self._spread.number, i, number)))
                for at, end in pieces(share):
                    self._outbox.send(other, number, self._memory[at:end])

    def step(self, ranks: dict[int, Rank], now: float, patience_s: float) -> None:
        """Look after relays that do not pass on what they have."""
        if self._spread is None or not self._lacking:
            return
        relays = [ranks[rank] for rank, _ in self._spread.relays if rank in ranks]
        for known in hung(self._link, self._stream, relays, since=self._since, now=now, patience_s=patience_s):
            self._since, known.late = now, True
            lacking = known.rank in self._lacking
            self.lose(known.rank)
            if lacking:
                self._lacking.add(known.rank)


def copied(buffers: list[Any], places: list[tuple[int, int]], memory: NumberArray) -> list[NumberArray]:
    """Copy buffers to their places in a memory; return them there."""
    found = [memory[at : at + size] for at, size in places]
    copy([(to, np.frombuffer(buffer, np.uint8)) for to, buffer in zip(found, buffers, strict=True)])
    return found
