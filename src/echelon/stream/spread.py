"""How much the workers' times vary, as rounds show it: what decides whether waiting for the last one is expensive."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelon.arrays import BoolArray, FloatArray
from echelon.profile import Speeds

MEMORY = 50.0  # rounds that are remembered
FIRST = 3  # rounds before what was seen of a place is believed
PRIOR = 2.0  # tasks that a declared deviation counts for


@dataclass(frozen=True, slots=True)
class Seen:
    """What one round showed of one place: seconds it computed, parts it finished, and its link's delay, if seen.

    cut: how many of the seconds went into a task that was not finished.
    """

    place: int
    busy: float
    done: float
    link: float | None
    cut: float = 0.0


class Spread:
    """The deviation of a task's time from what is believed, relative to its mean, by place.

    A task that was cut short shows something only where it took longer than its mean already: then it was late by that
    at least. So steady workers look steady, however often the end of a round interrupts them.

    >>> spread = Spread(2, None)
    >>> for _ in range(3):
    ...     spread.observe([Seen(0, 4.0, 4.0, None), Seen(1, 6.0, 2.0, None, cut=4.0)], np.ones(2))
    >>> spread.deviations().round(2).tolist()
    [0.0, 1.73]
    """

    def __init__(self, places: int, declared: Speeds | None) -> None:
        self.rounds = np.zeros(places, dtype=int)
        self._squares, self._tasks = np.zeros(places), np.full(places, 1e-9)
        if declared is not None:
            self.rounds += FIRST
            self._squares, self._tasks = PRIOR * (declared.std / declared.mean) ** 2, np.full(places, PRIOR)

    def observe(self, seen: Sequence[Seen], means: FloatArray) -> None:
        """Note a round, of workers whose parts are believed to take these seconds on average, by place."""
        fade = float(np.exp(-1 / MEMORY))
        for one in seen:
            place, mean = one.place, float(means[one.place])
            late = max(0.0, one.cut - mean)
            off = one.busy - one.cut - mean * one.done + late
            self._squares[place] = fade * self._squares[place] + (off / mean) ** 2
            self._tasks[place] = fade * self._tasks[place] + one.done + (late > 0)
            self.rounds[place] += 1

    def restart(self, places: BoolArray) -> None:
        """Forget what was seen of places whose speed has changed for good."""
        self.rounds[places], self._squares[places], self._tasks[places] = 0, 0.0, 1e-9

    def deviations(self) -> FloatArray:
        """Return the deviation of a task's time over its mean, by place; 0 where too little was seen."""
        found: FloatArray = np.where(self.rounds >= FIRST, np.sqrt(self._squares / self._tasks), 0.0)
        return found
