"""The gamma law: the default fit of a mean and a deviation, from constant times to very uneven ones."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy.special import gammainc

from echelon import checks
from echelon.arrays import FloatArray
from echelon.delays.base import Delay, sums_from
from echelon.delays.deterministic import Deterministic
from echelon.delays.exponential import Exponential


@dataclass(frozen=True, kw_only=True)
class Gamma(Delay):
    """Task times with a gamma law of the given `shape` and `scale`; sums of k tasks have shape k * shape.

    >>> Gamma(shape=4.0, scale=0.5).mean
    2.0
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        checks.number("shape", self.shape, above=0)
        checks.number("scale", self.scale, above=0)

    @property
    def mean(self) -> float:
        """Shape times scale."""
        return self.shape * self.scale

    @property
    def std(self) -> float:
        """Root of the shape times scale."""
        return float(np.sqrt(self.shape)) * self.scale

    closed = True  # sums are gamma distributed

    @classmethod
    def fit(cls, mean: float, std: float) -> Delay:
        """Return shape (mean/std)^2: the exponential law where std is mean, a constant where std is 0."""
        if std == mean:
            return Exponential(rate=1 / mean)
        if std == 0:
            return Deterministic(time=mean)
        return cls(shape=(mean / std) ** 2, scale=std**2 / mean)

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return independent task times."""
        times = rng.standard_gamma(self.shape, size)
        times *= self.scale
        return times

    def sums(self, counts: range, times: FloatArray) -> FloatArray:
        """Return regularised incomplete gamma functions of shape k * shape."""
        return sums_from(lambda k, t: gammainc(k * self.shape, t / self.scale), counts, times)
