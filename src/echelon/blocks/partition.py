"""Partitions of L coordinates into blocks of equal redundancy, and what they cost for given cycle times.

x_n coordinates can do without n of the N workers, n = 0 … N-1; a worker computes n + 1 subsets for each of them, in
order of rising n, so that it reaches the end of block n after c_n = sum_{i <= n} (i+1) x_i units of work.
"""

from dataclasses import dataclass

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.errors import ArgumentError
from echelon.reprs import short_repr
from echelon.splits import largest_remainder


@dataclass(frozen=True, eq=False, slots=True)
class Partition:
    """A partition and how good it is.

    x: coordinates at each level of redundancy, shape (workers,), real; `rounded` makes them whole.
    expected: its expected runtime.
    certificate: at most this share of `expected` could be saved by any other partition; None where it is not known.
    method: which of the methods found it.
    error: standard error of `expected` where it was sampled, else that of quadrature.
    gap: at most how far the partition is above the least mean over its own draws, as a share; None where not known.
    converged: whether the method closed that gap, or had none to close.
    """

    x: FloatArray
    expected: float
    certificate: float | None
    method: str
    error: float = 0.0
    gap: float | None = None
    converged: bool = True

    __repr__ = short_repr

    @property
    def counts(self) -> IntArray:
        """The partition in whole coordinates, of the same sum."""
        return rounded(self.x, round(float(self.x.sum())))


def checked_partition(name: str, x: object) -> FloatArray:
    """Return a partition as floats: numbers >= 0, at least one of them positive."""
    values = _floats(x)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all() or values.min() < 0 or values.max() == 0:
        raise ArgumentError(f"{name}: {checks.shown(x)} is not allowed; must be a row of numbers >= 0, one of them > 0")
    return values


def _floats(values: object) -> FloatArray:
    """Return an array of floats; an empty one for what is none."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return np.empty(0)


def checked_times(name: str, times: object, workers: int) -> FloatArray:
    """Return cycle times, shape (..., workers), sorted along the last axis."""
    values = _floats(times)
    if values.ndim < 1 or values.shape[-1] != workers or not np.isfinite(values).all() or (values < 0).any():
        raise ArgumentError(f"{name}: shape {values.shape} given; must be finite times >= 0, shape (..., {workers})")
    return np.sort(values, axis=-1)


def work_until(x: FloatArray) -> FloatArray:
    """Return c_n, the work of a worker until the end of each block.

    >>> work_until(np.array([1.0, 0.0, 2.0])).tolist()
    [1.0, 1.0, 7.0]
    """
    return np.cumsum(np.arange(1, len(x) + 1) * x)


def by_coordinates(by_work: FloatArray) -> FloatArray:
    """Return the derivatives by x of what has these derivatives by c: (i+1) times the sum of those for n >= i.

    >>> by_coordinates(np.array([1.0, 0.0, 2.0])).tolist()
    [3.0, 4.0, 6.0]
    """
    slopes: FloatArray = np.arange(1, len(by_work) + 1) * np.cumsum(by_work[::-1])[::-1]
    return slopes


def rounded(x: FloatArray, coordinates: int) -> IntArray:
    """Return whole coordinates that sum to `coordinates`, each less than 1 away from x (largest remainder).

    Differs from paper: plain rounding does not keep the sum (block, note 2).

    >>> rounded(np.array([1.4, 1.4, 1.2]), 4).tolist()
    [2, 1, 1]
    """
    x = checked_partition("x", x)
    checks.whole("coordinates", coordinates, least=1)
    if abs(float(x.sum()) - coordinates) > 1e-6 * coordinates:
        raise ArgumentError(f"x: it sums to {float(x.sum())!r}; must sum to coordinates, {coordinates}")
    return largest_remainder(x, coordinates)


def levels(x: IntArray) -> IntArray:
    """Return the redundancy s_l of each coordinate, rising, from whole blocks (block, (7)).

    >>> levels(np.array([1, 3, 0, 2])).tolist()  # block, Fig. 2
    [0, 1, 1, 1, 3, 3]
    """
    values = checked_partition("x", x)
    if (values != np.floor(values)).any():
        raise ArgumentError(f"x: {x!r} is not allowed; must be whole numbers (see `rounded`)")
    return np.repeat(np.arange(len(values), dtype=np.int64), values.astype(np.int64))


def blocks_of(s: IntArray, workers: int) -> IntArray:
    """Return how many coordinates have each redundancy 0 … workers-1 (block, (6)).

    >>> blocks_of(np.array([1, 1, 2, 2, 2, 3]), 4).tolist()  # block, Fig. 2
    [0, 2, 3, 1]
    """
    return np.bincount(_checked_levels(s, workers), minlength=workers).astype(np.int64)


def runtime_of(x: FloatArray, times: FloatArray, unit: float = 1.0) -> FloatArray:
    """Return tau(x, T) = unit * max_n T_(N-n) c_n (block, (5)) for cycle times of shape (..., workers), in any order.

    >>> runtime_of(np.array([0, 2, 2, 0]), np.array([[0.1, 0.1, 0.25, 1.0]])).tolist()  # block, Fig. 1(d)
    [1.0]
    """
    x = checked_partition("x", x)
    checks.number("unit", unit, above=0)
    latest: FloatArray = (checked_times("times", times, len(x))[..., ::-1] * work_until(x)).max(axis=-1)
    return unit * latest


def runtime_of_levels(s: IntArray, times: FloatArray, unit: float = 1.0) -> FloatArray:
    """Return tau(s, T) = unit * max_l T_(N-s_l) sum_{i <= l} (s_i + 1) (block, (2)); s in any order.

    >>> runtime_of_levels(np.array([1, 1, 1, 1]), np.array([0.1, 0.1, 0.25, 1.0])).tolist()  # block, Fig. 1(b)
    2.0
    """
    workers = np.shape(times)[-1] if np.ndim(times) else 1
    s = _checked_levels(s, workers)
    checks.number("unit", unit, above=0)
    ordered = checked_times("times", times, workers)
    latest: FloatArray = (ordered[..., workers - 1 - s] * np.cumsum(s + 1)).max(axis=-1)
    return unit * latest


def _checked_levels(s: object, workers: int) -> IntArray:
    values = np.asarray(s)
    checks.whole("workers", workers, least=1)
    if values.ndim != 1 or not values.size or values.dtype.kind not in "iu" or values.min() < 0:
        raise ArgumentError(f"s: {s!r} is not allowed; must be a row of whole numbers >= 0")
    if values.max() >= workers:
        raise ArgumentError(f"s: {int(values.max())} is not allowed; must be below the number of workers, {workers}")
    return values.astype(np.int64)
