"""Rounds that last until the fastest worker has returned all its results, and longer by a tolerance: the paper's."""

from collections.abc import Iterable, Sequence

from echelon.endings.base import Lane, Row
from echelon.endings.lanes import LaneEnding, LaneRule, Lanes
from echelon.endings.sums import Sums


class Fastest(LaneEnding):
    """End after 1 + mu times what the fastest worker took for all its rows, but not before the due slots.

    The waiting rule as printed (sequential, sections 2.1 and 3): workers compute rows of slots that are already
    recovered, the round waits for them, and it lasts as long without stragglers as with some. Prefer `Due`, which is
    quicker nearly everywhere; this is for comparing with the paper.

    Differs from paper: rows that are still needed decide who straggled (`limits`), as a finished product needs none;
    and where no worker is left that could return all its rows, the round ends with what it must have.
    """

    def rule(self, lanes: Sequence[Lane], start: float, sums: Sums) -> "FastestRule":
        """Return the rule of one round that begins at `start`, from the rows of its lanes."""
        return FastestRule(self, lanes, start)


class FastestRule(LaneRule):
    """See `Fastest`."""

    def __init__(self, ending: Fastest, lanes: Sequence[Lane], start: float) -> None:
        super().__init__(ending, lanes, start)
        self._whole = Lanes(lanes)

    def arrived(self, row: Row, now: float) -> None:
        """Take note of a row."""
        self.needed.strike(row)
        if self._whole.strike(row):
            self.ripen(now)

    def settled(self, slot: int, now: float) -> bool:
        """Take note that a slot is recovered; the round still waits for the rest of its rows."""
        for row in self.needed.of_slot(slot):
            self.needed.strike(row)
        return False

    def over(self, recovered: Sequence[bool], coming: Iterable[Row]) -> bool:
        """Return whether no worker has returned all its rows, and nothing more is on its way."""
        return self.ripe_at is None and self.met(recovered) and next(iter(coming), None) is None
