"""One pace per round: a worker that is slow in a round is slow for all of its tasks, as in model (5) of mmc."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from echelon.arrays import FloatArray
from echelon.delays.base import Delay, sums_from
from echelon.delays.deterministic import Deterministic
from echelon.delays.gamma import Gamma
from echelon.delays.shifted_exponential import ShiftedExponential
from echelon.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class RoundPace(Delay):
    """All tasks of a round take the same time X, drawn anew from `base` each round: s of them take s X (mmc, (5)).

    >>> RoundPace(base=ShiftedExponential(shift=0.01, rate=10.0)).mean
    0.11
    """

    base: Delay

    def __post_init__(self) -> None:
        if not isinstance(self.base, Delay):
            raise ArgumentError(f"base: {self.base!r} is not allowed; must be a Delay")

    @property
    def mean(self) -> float:
        """Mean of the pace."""
        return self.base.mean

    @property
    def std(self) -> float:
        """Deviation of the pace from round to round."""
        return self.base.std

    @property
    def closed(self) -> bool:
        """A multiple of the pace has a distribution where the pace has one."""
        return self.base.closed

    @property
    def independent_rounds(self) -> bool:
        """Paces of different rounds are as independent as the base's draws."""
        return self.base.independent_rounds

    @property
    def together(self) -> Hashable:
        """Paces that were recorded together stay together."""
        return None if self.base.together is None else ("pace", self.base.together)

    @property
    def cycle(self) -> int | None:
        """Paces come again when the base's draws do."""
        return self.base.cycle

    one_pace = True  # that is the point of it

    @classmethod
    def fit(cls, mean: float, std: float) -> Self:
        """Return the law whose pace is shifted exponential, as in the paper; gamma where it varies more than that."""
        if std == 0:
            return cls(base=Deterministic.fit(mean, std))
        return cls(base=ShiftedExponential.fit(mean, std) if std <= mean else Gamma.fit(mean, std))

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return task times, the same for all tasks of a round."""
        paces = self.base.sample((*size[:-1], 1), rng)
        return paces if size[-1] == 1 else np.repeat(paces, size[-1], axis=-1)

    def begin(self, seeds: int, rng: Generator) -> Any:
        """Return what the base must remember."""
        return self.base.begin(seeds, rng)

    def advance(self, state: Any, size: tuple[int, int, int], rng: Generator) -> tuple[FloatArray, Any]:
        """Return task times for the next rounds, by the base's memory."""
        paces, after = self.base.advance(state, (*size[:-1], 1), rng)
        return paces if size[-1] == 1 else np.repeat(paces, size[-1], axis=-1), after

    def sums(self, counts: range, times: FloatArray) -> FloatArray:
        """Return P(k X <= t)."""

        def single(k: FloatArray, t: FloatArray) -> FloatArray:
            shape = np.broadcast_shapes(k.shape, t.shape)
            return self.base.sums(range(1, 2), np.broadcast_to(t / k, shape).ravel()).reshape(shape)

        return sums_from(single, counts, times)

    def atoms(self, counts: range) -> FloatArray:
        """Return the multiples of the pace's atoms."""
        return np.outer(self.base.atoms(range(1, 2)), np.arange(max(counts.start, 1), counts.stop)).ravel()

    def kinks(self, counts: range) -> FloatArray:
        """Return the multiples of the pace's kinks."""
        return np.outer(self.base.kinks(range(1, 2)), np.arange(max(counts.start, 1), counts.stop)).ravel()
