"""Speeds of workers from what the master sees under purging.

A purged worker leaves a task unfinished, and long tasks are cut more often than short ones: the mean of the
finished ones makes a slow worker look fast (by 19 % in the paper's example, ruling 13). Busy time over
completions does not: for exponential tasks it is the maximum-likelihood estimate, and for others it is off by
at most the part of one task that a round leaves unfinished.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.profile import Speeds


@dataclass(frozen=True, slots=True)
class Estimate:
    """Speeds as known now: `speeds`, an interval (`low`, `high`) for each mean at `confidence`, and the number
    of tasks that stand behind each, prior included.
    """

    speeds: Speeds
    low: FloatArray
    high: FloatArray
    weight: FloatArray
    confidence: float


class SpeedEstimator:
    """Follows the workers: a prior from the declared profile, then busy time over completions.

    The declared speeds count as `prior` finished tasks. Older observations fade so that about `memory` tasks a
    worker are remembered (None: all of them). With B busy time and N completions remembered,

        mean = (prior * declared + B) / (prior + N),
        variance = (prior * declared variance + sum over rounds of (busy - mean * done)^2) / (prior + N);

    the second is exact for exponential tasks (busy - mean * done is a martingale whose variance grows by mean^2
    a task) and right to about one part in the number of tasks a round for others.

    >>> estimator = SpeedEstimator(Speeds(np.array([1.0]), np.array([1.0]), np.zeros(1)), prior=1)
    >>> estimator.observe(busy=np.array([[6.0], [4.0]]), done=np.array([[3], [2]]))
    >>> estimator.estimate().speeds.mean.round(3).tolist()
    [1.833]
    """

    def __init__(self, declared: Speeds, *, prior: float = 10.0, memory: float | None = None) -> None:
        self._declared = declared
        self._prior = checks.number("prior", prior, above=0)
        self._memory = None if memory is None else checks.number("memory", memory, above=0)
        workers = len(declared)
        self._busy, self._done, self._rest = np.zeros(workers), np.zeros(workers), np.zeros(workers)

    def observe(self, *, busy: FloatArray, done: IntArray) -> None:
        """Take in rounds: computing time and results of each worker, both of shape (rounds, workers).

        A worker without work in a round has 0 in both.
        """
        busy, done = np.asarray(busy, dtype=np.float64), np.asarray(done, dtype=np.float64)
        shape = (busy.shape[0] if busy.ndim else 0, len(self._declared))
        for name, values in (("busy", busy), ("done", done)):
            if values.shape != shape:
                raise ValueError(f"{name}: shape {values.shape} is not allowed; must be (rounds, {shape[1]})")
            if not (np.isfinite(values) & (values >= 0)).all():
                raise ValueError(f"{name}: must be finite and >= 0 everywhere")
        if self._memory is not None:
            # what came before fades by the tasks that came after it; within a batch likewise
            later = done[::-1].cumsum(axis=0)[::-1] - done
            fade = np.exp(-later / self._memory)
            past = np.exp(-done.sum(axis=0) / self._memory)
        else:
            fade, past = np.ones(shape), np.ones(shape[1])
        self._busy = past * self._busy + (fade * busy).sum(axis=0)
        self._done = past * self._done + (fade * done).sum(axis=0)
        mean = self._means()
        self._rest = past * self._rest + (fade * np.square(busy - mean * done)).sum(axis=0)

    def _means(self) -> FloatArray:
        return (self._prior * self._declared.mean + self._busy) / (self._prior + self._done)

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the speeds as known now, with an interval for each mean.

        The interval is that of a gamma-distributed busy time: B / mean has shape N spread^-2, where spread is the
        ratio of deviation to mean. The spread is an estimate itself: after a handful of rounds with next to no
        prior, intervals are somewhat too narrow.
        """
        if not 0 < checks.number("confidence", confidence) < 1:
            raise ValueError(f"confidence: {confidence!r} is not allowed; must be in (0, 1)")
        weight = self._prior + self._done
        mean = self._means()
        std = np.sqrt((self._prior * self._declared.std**2 + self._rest) / weight)
        shape = weight * np.square(mean / np.maximum(std, 1e-6 * mean))
        tail = (1 - confidence) / 2
        low = mean * shape / gammaincinv(shape, 1 - tail)
        high = mean * shape / gammaincinv(shape, tail)
        speeds = Speeds(mean, std, self._declared.link)
        return Estimate(speeds, low, high, weight, confidence)
