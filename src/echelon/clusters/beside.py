"""A state with another job beside it, for workers that have nothing else to do before the round is over."""

from collections.abc import Callable
from typing import Any

from echelon.clusters.base import Attached, Work


class Request:
    """What the parts of a round are computed from, to be loaded under a key of its own."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Beside(Attached):
    """The state of a round, and where to find what slots from number `first` on are computed from: another job's.

    work, request: the keys under which they were loaded, a `Work` and a `Request`.
    """

    def __init__(self, state: Any, first: int, work: int, request: int) -> None:
        self.state, self.first = state, first
        self._work, self._request = work, request
        self._find: Callable[[int], Any] | None = None

    def attach(self, find: Callable[[int], Any]) -> None:
        """Take what finds things by their keys."""
        self._find = find

    def other(self) -> tuple[Work, Any]:
        """Return work and state of the other job."""
        assert self._find is not None
        return self._find(self._work), self._find(self._request).value
