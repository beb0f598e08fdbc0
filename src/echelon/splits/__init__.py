"""Rules that say how many rows each worker gets. A new rule is one file and one line in `SPLITS`."""

from typing import Protocol

from echelon.profile import Speeds
from echelon.splits.base import Split, largest_remainder
from echelon.splits.theorem2 import theorem2
from echelon.splits.uniform import uniform


class Rule(Protocol):
    """A rule: rows for workers of these speeds, where the first task of a lane costs `first` and the others 1."""

    def __call__(self, speeds: Speeds, tasks: int, gamma: float = 1.0, *, first: float = 1.0) -> Split:
        """Return the split."""


SPLITS: dict[str, Rule] = {
    "theorem2": theorem2,
    "uniform": uniform,
}

__all__ = ["SPLITS", "Rule", "Split", "largest_remainder", "theorem2", "uniform"]
