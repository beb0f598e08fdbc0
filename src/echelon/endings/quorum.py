"""Rounds that end without some of their slots: when enough of them are recovered, and a grace is over."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from echelon import checks
from echelon.endings.base import TIES, Ending, EndRule, Lane, Row


@dataclass(frozen=True, kw_only=True)
class Quorum(Ending):
    """End when a quorum of the slots is recovered, and a grace has passed; at once when all are.

    Prefer it where a result without some of the slots is worth nearly as much as the whole: local steps, sums over
    samples. What comes within the grace counts; what is under way at the end is dropped. Where lanes serve S slots, the
    quorum is

        Q = max(least, ceil(share * S)) of them, with all that are due,

    and a round that began at time 0 and has its quorum at time t ends at t + grace + stretch * t. What is lost with its
    worker is given out again only if the quorum can't be met without it.

    share: of the slots. least: how many of them, at least one.
    grace: seconds. stretch: more of it, as a share of the time that the quorum took.

    >>> Quorum(share=0.75).needed(8), Quorum(least=6).needed(8), Quorum(share=1.0).needed(8)
    (6, 6, 8)
    """

    share: float = 0.0
    least: int = 1
    grace: float = 0.0
    stretch: float = 0.0

    def __post_init__(self) -> None:
        checks.probability("share", self.share)
        checks.whole("least", self.least, least=1)
        checks.number("grace", self.grace, least=0)
        checks.number("stretch", self.stretch, least=0)

    def check(self, *, slots: int, lanes: int) -> None:
        """Refuse a plan with fewer slots than must be recovered."""
        super().check(slots=slots, lanes=lanes)
        checks.whole("ending: least", self.least, least=1, most=slots)

    def needed(self, slots: int) -> int:
        """Return how many slots must be recovered at least, where lanes serve so many."""
        return max(self.least, ceil(self.share * slots - TIES))

    def rule(self, lanes: Sequence[Lane], start: float) -> "QuorumRule":
        """Return the rule of one round that begins at `start`, from the rows of its lanes."""
        return QuorumRule(self, lanes, start)


class QuorumRule(EndRule):
    """See `Quorum`."""

    def __init__(self, ending: Quorum, lanes: Sequence[Lane], start: float) -> None:
        self._ending, self.due, self._start = ending, ending.due, start
        self._open = {slot for lane in lanes for slot, _ in lane}  # not recovered so far
        self._left = ending.needed(len(self._open))  # how many more are wanted

    def arrived(self, row: Row, now: float) -> None:
        """Take note of a row: only slots count."""

    def settled(self, slot: int, now: float) -> bool:
        """Take note that a slot is recovered; the one that completes the quorum begins the grace."""
        self._open.discard(slot)
        self._left -= 1
        if self.ripe_at is None and self._left <= 0 and self._open.isdisjoint(self.due):
            took = now - self._start
            wait = self._ending.grace + self._ending.stretch * took
            self.ripe_at = now if wait == 0 else self._start + (took + wait) * (1 + TIES)
        return True

    def met(self, recovered: Sequence[bool]) -> bool:
        """Return whether the quorum is there."""
        return self.ripe_at is not None

    def over(self, recovered: Sequence[bool], coming: Iterable[Row]) -> bool:
        """Return whether the quorum is there, and nothing that counts is on its way."""
        return self.met(recovered) and not any(not recovered[slot] for slot, _ in coming)

    def lacking(self, held: Collection[Row]) -> list[Row]:
        """Return no rows: what counts are slots."""
        return []

    def awaited(self, short: Callable[[int], int]) -> Iterable[int]:
        """Return the due slots, and those that lack least, as many as the quorum can't do without."""
        others = {slot: short(slot) for slot in sorted(self._open.difference(self.due))}
        coming = sum(not lack for lack in others.values())
        missing = self._left - coming - len(self._open.intersection(self.due))
        lost = sorted((slot for slot, lack in others.items() if lack), key=lambda slot: (others[slot], slot))
        return [*self.due, *lost[: max(0, missing)]]
