"""The result of a split rule, and rounding that keeps the sum."""

from dataclasses import dataclass

import numpy as np

from echelon.arrays import FloatArray, IntArray
from echelon.html import table
from echelon.reprs import short_repr


@dataclass(frozen=True, eq=False)
class Split:
    """How many rows each worker gets: `counts` whole, `real` before rounding; `theta` where a rule has one."""

    counts: IntArray
    real: FloatArray
    theta: float | None = None

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        rows = zip(range(len(self.counts)), self.counts.tolist(), self.real.tolist(), strict=True)
        title = f"{self.tasks} rows for {self.active} of {len(self.counts)} workers"
        return table(title, ["place", "rows", "before rounding"], rows)

    @property
    def tasks(self) -> int:
        """Rows in all."""
        return int(self.counts.sum())

    @property
    def active(self) -> int:
        """Workers that get a row at all."""
        return int(np.count_nonzero(self.counts))


def largest_remainder(real: FloatArray, total: int) -> IntArray:
    """Round shares to whole numbers that sum to `total` and differ by less than 1 from them.

    >>> largest_remainder(np.array([1.5, 2.2, 0.3]), 4).tolist()
    [2, 2, 0]
    """
    floors = np.floor(real)
    missing = total - int(floors.sum())
    remainders = real - floors
    if missing < 0:
        # float noise pushed a share over a whole number: take back where the least is lost
        order = np.argsort(np.where(floors > 0, remainders, np.inf), kind="stable")
        floors[order[:-missing]] -= 1
    elif missing:
        # the largest remainders, the first of equal ones: a threshold and then ties, since sorting is slower
        least = np.partition(remainders, len(real) - missing)[len(real) - missing]
        above = remainders > least
        floors[above] += 1
        floors[np.flatnonzero(remainders == least)[: missing - np.count_nonzero(above)]] += 1
    return floors.astype(np.int64)
