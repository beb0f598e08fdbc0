"""Rounds that end as soon as their result is near enough to the exact one."""

from dataclasses import dataclass

from echelon import checks
from echelon.endings.base import TIES
from echelon.endings.policy import Condition, Policy
from echelon.endings.sums import Sums
from echelon.errors import ArgumentError


@dataclass(frozen=True)
class Residual(Policy):
    """End with the first rows whose residual |alpha - 1| / |1| is at most `most`.

    Prefer it where results may be a little off, whatever the workers do: with sparse codes the first rows that come
    near are often far fewer than those that are exact. With parts of about one size that point anywhere, `most` is the
    relative error of the sum; an uncoded sum without the share q of its parts has the residual sqrt(q). It is that of
    the rows, before a job that is `unbiased` scales their sum: then sqrt(q / (1 - q)) is told of it.

    >>> Residual(0.1).enough(0.99, 1), Residual(0.1).enough(0.98, 1)
    (True, False)
    """

    most: float

    def __post_init__(self) -> None:
        if checks.number("most", self.most, least=0) >= 1:
            raise ArgumentError(f"most: {self.most!r} is not allowed; must be below 1, which is that of nothing at all")

    def enough(self, share: float, slots: int) -> bool:
        """Return whether so much is near enough."""
        return 1 - share <= self.most**2 + TIES

    def condition(self, start: float) -> Condition:
        """Return that the rows are near enough."""
        return _Near(self)


class _Near(Condition):
    def __init__(self, policy: Residual) -> None:
        self._policy = policy
        self._since: float | None = None

    def look(self, sums: Sums, now: float) -> float | None:
        """Return since when the rows are near enough."""
        if not self._policy.enough(sums.share, 0):
            self._since = None
        elif self._since is None:
            self._since = now
        return self._since
