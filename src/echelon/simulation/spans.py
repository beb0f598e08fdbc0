"""Slots where fewer rows than the threshold may be enough: the first rows that span the target, in many rounds.

What a set of few rows spans is the same in every round in which these rows came first, so each set is examined once.
Many rows hardly ever come first twice: their tracker takes them in as they came, until they are enough.
"""

import numpy as np
from numpy.typing import NDArray

from echelon.arrays import BoolArray, FloatArray, IntArray
from echelon.codes import Code, tracker

_FEW = 24  # rows: codes of no more of them are examined set by set


class FirstSpan:
    """When the rows of one code that have come are enough."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._known: dict[bytes, bool] = {}  # by the set of rows, a bit for each

    def times(self, earliest: FloatArray) -> FloatArray:
        """Return when the slot is recovered, from the arrivals of its rows (inf: never), shape (rows, rounds).

        >>> from echelon.codes import fractional_repetition
        >>> span = FirstSpan(fractional_repetition(rows=4, load=2))
        >>> span.times(np.array([[1.0, 1.0], [2.0, 2.0], [3.0, np.inf], [9.0, 5.0]])).tolist()
        [3.0, 5.0]
        """
        order = np.argsort(earliest, axis=0, kind="stable")
        if len(earliest) > _FEW:
            return np.array([self._walk(*one) for one in zip(order.T.tolist(), earliest.T, strict=True)])
        # more rows never span less: the least number that is enough is found by halving
        low = np.zeros(earliest.shape[1], dtype=np.int64)
        high = np.count_nonzero(earliest < np.inf, axis=0)
        never = ~self._enough(order, high)
        while (open_ := low < high).any():
            middle = (low + high) // 2
            enough = self._enough(order, middle)
            high = np.where(open_ & enough, middle, high)
            low = np.where(open_ & ~enough, middle + 1, low)
        last = np.take_along_axis(order, np.maximum(high - 1, 0)[None], axis=0)
        found: FloatArray = np.take_along_axis(earliest, last, axis=0)[0]
        found[never] = np.inf
        return found

    def _walk(self, order: list[int], earliest: FloatArray) -> float:
        """Return when a round's rows are enough."""
        rows = tracker(self._code)
        return next((float(earliest[row]) for row in order if earliest[row] < np.inf and rows.add(row)), np.inf)

    def _enough(self, order: IntArray, counts: IntArray) -> BoolArray:
        """Return whether the first `counts` rows are enough in each round."""
        came = np.zeros(order.shape, dtype=bool)
        np.put_along_axis(came, order, np.arange(len(order))[:, None] < counts, axis=0)
        sets, of_round = np.unique(np.packbits(came, axis=0), axis=1, return_inverse=True)
        return np.array([self._spans(some) for some in sets.T])[of_round.ravel()]

    def _spans(self, packed: NDArray[np.uint8]) -> bool:
        key = packed.tobytes()
        if key not in self._known:
            rows = tracker(self._code)
            came = np.flatnonzero(np.unpackbits(packed, count=self._code.rows))
            self._known[key] = any([rows.add(row) for row in came.tolist()])
        return self._known[key]
