"""Rounds that end with the due slots: no one works on slots that are already recovered."""

from collections.abc import Iterable, Sequence

from echelon.endings.base import Lane, Row
from echelon.endings.lanes import LaneEnding, LaneRule
from echelon.endings.sums import Sums


class Due(LaneEnding):
    """End with the due slots, after 1 + mu times the time at which the first worker is done.

    Prefer it: a worker is done when each of its rows has arrived or belongs to a slot that is recovered, whoever
    recovered it. The round ends earlier where nothing is left to wait for: every worker is done.

    Differs from paper: there the quickest worker returns all its results first (`Fastest`), and a round without
    stragglers goes on to the end of the wait.
    """

    def rule(self, lanes: Sequence[Lane], start: float, sums: Sums) -> "DueRule":
        """Return the rule of one round that begins at `start`, from the rows of its lanes."""
        return DueRule(self, lanes, start)


class DueRule(LaneRule):
    """See `Due`."""

    def arrived(self, row: Row, now: float) -> None:
        """Take note of a row."""
        if self.needed.strike(row):
            self.ripen(now)

    def settled(self, slot: int, now: float) -> bool:
        """Take note that a slot is recovered: its rows are no longer needed."""
        for row in self.needed.of_slot(slot):
            self.arrived(row, now)
        return True

    def over(self, recovered: Sequence[bool], coming: Iterable[Row]) -> bool:
        """Return whether all workers are done, or nothing that counts is on its way."""
        return self.met(recovered) and (
            not any(self.needed.left) or not any(not recovered[slot] for slot, _ in coming)
        )  # fmt: skip
