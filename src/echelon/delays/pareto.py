"""The Pareto law, for workers that are now and then far slower than their average (heavy tail)."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import FloatArray
from echelon.delays.base import Delay
from echelon.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Pareto(Delay):
    """Task times with P(T > t) = (scale/t)^shape for t >= scale; needs shape > 1, or there is no mean.

    >>> Pareto(shape=3.0, scale=2.0).mean
    3.0
    """

    shape: float
    scale: float

    def __post_init__(self) -> None:
        checks.number("shape", self.shape, above=1)
        checks.number("scale", self.scale, above=0)

    @property
    def mean(self) -> float:
        """Scale * shape / (shape - 1)."""
        return self.scale * self.shape / (self.shape - 1)

    @property
    def std(self) -> float:
        """Mean / sqrt(shape (shape - 2)); inf for shape <= 2."""
        if self.shape <= 2:
            return float("inf")
        return self.mean / float(np.sqrt(self.shape * (self.shape - 2)))

    @classmethod
    def fit(cls, mean: float, std: float) -> Self:
        """Return shape 1 + sqrt(1 + (mean/std)^2), always > 2, and the scale that gives the mean."""
        if not std > 0:
            raise ArgumentError(f"std: {std!r} is not allowed; must be > 0 for a Pareto law")
        shape = 1 + float(np.sqrt(1 + (mean / std) ** 2))
        return cls(shape=shape, scale=mean * (shape - 1) / shape)

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return independent task times, as scale * exp(Exp(shape))."""
        times = rng.standard_exponential(size)
        times /= self.shape
        np.exp(times, out=times)
        times *= self.scale
        return times
