"""A lane with rows of the next job behind those of the round."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from echelon.arrays import NumberArray
from echelon.clusters.ahead import AheadState
from echelon.clusters.base import Work
from echelon.clusters.lane import Lane
from echelon.plan import AHEAD, is_ahead


class AheadLane:
    """The lane of a round, and rows of the next job's first round, in slots from `AHEAD` on.

    make: makes a lane from work and state. Errors of the next job are left to its own turn.
    """

    def __init__(self, lane: Lane, state: AheadState, make: Callable[[Work, Any], Lane]) -> None:
        self._lane, self._state, self._make = lane, state, make
        self._ahead: Lane | None = None

    def expect(self, rows: Iterable[tuple[int, int]]) -> None:
        """Register coming rows."""
        listed = list(rows)
        self._lane.expect((slot, row) for slot, row in listed if not is_ahead(slot))
        ahead = [(slot - AHEAD, row) for slot, row in listed if is_ahead(slot)]
        if ahead:
            with suppress(BaseException):
                if self._ahead is None:
                    self._ahead = self._make(*self._state.ahead())
                self._ahead.expect(ahead)

    @property
    def sizes(self) -> tuple[float, ...]:
        """The largest number of each segment of the last row of the round, where its work has told it."""
        return self._lane.sizes

    @property
    def added(self) -> bool:
        """Whether rows of the round are only ever added up."""
        return self._lane.added

    @property
    def computing(self) -> Sequence[int]:
        """The parts that the round's work computes just now."""
        return self._lane.computing

    def row(self, slot: int, row: int) -> tuple[bytes, list[NumberArray]] | None:
        """Return the form and the segments of a row's message, or None where it is not wanted, or fails ahead."""
        if not is_ahead(slot):
            return self._lane.row(slot, row)
        try:
            return None if self._ahead is None else self._ahead.row(slot - AHEAD, row)
        except BaseException:
            return None
