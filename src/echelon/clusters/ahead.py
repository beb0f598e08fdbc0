"""The state of a round with work ahead: what idle workers compute the next job's rows from."""

from collections.abc import Callable
from typing import Any

from echelon.clusters.base import Attached, Work


class AheadRequest:
    """What the parts of the next job's first round are computed from, loaded under its own key."""

    def __init__(self, value: Any) -> None:
        self.value = value


class AheadState(Attached):
    """The state of a round, and where to find what slots from `AHEAD` on are computed from.

    work, request: the keys under which they were loaded, a `Work` and an `AheadRequest`.
    """

    def __init__(self, state: Any, work: int, request: int) -> None:
        self.state = state
        self._work, self._request = work, request
        self._find: Callable[[int], Any] | None = None

    def attach(self, find: Callable[[int], Any]) -> None:
        """Take the function that finds things by key."""
        self._find = find

    def ahead(self) -> tuple[Work, Any]:
        """Return work and state of the next job."""
        assert self._find is not None
        return self._find(self._work), self._find(self._request).value
