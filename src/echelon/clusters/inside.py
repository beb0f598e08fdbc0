"""What clusters with workers in this process share: work and states, without copies."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from echelon.clusters.adding import Adding
from echelon.clusters.base import Work
from echelon.clusters.shelf import Shelf


@dataclass(frozen=True, slots=True)
class Packed:
    """A copy of a value for the workers."""

    value: Any


class Inside(Adding):
    """A shelf that all workers share, and the state of the current round."""

    one_host = True

    def __init__(self) -> None:
        super().__init__()
        self._shelf = Shelf()
        self._state: tuple[int, int, Any] = (0, 0, None)

    def pack(self, value: Any) -> Packed:
        """Copy a value."""
        return Packed(deepcopy(value))

    def load(self, key: int, work: Any) -> None:
        """Keep a job's work."""
        self._shelf.put(key, lambda: work.value if isinstance(work, Packed) else work)

    def unload(self, key: int) -> None:
        """Forget a job's work, and the memory of its totals."""
        self._shelf.pop(key)
        self._rooms.clear()

    def broadcast(self, round: int, key: int, state: Any) -> None:
        """Set what the parts of a round are computed from."""
        self._state = round, key, state

    def _brought(self, round: int) -> tuple[Work, Any]:
        """Return work and state of the current round."""
        of_state, key, state = self._state
        assert of_state == round, "broadcast before assign"
        return self._shelf.bring(key, state)
