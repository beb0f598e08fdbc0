"""Recorded task times, replayed, for workers whose law is not known."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.delays.base import Delay
from echelon.reprs import short_repr


@dataclass(frozen=True)
class Trace(Delay):
    """Task times in the order recorded, from a random place on, wrapping around; drift and bursts survive.

    >>> Trace(times=[1.0, 2.0, 6.0]).mean
    3.0
    """

    times: tuple[float, ...]

    __repr__ = short_repr

    def __init__(self, *, times: Sequence[float]) -> None:
        kept = checks.record("times", times)
        object.__setattr__(self, "times", kept)
        object.__setattr__(self, "_record", np.array(kept))

    @property
    def mean(self) -> float:
        """Mean of the record."""
        return float(np.mean(self.times))

    @property
    def std(self) -> float:
        """Deviation of the record."""
        return float(np.std(self.times))

    independent_rounds = False  # one round begins where the last one ended

    @classmethod
    def fit(cls, mean: float, std: float, *, times: Sequence[float] = ()) -> Self:
        """Return the record `times` stretched to this mean; its relative spread stays as recorded."""
        factor = mean / cls(times=times).mean
        return cls(times=[time * factor for time in times])

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return stretches of the record, each from its own random place."""
        rounds, tasks = size[-2:]
        seeds = int(np.prod(size[:-2], dtype=np.int64))
        return self.advance(self.begin(seeds, rng), (seeds, rounds, tasks), rng)[0].reshape(size)

    def begin(self, seeds: int, rng: Generator) -> IntArray:
        """Return the place in the record at which each worker starts."""
        return rng.integers(0, len(self.times), seeds)

    def advance(self, state: IntArray, size: tuple[int, int, int], rng: Generator) -> tuple[FloatArray, IntArray]:
        """Return the next stretch of the record and the place after it."""
        _, rounds, tasks = size
        places = state[:, None] + np.arange(rounds * tasks)
        record: FloatArray = self._record  # type: ignore[attr-defined]
        return record[places % len(record)].reshape(size), (state + rounds * tasks) % len(record)
