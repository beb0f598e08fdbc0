"""The shifted exponential law, for tasks with a least time: the usual model of real machines."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.random import Generator
from scipy.special import gammainc

from echelon import checks
from echelon.arrays import FloatArray
from echelon.delays.base import Delay, sums_from
from echelon.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class ShiftedExponential(Delay):
    """Task times `shift` + Exp(`rate`); a sum of k is k * shift plus a gamma variable of shape k.

    >>> ShiftedExponential(shift=0.1, rate=2.0).mean
    0.6
    """

    shift: float
    rate: float

    def __post_init__(self) -> None:
        checks.number("shift", self.shift, least=0)
        checks.number("rate", self.rate, above=0)

    @property
    def mean(self) -> float:
        """Shift plus 1/rate."""
        return self.shift + 1 / self.rate

    @property
    def std(self) -> float:
        """1/rate: the shift does not vary."""
        return 1 / self.rate

    closed = True  # sums are shifted gamma variables

    @classmethod
    def fit(cls, mean: float, std: float) -> Self:
        """Return shift mean - std and rate 1/std; needs 0 < std <= mean."""
        if not 0 < std <= mean:
            raise ArgumentError(f"std: {std!r} is not allowed; must be > 0 and at most the mean, {mean!r}")
        return cls(shift=mean - std, rate=1 / std)

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return independent task times."""
        times = rng.standard_exponential(size)
        times *= 1 / self.rate  # much quicker than dividing
        times += self.shift
        return times

    def sums(self, counts: range, times: FloatArray) -> FloatArray:
        """Return incomplete gamma functions of what is left after k shifts."""
        return sums_from(lambda k, t: gammainc(k, np.maximum(t - k * self.shift, 0.0) * self.rate), counts, times)

    def kinks(self, counts: range) -> FloatArray:
        """Return k shifts, before which a sum of k can't end; from the ninth task on it begins smoothly enough."""
        return self.shift * np.arange(max(counts.start, 1), min(counts.stop, 9), dtype=np.float64)
