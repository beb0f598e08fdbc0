"""A search over whole splits on the true objective, for when a few per cent of delay are worth a second."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from echelon.arrays import FloatArray, IntArray
from echelon.splits.base import Split

_RECEIVERS = 8  # places for the added row that are tried before giving up


class Score(Protocol):
    """What the search asks of its objective; smaller is better."""

    def value(self, counts: IntArray) -> float:
        """Return the true score of one split."""

    def values_after(self, counts: IntArray, change: int) -> FloatArray:
        """Return, for each worker, about the score once its count has changed by +1 or -1 (inf: not allowed)."""


def best(start: Split, score: Score) -> Split:
    """Improve a split, one row at a time, until no exchange helps; never worse than `start`.

    A step adds a row where that helps most and takes one away where that hurts least, so it asks for 2 P
    scores and not for P^2; before giving up it tries the eight best places for the added row. Scores of
    neighbours only rank them: what a step gains is measured by `value` before it is taken.
    """
    counts, value = start.counts, score.value(start.counts)
    while True:
        for step in _steps(counts, score):
            reached = score.value(step)
            # a gain below rounding noise could make the search go round in circles
            if reached < value * (1 - 1e-10):
                counts, value = step, reached
                break
        else:
            return Split(counts, start.real, start.theta)


def _steps(counts: IntArray, score: Score) -> Iterator[IntArray]:
    """Yield exchanges of one row, the most promising first: for each of the best receivers its two best givers."""
    for receiver in np.argsort(score.values_after(counts, +1), kind="stable")[:_RECEIVERS]:
        grown = counts.copy()
        grown[receiver] += 1
        ranked = np.argsort(score.values_after(grown, -1), kind="stable")
        for giver in ranked[(ranked != receiver) & (counts[ranked] > 0)][:2]:
            step = grown.copy()
            step[giver] -= 1
            yield step
