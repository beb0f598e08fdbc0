"""Rounds that wait for everything: what a plan without an ending does."""

from dataclasses import dataclass

from echelon.endings.base import TIES
from echelon.endings.policy import Condition, Policy
from echelon.endings.sums import Sums


@dataclass(frozen=True)
class Exact(Policy):
    """End when the sums are exact, and never before: the default of all jobs, by a name.

    >>> Exact().enough(1.0, 1), Exact().enough(0.99, 1)
    (True, False)
    """

    def enough(self, share: float, slots: int) -> bool:
        """Return whether everything comes."""
        return share >= 1 - TIES

    def condition(self, start: float) -> Condition:
        """Return that no clock ends the round."""
        return _Never()


class _Never(Condition):
    def look(self, sums: Sums, now: float) -> float | None:
        """Return that the time is not known."""
        return None
