"""What the master of an MPI run knows of its ranks."""

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Sequence

from echelon.clusters import frames
from echelon.clusters.mpi_link import Link
from echelon.clusters.mpi_plane import PING
from echelon.plan import Task

_STALL_S = 1.0  # without news of an operation, after which its ranks are asked whether they are there
SILENCE_S = 2.0  # that an answer may take at least


class Rank:
    """What the master knows of a worker.

    told: the last round whose state it has. owed: slots and rows of that round whose messages it still has to send.
    since: when it began the first of them, as far as the master knows.
    late: whether it may still compute what is no longer wanted. behind: the last spread it has not got all of, or 0.
    waiting: tasks for which it gets the state when it is no longer behind.
    heard, asked: when its last frame came, and when it was last asked for one.
    """

    __slots__ = ("asked", "behind", "heard", "late", "number", "owed", "rank", "since", "told", "up", "waiting")

    def __init__(self, rank: int, number: int) -> None:
        self.rank, self.number, self.told, self.up = rank, number, 0, False
        self.owed: deque[tuple[int, int]] = deque()
        self.since = self.heard = self.asked = 0.0
        self.late, self.behind = False, 0
        self.waiting: list[Task] = []

    def owe(self, tasks: Sequence[Task]) -> None:
        """Note tasks that were given to it."""
        if not self.owed:
            self.since = time.monotonic()
        self.owed.extend((task.slot, task.row) for task in tasks)

    def paid(self, round: int, slot: int, row: int) -> None:
        """Note a message that came."""
        if self.told == round:
            self.late = False
            self.since = time.monotonic()
            with contextlib.suppress(ValueError):  # purged or stopped
                self.owed.remove((slot, row))

    def purged(self) -> None:
        """Note that nothing that it owes is wanted any more."""
        self.late = True
        self.owed.clear()
        self.waiting = []

    @property
    def at(self) -> tuple[int, int, int] | None:
        """The round, slot and row that it is taken to compute."""
        return (self.told, *self.owed[0]) if self.owed else None


def hung(link: Link, stream: int, ranks: Iterable[Rank], *, since: float, now: float, patience_s: float) -> list[Rank]:
    """Ask ranks of an operation, without news since some time, whether they are there; return those that are not."""
    if now - since < _STALL_S:
        return []
    found = []
    for known in ranks:
        if known.asked <= max(known.heard, since):
            if now - known.asked < _STALL_S:
                continue
            known.asked = now
            link.send(known.rank, stream, frames.pack_short(PING))
        elif now - known.asked > patience_s:
            found.append(known)
    return found
