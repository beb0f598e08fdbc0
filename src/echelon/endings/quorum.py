"""Rounds that end without some of their rows: when enough of the sums is there, and a grace is over."""

from dataclasses import KW_ONLY, dataclass, replace
from math import ceil
from typing import Literal

from echelon import checks
from echelon.endings.base import TIES
from echelon.endings.curves import Curves
from echelon.endings.policy import AUTO, Condition, Policy
from echelon.endings.sums import Sums
from echelon.errors import ArgumentError


@dataclass(frozen=True)
class Quorum(Policy):
    """End when a quorum of the sums is there, and a grace has passed; at once when all is.

    Prefer it where a result without some of the parts is worth nearly as much as the whole: local steps, sums over
    samples. What comes within the grace counts; what is under way at the end is dropped. A round that began at time 0
    and has its quorum at time t ends at t + grace + stretch * t. What is lost with its worker is given out again only
    if the quorum can't be met without it.

    share: of the sums, as the module of policies has it: of the parts. least: how many slots must be recovered besides,
        where each worker has one of its own.
    grace: seconds. stretch: more of it, as a share of the time that the quorum took. With the grace "auto" the first
        rounds are exact, and so is one now and then; it is the wait after which those rounds would have given most per
        second, the mean share that was there over the mean time.

    >>> Quorum(0.75).needed(8), Quorum(least=6).needed(8), Quorum(1.0).needed(8)
    (6, 6, 8)
    """

    share: float = 0.0
    _: KW_ONLY
    least: int = 0
    grace: float | Literal["auto"] = 0.0
    stretch: float = 0.0

    def __post_init__(self) -> None:
        checks.probability("share", self.share)
        checks.whole("least", self.least, least=0)
        checks.number("stretch", self.stretch, least=0)
        if isinstance(self.grace, str) and self.grace != AUTO:
            raise ArgumentError(f'grace: {self.grace!r} is not allowed; must be a number >= 0, or "auto"')
        if not self.learns:
            checks.number("grace", self.grace, least=0)

    @property
    def learns(self) -> bool:
        """Whether the grace is "auto"."""
        return isinstance(self.grace, str)

    def learnt(self, rounds: Curves) -> Policy:
        """Return the quorum with the grace by which these rounds would have given most per second."""
        if not self.learns:
            return self
        since = rounds.reached(self.share) * (1 + self.stretch)
        return replace(self, grace=rounds.best(rounds.candidates(since), since, 0.0))

    def check(self, *, slots: int, lanes: int, sums: bool) -> None:
        """Refuse a plan with fewer slots than must be recovered. Without sums a slot counts when it is recovered."""
        checks.whole("ending: least", self.least, least=0, most=slots)

    def needed(self, slots: int) -> int:
        """Return how many slots must have enough planned rows, where all are of one size."""
        return max(self.least, ceil(self.share * slots - TIES))

    def enough(self, share: float, slots: int) -> bool:
        """Return whether so much is a quorum."""
        return share >= self.share - TIES and slots >= self.least

    def condition(self, start: float) -> Condition:
        """Return that the quorum is there, and its grace over."""
        return _Grace(self, start)


class _Grace(Condition):
    def __init__(self, quorum: Quorum, start: float) -> None:
        self._quorum, self._start = quorum, start
        self._since: float | None = None

    def look(self, sums: Sums, now: float) -> float | None:
        """Return when the grace is over; it begins with the row or the slot that completes the quorum."""
        quorum = self._quorum
        if isinstance(quorum.grace, str) or not quorum.enough(sums.share, sum(sums.recovered)):
            self._since = None
        elif self._since is None:
            took = now - self._start
            wait = quorum.grace + quorum.stretch * took
            self._since = now if wait == 0 else self._start + (took + wait) * (1 + TIES)
        return self._since
