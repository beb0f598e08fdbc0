"""Rules that say how many rows each worker gets. A new rule is one file and one line in `SPLITS`."""

from collections.abc import Callable

from echelon.profile import Speeds
from echelon.splits.base import Split, largest_remainder
from echelon.splits.best import Score, best
from echelon.splits.theorem2 import theorem2
from echelon.splits.uniform import uniform

SPLITS: dict[str, Callable[[Speeds, int, float], Split]] = {
    "theorem2": theorem2,
    "uniform": uniform,
}

__all__ = ["SPLITS", "Score", "Split", "best", "largest_remainder", "theorem2", "uniform"]
