"""Speeds of workers from what the master sees under purging.

A purged worker leaves a task unfinished, and long tasks are cut more often than short ones: the mean of the
finished ones makes a slow worker look fast (by 19 % in the paper's example, note 13). Busy time over
completions does not: for exponential tasks it is the maximum-likelihood estimate, and for others it is off by
at most the part of one task that a round leaves unfinished.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, ndtri, stdtrit

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.errors import ArgumentError
from echelon.profile import Speeds
from echelon.reprs import short_repr


@dataclass(frozen=True, slots=True)
class Estimate:
    """Speeds as known now: `speeds`, and an interval (`low`, `high`) for each mean at `confidence`.

    `weight` is the number of tasks behind each mean, including the prior; faded ones count less.
    """

    speeds: Speeds
    low: FloatArray
    high: FloatArray
    weight: FloatArray
    confidence: float

    __repr__ = short_repr


class SpeedEstimator:
    """Follows the workers: a prior from the declared profile, then busy time over completions.

    The declared speeds count as `prior` finished tasks. Older observations fade so that about `memory` tasks per
    worker are remembered (None: all of them). With B busy time and N completions remembered,

        mean = (prior * declared + B) / (prior + N),
        variance = (prior * declared variance + sum over rounds of (busy - mean * done)^2) / (prior + N);

    the second is right for exponential tasks (busy - mean * done is a martingale whose variance grows by mean^2 per
    task). For others the task that a purge cuts short adds up to mean^2 / 3 per round: little next to the variance of N
    tasks where tasks vary much, but most of what is seen where they hardly vary.

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
        self._squares, self._rounds = np.zeros(workers), np.zeros(workers)

    def observe(self, *, busy: FloatArray, done: IntArray | FloatArray) -> None:
        """Observe rounds: computing time and results of each worker, both of shape (rounds, workers).

        A worker without work in a round has 0 in both.
        """
        busy, done = np.asarray(busy, dtype=np.float64), np.asarray(done, dtype=np.float64)
        shape = (busy.shape[0] if busy.ndim else 0, len(self._declared))
        for name, values in (("busy", busy), ("done", done)):
            if values.shape != shape:
                raise ArgumentError(f"{name}: shape {values.shape} is not allowed; must be (rounds, {shape[1]})")
            if not ((values >= 0) & (values < np.inf)).all():
                raise ArgumentError(f"{name}: must be finite and >= 0 everywhere")
        # what came before fades by the tasks that came after it; within a batch likewise
        past = 1.0 if self._memory is None else np.exp(-_total(done) / self._memory)
        fade = None
        if self._memory is not None and shape[0] > 1:
            fade = np.exp((done - done[::-1].cumsum(axis=0)[::-1]) / self._memory)
        self._busy = past * self._busy + _total(busy, fade)
        self._done = past * self._done + _total(done, fade)
        self._squares = past * past * self._squares + _total(done, None if fade is None else fade * fade)
        self._rounds = past * self._rounds + _total(np.sign(busy), fade)
        self._rest = past * self._rest + _total(np.square(busy - self.means() * done), fade)

    def means(self) -> FloatArray:
        """Return the seconds per task of each worker, as known now."""
        return (self._prior * self._declared.mean + self._busy) / (self._prior + self._done)

    def deviations(self) -> FloatArray:
        """Return how much task times vary, as known now."""
        return np.sqrt((self._prior * self._declared.std**2 + self._rest) / (self._prior + self._done))

    def speeds(self) -> Speeds:
        """Return the speeds as known now, without intervals."""
        return Speeds(self.means(), self.deviations(), self._declared.link)

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the speeds as known now, with an interval for each mean.

        The interval is that of a gamma-distributed busy time: B / mean has shape n / spread^2, where n counts the
        remembered tasks (faded ones by the squares of their weights) and spread is the ratio of deviation to mean.
        The spread is known only from a limited number of rounds: it is widened as Student's quantiles are.
        """
        if not 0 < checks.number("confidence", confidence) < 1:
            raise ArgumentError(f"confidence: {confidence!r} is not allowed; must be in (0, 1)")
        weight = self._prior + self._done
        speeds = self.speeds()
        mean, std = speeds.mean, speeds.std
        tail = (1 - confidence) / 2
        remembered = weight**2 / (self._prior + self._squares)
        # one round's worth of freedom went into the mean
        freedom = self._prior + np.maximum(self._rounds - 1, 1.0)
        student = stdtrit(freedom, 1 - tail) / ndtri(1 - tail)
        shape = remembered * np.square(mean / np.maximum(std, 1e-6 * mean) / student)
        shape *= np.minimum(freedom / (self._prior + self._rounds), 1.0)
        with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
            # too few tasks for such a spread, so quantiles underflow: nothing is known
            low = np.minimum(np.nan_to_num(mean * shape / gammaincinv(shape, 1 - tail), nan=0.0), mean)
            high = np.nan_to_num(mean * shape / gammaincinv(shape, tail), nan=np.inf, posinf=np.inf)
        return Estimate(speeds, low, high, weight, confidence)


def _total(values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the sum over rounds, each with its weight; most often there is one, and nothing to sum."""
    if weights is not None:
        values = weights * values
    total: FloatArray = values[0] if len(values) == 1 else values.sum(axis=0)
    return total
