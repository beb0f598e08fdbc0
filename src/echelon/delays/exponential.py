"""The exponential law, for workers whose next result is always equally near: the model of the stream paper."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.random import Generator
from scipy.special import gammainc, gammaln

from echelon import checks
from echelon.arrays import FloatArray
from echelon.delays.base import Delay


@dataclass(frozen=True, kw_only=True)
class Exponential(Delay):
    """Task times with P(T > t) = exp(-rate * t).

    The number of tasks done by time t is Poisson, so the sum of k tasks has
    P(S_k <= t) = P(Poisson(rate * t) >= k) (stream, section IV with note 8).

    >>> Exponential(rate=0.5).sums(range(0, 3), np.array([2.0])).round(4).tolist()
    [[1.0, 0.6321, 0.2642]]
    """

    rate: float

    def __post_init__(self) -> None:
        checks.number("rate", self.rate, above=0)

    @property
    def mean(self) -> float:
        """1/rate."""
        return 1 / self.rate

    @property
    def std(self) -> float:
        """1/rate too: both moments have one parameter."""
        return 1 / self.rate

    closed = True  # sums are gamma distributed

    @classmethod
    def fit(cls, mean: float, std: float) -> Self:
        """Return the exponential law of this mean; its std is the mean, whatever was measured."""
        return cls(rate=1 / mean)

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return independent task times."""
        times = rng.standard_exponential(size)
        times *= 1 / self.rate
        return times

    def sums(self, counts: range, times: FloatArray) -> FloatArray:
        """Return tails of the Poisson law, summed from the far end so that all terms are positive."""
        times = np.asarray(times, dtype=np.float64)
        # a load of 1e-300 stands for 0: its logarithm is finite, and its powers vanish all the same
        load = np.maximum(times * self.rate, 1e-300)
        ks = np.arange(counts.start, counts.stop, dtype=np.float64)
        pmf = np.exp(ks * np.log(load)[:, None] - load[:, None] - gammaln(ks + 1))  # P(N = k)
        tails: FloatArray = np.empty_like(pmf)
        tails[:, -1] = gammainc(ks[-1], load) if ks[-1] > 0 else 1.0
        tails[:, :-1] = pmf[:, -2::-1].cumsum(axis=1)[:, ::-1] + tails[:, -1:]
        np.minimum(tails, 1.0, out=tails)
        tails[times <= 0] = 0.0
        if counts.start == 0:
            tails[:, 0] = times >= 0
        return tails
