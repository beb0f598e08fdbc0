"""What was loaded into a cluster, by key, as a worker has it: made when it is first needed, once."""

import itertools
from collections.abc import Callable
from threading import RLock
from typing import Any

from echelon.clusters.base import Attached, Work

new_key: Callable[[], int] = itertools.count(1 << 16).__next__  # keys of loaded things, all of one length when pickled


class Shelf:
    """Work and other things by key. Threads may share a shelf.

    >>> shelf = Shelf()
    >>> shelf.put(7, lambda: ["made", "once"], drop=lambda: print("no longer needed"))
    >>> shelf.get(7) is shelf.get(7)
    no longer needed
    True
    >>> shelf.pop(7)
    """

    def __init__(self) -> None:
        self._sources: dict[int, tuple[Callable[[], Any], Callable[[], None] | None]] = {}  # of what is not made yet
        self._made: dict[int, Any] = {}
        self._lock = RLock()

    def put(self, key: int, make: Callable[[], Any], drop: Callable[[], None] | None = None) -> None:
        """Say how something is made, in place of what the key named before.

        drop: gives back what it is made from; called once, when it has been made or is no longer needed.
        """
        with self._lock:
            self.pop(key)
            self._sources[key] = make, drop

    def get(self, key: int) -> Any:
        """Return what a key names; if it can't be made, the next call tries again."""
        with self._lock:
            if key in self._sources:
                made = self._sources[key][0]()
                self.pop(key)
                self._made[key] = made
            return self._made[key]

    def pop(self, key: int) -> None:
        """Forget what a key names, if it names anything."""
        with self._lock:
            self._made.pop(key, None)
            _, drop = self._sources.pop(key, (None, None))
            if drop is not None:
                drop()

    def bring(self, key: int, state: Any) -> tuple[Work, Any]:
        """Return the work of a round and its state, which finds here what else it needs."""
        if isinstance(state, Attached):
            state.attach(self.get)
        return self.get(key), state
