"""Stragglers anywhere, at most some number in a window: prefer it where slow rounds of a worker are independent."""

from dataclasses import dataclass

import numpy as np

from echelon import checks
from echelon.arrays import BoolArray, IntArray
from echelon.errors import ArgumentError
from echelon.stragglers.base import Limits, StragglerModel


@dataclass(frozen=True, kw_only=True)
class Arbitrary(StragglerModel):
    """At most `count` stragglers in any `window` consecutive rounds, whoever they are (sequential, section 3.2.1).

    The paper's (N, W)-arbitrary model: N is `count`, W is `window`. It covers S stragglers in every round as
    N = S W, and much else.

    Line 13 of Algorithm 2 asks whether a worker can straggle throughout some rounds, and every window that overlaps
    them counts. What the last window alone leaves of N is too little: with N = W = 2 a single worker may straggle for
    ever, and would be given uncoded work that never returns (sequential, note 3).

    >>> model = Arbitrary(count=2, window=2)
    >>> model.conforms(np.array([[True, False], [True, False], [True, True]]))
    False
    >>> model.longest(np.array([[False, False], [True, False]])).tolist()
    [2, 2]
    >>> model.limits(np.array([[False, False], [True, False]]))
    (((0, 1), 1),)
    """

    count: int
    window: int

    def __post_init__(self) -> None:
        checks.whole("count", self.count, least=0)
        checks.whole("window", self.window, least=1)

    @property
    def most(self) -> int:
        """The `count` itself."""
        return self.count

    def check_workers(self, workers: int) -> None:
        """Raise `ArgumentError` unless N <= W P - 1."""
        if self.count >= checks.whole("workers", workers, least=1) * self.window:
            raise ArgumentError(
                f"count: {self.count} is not allowed with {workers} workers and window {self.window}; "
                f"must be at most {workers * self.window - 1}"
            )

    def fits(self, patterns: BoolArray) -> BoolArray:
        """Return which patterns have at most `count` stragglers in every window."""
        counts = patterns.sum(axis=-1)
        total = counts.cumsum(axis=-1)
        if total.shape[-1] > self.window:
            total[..., self.window :] -= total[..., : -self.window].copy()
        fit: BoolArray = (total <= self.count).all(axis=-1)
        return fit

    def longest(self, history: BoolArray) -> IntArray:
        """Return the same number for all workers, as it does not matter who straggles.

        With h the stragglers of the last k rounds, a window that holds these has W - k rounds to come: r of them
        straggling conform if h + min(W - k, r) <= N for every k < W (sequential, note 3).
        """
        recent = self.recent(history)
        room, longest = self.count, self.window
        for k, stragglers in enumerate([0, *recent.sum(axis=1)[::-1].tolist()]):
            room -= stragglers
            if room < self.window - k:
                longest = min(longest, room)
        return np.full(history.shape[1], max(longest, 0))

    def limits(self, history: BoolArray) -> Limits:
        """Return one pair: all workers, and what the last window - 1 rounds leave of `count`."""
        left = self.count - int(self.recent(history).sum())
        workers = history.shape[1]
        return ((tuple(range(workers)), min(max(left, 0), workers)),)
