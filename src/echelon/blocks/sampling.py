"""Cycle times by the draw, and what a partition is worth: exactly where the law allows it, else over fresh draws."""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from echelon.arrays import FloatArray
from echelon.blocks.partition import Partition, work_until
from echelon.blocks.runtime import expected_runtime
from echelon.delays import Delay, per_worker, sample_all
from echelon.errors import NoClosedForm

EXACT_WORKERS = 200  # beyond, a sampled mean is quicker than an exact one
FRESH_DRAWS = 100_000
_BLOCK = 1 << 21


def sorted_times(laws: Delay | Sequence[Delay], workers: int, draws: int, rng: Generator) -> FloatArray:
    """Return independent draws of all workers' cycle times, each sorted, shape (draws, workers).

    laws: one for all workers, or one per worker; sorting is all that unequal workers need.
    """
    if isinstance(laws, Delay):
        times = laws.sample((draws, workers, 1, 1), rng)[..., 0, 0]
    else:
        listed = per_worker(laws, workers, "law")
        times = np.column_stack([seen[:, 0, 0] for seen in sample_all(listed, (draws, 1, 1), [rng] * workers)])
    return np.sort(times, axis=1)


def checked_laws(law: Delay | Sequence[Delay], workers: int) -> Delay | Sequence[Delay]:
    """Return one law for all workers, or one per worker."""
    return law if isinstance(law, Delay) else per_worker(law, workers, "law")


def arrivals(x: FloatArray, times: FloatArray, unit: float, message_time: float = 0.0) -> FloatArray:
    """Return when each block is recovered, shape (draws, workers), from the last level to level 0.

    Level n takes T_(N-n) unit c_n (block, (5)) and the messages of all coordinates up to it.
    """
    recovered: FloatArray = times * (unit * work_until(x))[::-1]
    return recovered + message_time * np.cumsum(x)[::-1] if message_time else recovered


def assess(
    x: FloatArray,
    law: Delay | Sequence[Delay],
    unit: float,
    method: str,
    rng: Generator | None = None,
    message_time: float = 0.0,
    held: int | None = None,
    gap: float | None = None,
    converged: bool = True,
) -> Partition:
    """Return a partition with its expected runtime and certificate; sampled from `rng` where there is no formula.

    held: how many of the levels may be used; the certificate is against partitions that use no other.
    gap, converged: how the search that found x ended.
    """
    if isinstance(law, Delay) and not message_time and (rng is None or len(x) <= EXACT_WORKERS):
        try:
            found = expected_runtime(x, law, unit)
        except NoClosedForm:
            if rng is None:
                raise
        else:
            # quadrature may be off by its stated error in both
            bound = float(x.sum()) * float(found.gradient[:held].min())
            certificate = max(1 - bound / found.mean, 0.0) + found.error / found.mean
            return Partition(x, found.mean, certificate, method, found.error, gap, converged)
    assert rng is not None
    mean, error = sampled_means([x], law, unit, rng, message_time)[0]
    return Partition(x, mean, None, method, error, gap, converged)


def sampled_means(
    partitions: Sequence[FloatArray],
    law: Delay | Sequence[Delay],
    unit: float,
    rng: Generator,
    message_time: float = 0.0,
) -> list[tuple[float, float]]:
    """Return the mean runtime of each partition and its standard error, over fresh draws that all of them share."""
    workers = len(partitions[0])
    latest = np.empty((len(partitions), FRESH_DRAWS))
    rows = max(1, _BLOCK // workers)
    for at in range(0, FRESH_DRAWS, rows):
        times = sorted_times(law, workers, min(rows, FRESH_DRAWS - at), rng)
        for i, x in enumerate(partitions):
            latest[i, at : at + rows] = arrivals(x, times, unit, message_time).max(axis=1)
    return [(float(each.mean()), float(each.std(ddof=1)) / np.sqrt(FRESH_DRAWS)) for each in latest]
