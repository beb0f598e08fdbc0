"""How long the tasks of a job take and its workers are normally silent: what late and hung are measured by."""

from collections import deque
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from echelon.stream.observer import RoundSeen

_FADES = 0.8  # of the longest silence that is remembered, per round
_ROUNDS = 15  # whose medians are remembered; of later ones, only some are looked at
_SOME = 4  # one in this many


def heard(seen: "RoundSeen") -> tuple[dict[int, float], float]:
    """Return when each worker last sent a message of a round, and the longest that the master had to wait for one.

    That is what its task took, and for the first message of a lane also what it took to get there, unless rows were
    given out again: what was lost on its way says nothing of the time it takes.
    """
    lanes = () if seen.repeated else zip(seen.workers, seen.lanes(), strict=True)
    firsts = {(owner, lane[0].slot, lane[0].row) for owner, lane in lanes if lane}
    last: dict[int, float] = {}
    gap, start = 0.0, seen.start
    for worker, _, slot, row, time, seconds, _, _ in seen.messages:
        # what was given out later than the start says nothing of the way
        waited = time - start if worker not in last and (worker, slot, row) in firsts else seconds
        gap = max(gap, waited)
        last[worker] = time
    return last, gap


class TaskTimes:
    """What the rounds of one job showed: the first ones all, and one in four of those after them.

    silence: the longest that the master had to wait for a message, of late: it fades by a fifth per round seen.

    >>> times = TaskTimes()
    >>> times.silence, times.median(None)
    (None, None)
    """

    def __init__(self) -> None:
        self.silence: float | None = None
        self._medians: deque[float] = deque(maxlen=_ROUNDS)
        self._rounds = 0

    def observe(self, seen: "RoundSeen") -> None:
        """Note a round that is over."""
        self._rounds += 1
        if not seen.messages or (self._rounds > _ROUNDS and self._rounds % _SOME):
            return
        _, gap = heard(seen)
        if not seen.loading:  # else it also shows how long loading took
            self.silence = gap if self.silence is None else max(gap, _FADES * self.silence)
        self._medians.append(median(message.seconds for message in seen.messages))

    def median(self, seen: "RoundSeen | None") -> float | None:
        """Return the median time of a task; if no round is over yet, of those that came in the open one."""
        if self._medians:
            return median(self._medians)
        return median(message.seconds for message in seen.messages) if seen is not None and seen.messages else None
