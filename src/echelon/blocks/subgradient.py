"""The stochastic projected subgradient method: prefer it for laws without a formula, or unequal workers.

At x and a draw of cycle times, let n be the level that ends last, n = argmax T_(N-n) c_n. Then T_(N-n) (i+1) for
i <= n, and 0 beyond, is a subgradient of tau (block, (5)); its mean over a batch of draws is a noisy one of E[tau].
Each step goes against it by a / sqrt(k) and back onto the simplex; the mean of the later half of all x is returned.

Differs from paper: batches, and a start at x(t) of a first batch. The projection sorts instead of bisecting.
"""

from collections.abc import Sequence

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray
from echelon.blocks.closed_forms import equalised
from echelon.blocks.partition import Partition, by_coordinates, work_until
from echelon.blocks.sampling import assess, checked_laws, sorted_times
from echelon.delays import Delay
from echelon.errors import ArgumentError
from echelon.seeds import generators

_FIRST = 2_000  # draws from which the start is made
_CHUNK = 50  # steps whose draws are made at once


def optimise_subgradient(
    workers: int,
    coordinates: int,
    law: Delay | Sequence[Delay],
    unit: float = 1.0,
    *,
    steps: int = 4_000,
    batch: int = 64,
    step_size: float = 0.5,
    seed: int = 1,
) -> Partition:
    """Return a partition near the optimum, from draws alone.

    law: one for all workers, or one per worker. steps, batch: how often x moves, and draws for each move.
    step_size: how far the first step goes, as a share of all coordinates; later ones go 1/sqrt(k) as far.

    >>> from echelon.delays import Pareto
    >>> found = optimise_subgradient(3, 100, Pareto(shape=2.5, scale=1.0), steps=500)
    >>> found.certificate is None, bool(np.isclose(found.x.sum(), 100))
    (True, True)
    """
    checks.whole("workers", workers, least=1)
    checks.whole("coordinates", coordinates, least=1)
    checks.number("unit", unit, above=0)
    checks.whole("steps", steps, least=1)
    checks.whole("batch", batch, least=1)
    checks.number("step_size", step_size, above=0)
    laws = checked_laws(law, workers)
    rng, fresh = generators(seed)
    means = sorted_times(laws, workers, _FIRST, rng).mean(axis=0)
    if means[0] <= 0:
        raise ArgumentError(f"law: {law!r} is not allowed; times must be > 0")
    z = equalised(means, 1.0)
    total, weight = np.zeros(workers), 0
    size = step_size / max(float(np.linalg.norm(_subgradient(z, sorted_times(laws, workers, _FIRST, rng)))), 1e-300)
    for first in range(0, steps, _CHUNK):
        count = min(_CHUNK, steps - first)
        draws = sorted_times(laws, workers, count * batch, rng).reshape(count, batch, workers)
        for k, times in enumerate(draws, start=first + 1):
            z = project(z - size / np.sqrt(k) * _subgradient(z, times))
            if 2 * k > steps:
                total += z
                weight += 1
    return assess(coordinates * total / weight, laws, unit, "subgradient", fresh)


def _subgradient(z: FloatArray, times: FloatArray) -> FloatArray:
    """Return the mean over draws of a subgradient of tau for unit 1; times are sorted, shape (draws, workers)."""
    slowest = times[:, ::-1]  # column n is T_(N-n)
    last = (slowest * work_until(z)).argmax(axis=1)
    by_work = np.bincount(last, weights=slowest[np.arange(len(times)), last], minlength=len(z)) / len(times)
    return by_coordinates(by_work)


def project(point: FloatArray, total: float = 1.0) -> FloatArray:
    """Return the nearest point with coordinates >= 0 that sum to `total`: all are lowered alike, and cut at 0.

    >>> project(np.array([1.0, 0.5, -2.0])).tolist()
    [0.75, 0.25, 0.0]
    """
    point = np.asarray(point, dtype=np.float64)
    if point.ndim != 1 or not point.size or not np.isfinite(point).all():
        raise ArgumentError(f"point: {point!r} is not allowed; must be a row of finite numbers")
    checks.number("total", total, above=0)
    falling = np.sort(point)[::-1]
    lowered = (np.cumsum(falling) - total) / np.arange(1, len(point) + 1)
    kept = int(np.flatnonzero(falling > lowered)[-1])
    nearest: FloatArray = np.maximum(point - lowered[kept], 0.0)
    return nearest
