"""The places of a cluster's workers: a worker that dies is replaced at the same place, under a new number.

A place whose workers die again and again before they are ready is filled ever more slowly. No clock is read here.
"""

import itertools
import logging
from collections.abc import Callable

log = logging.getLogger("echelon.clusters")

_EARLY = 3  # deaths in a row, before it was ready, after which a place is filled ever more slowly
_FIRST_S, _SLOWEST_S = 0.1, 30.0


class Places:
    """When each place is filled again; `births` counts the workers that were ready.

    >>> places = Places(2)
    >>> places.next_number(), places.next_number()
    (0, 1)
    >>> places.came_up(1)
    >>> places.died(1, 1, up=True, now=5.0, reason="killed")
    >>> places.wait(None, 5.0), places.due(5.0), places.wait(None, 5.0)
    (0.0, [1], None)
    """

    def __init__(self, count: int) -> None:
        self.births = 0
        self.next_number: Callable[[], int] = itertools.count().__next__
        self._deaths = [0] * count  # in a row, before it was ready
        self._refused: dict[int, int] = {}  # how often in a row a place could not be filled
        self._due: dict[int, float] = {}  # by place

    def came_up(self, place: int) -> None:
        """Note that the worker at a place is ready."""
        self.births += 1
        self._deaths[place] = 0
        self._refused.pop(place, None)

    def died(self, number: int, place: int, *, up: bool, now: float, reason: str) -> None:
        """Note a death; `up`: of a worker that was ready, whose place is filled at once."""
        self._deaths[place] = 0 if up else self._deaths[place] + 1
        again = self._deaths[place] - _EARLY
        wait = 0.0 if again < 0 else _back_off(again)
        if wait:
            log.warning(
                "worker %d (place %d) died before it was ready, %d times in a row; next try in %.1f s: %s",
                number, place, self._deaths[place], wait, reason,
            )  # fmt: skip
        self._due[place] = now + wait

    def refused(self, place: int, *, now: float, reason: str) -> None:
        """Note that the system has too little just now to fill a place; it is due again later."""
        again = self._refused[place] = self._refused.get(place, -1) + 1
        if not again:
            log.warning("no worker can be started at place %d now, which is tried again: %s", place, reason)
        self._due[place] = now + _back_off(again)

    @property
    def hopeless(self) -> bool:
        """Whether no worker was ever ready, and some place has failed several times."""
        return not self.births and max(self._deaths) >= _EARLY

    def due(self, now: float) -> list[int]:
        """Return the places to be filled now, each of them once."""
        found = [place for place, due in self._due.items() if due <= now]
        for place in found:
            del self._due[place]
        return found

    def next_due(self) -> float | None:
        """Return when the next place is to be filled, if any is."""
        return min(self._due.values(), default=None)

    def wait(self, end: float | None, now: float) -> float | None:
        """Return the seconds until `end` or until a place is to be filled, whichever comes first (None: neither)."""
        ends = [moment for moment in (end, self.next_due()) if moment is not None]
        return max(0.0, min(ends) - now) if ends else None


def _back_off(again: int) -> float:
    return min(_FIRST_S * 2.0 ** min(again, 10), _SLOWEST_S)
