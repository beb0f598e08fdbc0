"""When a round with an `Ending` of its own is over: the due slots are there, few enough lanes are undone, and the wait
for stragglers has lasted long enough (sequential, section 2.1).
"""

from collections.abc import Iterable

from echelon.plan import TIES, Plan

Row = tuple[int, int]  # slot and row


class EndRule:
    """How far the lanes of one round are, and whether it may end.

    ripe_at: when the wait that the first lane gives the others is over; None before a lane is done.
    """

    def __init__(self, plan: Plan, start: float) -> None:
        assert plan.ending is not None
        self.ending = plan.ending
        self.ripe_at: float | None = None
        self._start = start
        self._left = [{(task.slot, task.row) for task in lane} for lane in plan.lanes]
        self._lanes: dict[Row, list[int]] = {}
        for i, rows in enumerate(self._left):
            for row in rows:
                self._lanes.setdefault(row, []).append(i)

    def arrived(self, row: Row, now: float) -> None:
        """Take note of a row."""
        for lane in self._lanes.pop(row, ()):
            self._left[lane].discard(row)
            if not self._left[lane] and self.ripe_at is None:
                self.ripe_at = self._ripe(now)

    def _ripe(self, now: float) -> float:
        mu = self.ending.tolerance
        return now if mu == 0 else self._start + (1 + mu) * (1 + TIES) * (now - self._start)

    def settled(self, slot: int, now: float) -> None:
        """Take note that a slot is recovered: nobody waits for its rows."""
        for row in [row for row in self._lanes if row[0] == slot]:
            self.arrived(row, now)

    def met(self, recovered: list[bool]) -> bool:
        """Return whether all that must be there is there."""
        return all(recovered[slot] for slot in self.ending.due) and all(
            sum(bool(self._left[lane]) for lane in lanes) <= most for lanes, most in self.ending.limits
        )

    def over(self, recovered: list[bool], coming: bool) -> bool:
        """Return whether the round may end at once; `coming` says whether anything that counts is on its way."""
        return self.met(recovered) and (not coming or not any(self._left))

    def lacking(self, held: Iterable[Row]) -> list[Row]:
        """Return rows that must be given out so that few enough lanes are left undone, and not all of them."""
        coming = set(held)
        wanted: dict[Row, None] = {}
        for lanes, most in (*self.ending.limits, (range(len(self._left)), len(self._left) - 1)):
            missing = sorted((self._left[lane] - coming for lane in lanes), key=len)
            lost = [rows for rows in missing if rows]
            for rows in lost[: max(0, len(lost) - most)]:
                wanted |= dict.fromkeys(sorted(rows))
        return list(wanted)
