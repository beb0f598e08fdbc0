"""Constant task times, for machines that never vary; also the limit of every fit as std goes to 0."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import FloatArray
from echelon.delays.base import Delay, sums_from


@dataclass(frozen=True, kw_only=True)
class Deterministic(Delay):
    """Every task takes `time`.

    >>> Deterministic(time=2.0).sums(range(1, 4), np.array([4.0])).tolist()
    [[1.0, 1.0, 0.0]]
    """

    time: float

    def __post_init__(self) -> None:
        checks.number("time", self.time, above=0)

    @property
    def mean(self) -> float:
        """The time."""
        return self.time

    @property
    def std(self) -> float:
        """Zero."""
        return 0.0

    closed = True  # sums are constants

    @classmethod
    def fit(cls, mean: float, std: float) -> Self:
        """Return the constant `mean`; the std is 0, whatever was measured."""
        return cls(time=mean)

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return the same time everywhere; nothing is drawn."""
        return np.full(size, self.time, dtype=np.float64)

    def sums(self, counts: range, times: FloatArray) -> FloatArray:
        """Return steps from 0 to 1 at k times the mean."""
        return sums_from(lambda k, t: np.where(t >= k * self.time, 1.0, 0.0), counts, times)

    def atoms(self, counts: range) -> FloatArray:
        """Return k times the mean."""
        return self.time * np.arange(counts.start, counts.stop, dtype=np.float64)
