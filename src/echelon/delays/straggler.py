"""Independent stragglers: in each round a worker is slowed down with some probability, whatever came before."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import FloatArray
from echelon.delays.base import Delay
from echelon.delays.gamma import Gamma
from echelon.errors import ArgumentError


def slowed_moments(base: Delay, share: float, slowdown: float) -> tuple[float, float]:
    """Return mean and std of a task that is `slowdown` times slower in a `share` of the rounds."""
    mean = base.mean * (1 + share * (slowdown - 1))
    second = (base.mean**2 + base.std**2) * (1 + share * (slowdown**2 - 1))
    return mean, float(np.sqrt(max(second - mean**2, 0.0)))


def healthy_law(mean: float, std: float, share: float, slowdown: float) -> Delay:
    """Return the gamma law of a healthy task such that `slowed_moments` gives back `mean` and `std`."""
    healthy = mean / (1 + share * (slowdown - 1))
    variance = (mean**2 + std**2) / (1 + share * (slowdown**2 - 1)) - healthy**2
    # rounding leaves about 1e-16 of the mean's square where a constant healthy task is meant
    if variance < -1e-12 * mean**2:
        least = float(np.sqrt(healthy**2 * (1 + share * (slowdown**2 - 1)) - mean**2))
        raise ArgumentError(
            f"std: {std!r} is not allowed; must be at least {least:g}: rounds {slowdown:g} times slower in "
            f"{share:.3g} of the cases give that much (parameters can make them rarer or less slow)"
        )
    return Gamma.fit(healthy, float(np.sqrt(variance)) if variance > 1e-12 * mean**2 else 0.0)


@dataclass(frozen=True, kw_only=True)
class Straggler(Delay):
    """All tasks of a round are `slowdown` times slower with the given `probability`; `base` is a healthy task.

    >>> from echelon.delays import Deterministic
    >>> Straggler(base=Deterministic(time=1.0), probability=0.25, slowdown=5.0).mean
    2.0
    """

    base: Delay
    probability: float
    slowdown: float

    def __post_init__(self) -> None:
        checks.probability("probability", self.probability)
        checks.number("slowdown", self.slowdown, least=1)

    @property
    def mean(self) -> float:
        """Mean over healthy and slow rounds."""
        return slowed_moments(self.base, self.probability, self.slowdown)[0]

    @property
    def std(self) -> float:
        """Deviation over healthy and slow rounds."""
        return slowed_moments(self.base, self.probability, self.slowdown)[1]

    @property
    def closed(self) -> bool:
        """A mixture of two closed forms is one."""
        return self.base.closed

    @classmethod
    def fit(cls, mean: float, std: float, *, probability: float = 0.1, slowdown: float = 5.0) -> Self:
        """Return the law whose healthy tasks are gamma and whose overall moments are these."""
        checks.probability("probability", probability)
        checks.number("slowdown", slowdown, least=1)
        base = healthy_law(mean, std, probability, slowdown)
        return cls(base=base, probability=probability, slowdown=slowdown)

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return task times; one coin per round decides for all its tasks."""
        slow = rng.random(size[:-1]) < self.probability
        times = self.base.sample(size, rng)
        times *= np.where(slow, self.slowdown, 1.0)[..., None]
        return times

    def sums(self, counts: range, times: FloatArray) -> FloatArray:
        """Return the mixture of sums of healthy and of slow tasks."""
        slow = self.base.sums(counts, np.asarray(times) / self.slowdown)
        return (1 - self.probability) * self.base.sums(counts, times) + self.probability * slow

    def atoms(self, counts: range) -> FloatArray:
        """Return the atoms of healthy and of slow sums."""
        healthy = self.base.atoms(counts)
        return np.concatenate([healthy, healthy * self.slowdown])

    def kinks(self, counts: range) -> FloatArray:
        """Return the kinks of healthy and of slow sums."""
        healthy = self.base.kinks(counts)
        return np.concatenate([healthy, healthy * self.slowdown])
