"""A search over whole splits on the true objective, for when a few per cent of delay are worth a second."""

from typing import Protocol

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.splits.base import Split


class Score(Protocol):
    """What the search asks of its objective; smaller is better."""

    def value(self, counts: IntArray) -> float:
        """Return the score of one split."""

    def values_after(self, counts: IntArray, change: int) -> FloatArray:
        """Return, for each worker, the score once its count has changed by +1 or -1 (inf: not allowed)."""


def best(start: Split, score: Score, width: int = 8) -> Split:
    """Improve a split, one row at a time, until no exchange helps; never worse than `start`.

    A step adds a row where that helps most and takes one away where that hurts least, so it asks for 2 P
    scores and not for P^2; before giving up it tries the `width` best places for the added row.
    """
    checks.whole("width", width, least=1)
    counts = start.counts.copy()
    value = score.value(counts)
    while True:
        for receiver in np.argsort(score.values_after(counts, +1), kind="stable")[:width]:
            grown = counts.copy()
            grown[receiver] += 1
            fallen = score.values_after(grown, -1)
            giver = int(np.argmin(fallen))
            # a gain below rounding noise could make the search go round in circles
            if fallen[giver] < value * (1 - 1e-12):
                grown[giver] -= 1
                counts, value = grown, float(fallen[giver])
                break
        else:
            return Split(counts, start.real, start.theta)
