"""What the endings of chains of products share: due slots, lanes that may be left undone, a wait for stragglers.

They differ in whose time sets the wait (sequential, sections 2.1 and 3); one file each.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from echelon import checks
from echelon.endings.base import TIES, Ending, EndRule, Lane, Row
from echelon.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class LaneEnding(Ending):
    """An ending that waits for the due slots, and for others in proportion to what the quickest worker took.

    due: slots that must be recovered.
    limits: pairs of lanes and a number: at most this many of these lanes may be left undone. A lane is done when each
        of its rows has arrived or belongs to a slot that is recovered.
    tolerance: mu; the round lasts 1 + mu times as long as the quickest worker took.
    """

    due: tuple[int, ...] = ()
    limits: tuple[tuple[tuple[int, ...], int], ...] = ()
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        checks.number("tolerance", self.tolerance, least=0)
        for limit in checks.items("limits", self.limits):
            pair = checks.items("limits", limit)
            if len(pair) != 2:
                raise ArgumentError(
                    f"limits: {checks.shown(limit)} is not allowed; must be lanes, and how many of them"
                )
            checks.whole("limits", pair[1], least=0)
            for lane in checks.items("limits", pair[0]):
                checks.whole("limits", lane, least=0)

    def check(self, *, slots: int, lanes: int, sums: bool) -> None:
        """Refuse a plan without the slots and lanes that the ending names."""
        for slot in self.due:
            checks.whole("ending: due", slot, least=0, most=slots - 1)
        for lane in (lane for some, _ in self.limits for lane in some):
            checks.whole("ending: limits", lane, least=0, most=lanes - 1)

    def needed(self, slots: int) -> int:
        """Return how many slots must be recovered: those that are due."""
        return len(set(self.due))

    def wait(self, start: float, now: float) -> float:
        """Return when the wait for the others ends, if the quickest worker is done now."""
        mu = self.tolerance
        return now if mu == 0 else start + (1 + mu) * (1 + TIES) * (now - start)


class Lanes:
    """The rows that each lane still lacks."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.left = [set(rows) for rows in lanes]
        self._of: dict[Row, list[int]] = {}
        for i, rows in enumerate(self.left):
            for row in rows:
                self._of.setdefault(row, []).append(i)

    def strike(self, row: Row) -> bool:
        """Strike out a row; return whether that was the last one a lane lacked."""
        lanes = self._of.pop(row, ())
        for lane in lanes:
            self.left[lane].discard(row)
        return any(not self.left[lane] for lane in lanes)

    def of_slot(self, slot: int) -> list[Row]:
        """Return the rows of a slot that lanes still lack."""
        return [row for row in self._of if row[0] == slot]


class LaneRule(EndRule):
    """What the lanes of one round still need, and which of them must be done."""

    def __init__(self, ending: LaneEnding, lanes: Sequence[Lane], start: float) -> None:
        self.ending, self.due, self.start = ending, ending.due, start
        self.needed = Lanes(lanes)
        self.ripe_at: float | None = None  # when the wait for the others ends

    def ripe(self, recovered: Sequence[bool]) -> float | None:
        """Return when the wait ends, if what must have come is there."""
        return self.ripe_at if self.ripe_at is not None and self.met(recovered) else None

    def awaited(self, short: Callable[[int], int]) -> Iterable[int]:
        """Return the due slots."""
        return self.due

    def met(self, recovered: Sequence[bool]) -> bool:
        """Return whether the due slots are recovered, and few enough lanes are undone."""
        return all(recovered[slot] for slot in self.due) and all(
            sum(bool(self.needed.left[lane]) for lane in lanes) <= most for lanes, most in self.ending.limits
        )

    def lacking(self, held: Collection[Row]) -> list[Row]:
        """Return rows that must be given out so that few enough lanes, and never all, are left undone."""
        coming, left = set(held), self.needed.left
        wanted: dict[Row, None] = {}
        for lanes, most in (*self.ending.limits, (range(len(left)), len(left) - 1)):
            missing = sorted((left[lane] - coming for lane in lanes), key=len)
            lost = [rows for rows in missing if rows]
            for rows in lost[: max(0, len(lost) - most)]:
                wanted |= dict.fromkeys(sorted(rows))
        return list(wanted)

    def ripen(self, now: float) -> None:
        """Take note that a worker is done, in the sense of this rule; the first one sets the wait."""
        if self.ripe_at is None:
            self.ripe_at = self.ending.wait(self.start, now)
