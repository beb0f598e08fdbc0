"""Rounds that end after some time with what there is."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from echelon import checks
from echelon.endings.base import TIES
from echelon.endings.curves import Curves
from echelon.endings.policy import AUTO, Condition, Policy
from echelon.endings.sums import Sums
from echelon.errors import ArgumentError

_LEAST = 0.9  # mean share of rounds with a deadline that is learnt: with less, slow workers' data would hardly count


@dataclass(frozen=True)
class Deadline(Policy):
    """End `seconds` after the start of the round with what there is, or with the first row that comes after that.

    Prefer it where a round must not take long whatever the workers do. What is lost before is given out again, since
    the round may still become exact. With "auto" the first rounds are exact, and so is one now and then; the deadline
    is the time at which those rounds would have given most per second, the mean share that was there over the mean
    time, among times at which at least 90 % were there on average.

    >>> Deadline(2.0).learns, Deadline("auto").learns
    (False, True)
    """

    seconds: float | Literal["auto"]

    def __post_init__(self) -> None:
        if isinstance(self.seconds, str) and self.seconds != AUTO:
            raise ArgumentError(f'seconds: {self.seconds!r} is not allowed; must be a number > 0, or "auto"')
        if not self.learns:
            checks.number("seconds", self.seconds, above=0)

    @property
    def learns(self) -> bool:
        """Whether the time is "auto"."""
        return isinstance(self.seconds, str)

    def learnt(self, rounds: Curves) -> Policy:
        """Return the deadline by which these rounds would have given most per second."""
        if not self.learns:
            return self
        start = np.zeros(len(rounds.times))
        waits = rounds.candidates(start)
        return replace(self, seconds=rounds.best(waits[waits > 0], start, _LEAST) * (1 + TIES))

    def enough(self, share: float, slots: int) -> bool:
        """Return whether everything comes: until the deadline the round may become exact."""
        return share >= 1 - TIES

    def condition(self, start: float) -> Condition:
        """Return that the deadline is over."""
        return _Over(None if isinstance(self.seconds, str) else start + self.seconds)


class _Over(Condition):
    def __init__(self, at: float | None) -> None:
        self._at = at

    def look(self, sums: Sums, now: float) -> float | None:
        """Return the deadline."""
        return self._at
