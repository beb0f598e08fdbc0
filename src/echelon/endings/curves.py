"""How the sums of some rounds filled as their rows came: what times that are to be learnt are learnt from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelon.arrays import BoolArray, FloatArray
from echelon.endings.base import TIES

_CANDIDATES = 64
_NEAR = 0.01  # of the best rate: among times as good, the latest is taken


@dataclass(frozen=True, eq=False)
class Curves:
    """Rounds that went on until they were exact: when each row came, and the share that was there then.

    times: seconds from the start of the round, growing, shape (rounds, rows). shares: the share of the sums at that
    moment, shape (rounds, rows). A round with fewer rows repeats its last.

    >>> curves = Curves.of([([1.0, 2.0, 9.0], [0.4, 0.8, 1.0]), ([1.0, 3.0], [0.5, 1.0])])
    >>> curves.share_at(np.array([2.0, 0.5])).tolist(), curves.reached(0.8).tolist()
    ([0.8, 0.0], [2.0, 3.0])
    """

    times: FloatArray
    shares: FloatArray

    @classmethod
    def of(cls, rounds: Sequence[tuple[Sequence[float], Sequence[float]]]) -> "Curves":
        """Return the curves of some rounds, (times, shares) each, which end with a share of 1."""
        longest = max(len(times) for times, _ in rounds)
        padded = [
            [np.concatenate([values, np.repeat(values[-1:], longest - len(values))]) for values in one]
            for one in rounds
        ]
        times, shares = np.array(padded, dtype=np.float64).transpose(1, 0, 2)
        return cls(times, shares)

    @property
    def exact(self) -> FloatArray:
        """When each round was exact, shape (rounds,)."""
        return self.times[:, -1]

    def share_at(self, ends: FloatArray) -> FloatArray:
        """Return what was there at a time of each round; arrays of shape (..., rounds)."""
        came: BoolArray = self.times <= ends[..., None] * (1 + TIES)
        there: FloatArray = np.where(came, self.shares, 0.0).max(axis=-1)
        return there

    def reached(self, share: float) -> FloatArray:
        """Return when so much was there in each round, shape (rounds,)."""
        first = (self.shares < share - TIES).sum(axis=1, keepdims=True)
        found: FloatArray = np.take_along_axis(self.times, np.minimum(first, self.times.shape[1] - 1), axis=1)[:, 0]
        return found

    def candidates(self, since: FloatArray) -> FloatArray:
        """Return waits worth trying: quantiles of what rows took beyond some time of their round, and none."""
        beyond = np.maximum(self.times - since[:, None], 0.0)
        return np.unique(np.quantile(beyond, np.linspace(0, 1, _CANDIDATES)))

    def best(self, waits: FloatArray, since: FloatArray, least: float) -> float:
        """Return the wait beyond `since` after which rounds give most per second, with a mean share of `least`.

        A round that ends at time T with a share S gives S / T: waiting goes on while one more row is worth what it
        costs. No deadline ends a round before its first row, or after it is exact.
        """
        ends = np.minimum(np.maximum(since + waits[:, None], self.times[:, 0]), self.exact)
        shares, times = self.share_at(ends).mean(axis=1), ends.mean(axis=1)
        rates = np.where(shares >= least - TIES, shares / np.maximum(times, np.finfo(np.float64).tiny), -np.inf)
        return float(waits[np.flatnonzero(rates >= (1 - _NEAR) * rates.max())[-1]])
