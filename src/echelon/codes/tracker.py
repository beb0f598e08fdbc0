"""When is enough enough: trackers that say, row by row, whether a slot can be recovered."""

from collections.abc import Iterable
from typing import Protocol, Self

import numpy as np

from echelon import checks
from echelon.arrays import NumberArray
from echelon.codes.base import Code
from echelon.codes.pair_tracker import PairTracker
from echelon.codes.residual import Approximate, residual, with_weights
from echelon.codes.seen import Seen


class Tracker(Protocol):
    """Takes rows as they arrive, in any order; a repeated or unknown row changes nothing."""

    def add(self, row: int) -> bool:
        """Take in a row and return whether the slot can be recovered now."""

    @property
    def received(self) -> list[int]:
        """The distinct rows taken in, in order of arrival."""

    def copy(self) -> Self:
        """Return an independent copy that has taken in the same rows."""


class CountTracker(Seen):
    """Counts distinct rows, for codes where any `threshold` rows are enough, and fewer never are.

    Rows that are `alone` enough are the exception.

    >>> tracker = CountTracker(rows=3, threshold=2)
    >>> [tracker.add(row) for row in (2, 2, 7, 0)]
    [False, False, False, True]
    """

    def __init__(self, *, rows: int, threshold: int, alone: Iterable[int] = ()) -> None:
        super().__init__()
        checks.whole("rows", rows, least=0)
        checks.whole("threshold", threshold, least=0)
        self._rows, self._threshold, self._alone = range(rows), threshold, frozenset(checks.items("alone", alone))
        self._enough = False

    def add(self, row: int) -> bool:
        """Take in a row and return whether `threshold` distinct ones are there, or one that is enough alone."""
        if row in self._rows:
            self._seen[row] = None
            self._enough = self._enough or len(self._seen) >= self._threshold or row in self._alone
        return self._enough


class SpanTracker(Seen):
    """Keeps an orthonormal basis of the rows received, and the rest of the target outside its span.

    A row costs O(rank * parts). The target is recoverable once nothing of it is left outside, within `tolerance`. The
    rows' coordinates in the basis are kept, too, a triangle: the weights that come nearest cost O(rank^2) at any time.
    """

    def __init__(self, code: Code, tolerance: float = 1e-9) -> None:
        super().__init__()
        checks.instance("code", code, Code)
        self._code, self._tolerance = code, checks.number("tolerance", tolerance, least=0)
        self._basis = np.empty((0, code.matrix.shape[1]), dtype=code.matrix.dtype)
        self._size = float(np.linalg.norm(code.matrix, axis=1).max())
        self._outside = code.target.astype(np.result_type(code.matrix, code.target))
        self._scale = np.linalg.norm(code.target, axis=1)
        self._enough = bool((self._scale == 0).all())
        self._independent: tuple[int, ...] = ()  # rows that the basis is made of
        self._coordinates: tuple[NumberArray, ...] = ()  # of each of them in the basis, as far as it then went

    def add(self, row: int) -> bool:
        """Take in a row and return whether the target lies in the span of the rows."""
        if row in self._seen or row not in range(self._code.rows):
            return self._enough
        self._seen[row] = None
        if self._enough:
            return True
        fresh, inside = self._code.matrix[row], np.zeros(len(self._basis), dtype=self._basis.dtype)
        for _ in range(2):  # twice, since one pass leaves rounding errors
            along = fresh @ self._basis.conj().T
            fresh, inside = fresh - along @ self._basis, inside + along
        rest = np.linalg.norm(fresh)
        if rest > self._tolerance * self._size:
            fresh = fresh / rest
            self._basis = np.vstack([self._basis, fresh])
            self._independent += (row,)
            self._coordinates += (np.append(inside, rest),)
            self._outside = self._outside - np.outer(self._outside @ fresh.conj(), fresh)
            left = np.linalg.norm(self._outside, axis=1)
            self._enough = bool((left <= self._tolerance * self._scale).all())
        return self._enough

    @property
    def residual(self) -> float:
        """Distance of the target from the span of the rows (root of the sum over all wanted); 0 if they are enough."""
        return 0.0 if self._enough else float(np.linalg.norm(self._outside))

    def nearest(self) -> Approximate:
        """Return weights of the rows received that come nearest to the target, one sum (see `residual`).

        They are among the nearest, but not the shortest: rows that added nothing to the others have weight 0, and so
        have those that came when there was enough.

        >>> from echelon.codes import cyclic
        >>> rows = SpanTracker(cyclic(rows=3, load=2, rng=np.random.default_rng(1)))
        >>> [rows.add(row) for row in (2, 0)], rows.nearest().effective.round(9).tolist()
        ([False, True], [1.0, 1.0, 1.0])
        """
        from scipy.linalg import solve_triangular

        if len(self._code.target) != 1:
            return residual(self._code, self.received)  # which says why not
        held = len(self._independent)
        triangle = np.zeros((held, held), dtype=self._basis.dtype)
        for at, inside in enumerate(self._coordinates):
            triangle[at, : at + 1] = inside
        wanted = self._basis.conj() @ self._code.target[0]
        rows = np.array(sorted(self._seen), dtype=int)
        weights = np.zeros(len(rows), dtype=np.result_type(self._basis, self._code.target))
        if held:
            solved = solve_triangular(triangle, wanted, lower=True, trans="T")
            weights[np.searchsorted(rows, self._independent)] = solved
        return with_weights(self._code, rows, weights)


class PlainTracker(SpanTracker):
    """The same for rows that are added up as they are until they are enough (`weights_for` of `stochastic` codes).

    >>> from echelon.codes import stochastic
    >>> rows = PlainTracker(stochastic(rows=4, parts=4, load=2, missing=0.5, rng=np.random.default_rng(1)))
    >>> [(rows.add(row), round(rows.residual**2, 9)) for row in (0, 2, 1)]
    [(False, 2.0), (False, 2.0), (True, 0.0)]
    """

    def __init__(self, code: Code, tolerance: float = 1e-9) -> None:
        super().__init__(code, tolerance)
        self._total = np.zeros_like(code.matrix[0])

    def add(self, row: int) -> bool:
        """Take in a row and return whether the target lies in the span of the rows."""
        if row not in self._seen and row in range(self._code.rows):
            self._total = self._total + self._code.matrix[row]
        return super().add(row)

    @property
    def residual(self) -> float:
        """Distance of the sum of the rows from the target, which may grow with a row; 0 if they are enough."""
        return 0.0 if self._enough else float(np.linalg.norm(self._total - self._code.target[0]))


def residual_tracker(code: Code) -> PairTracker | SpanTracker:
    """Return the cheapest tracker that also knows how far its rows are from the target: its `residual`.

    >>> from echelon.codes import cyclic
    >>> rows = residual_tracker(cyclic(rows=3, load=2, rng=np.random.default_rng(1)))
    >>> [(rows.add(row), rows.residual > 0) for row in (2, 0)]
    [(False, True), (True, False)]
    """
    return SpanTracker(code) if checks.instance("code", code, Code).pairs is None else PairTracker(code)


def weights_tracker(code: Code) -> PairTracker | SpanTracker:
    """Return the cheapest tracker that knows how far what comes of its rows is from the target (`weights_for`)."""
    return residual_tracker(code) if checks.instance("code", code, Code).missing is None else PlainTracker(code)


def tracker(code: Code) -> Tracker:
    """Return the cheapest tracker that is right for a code."""
    if checks.instance("code", code, Code).counting:
        return CountTracker(rows=code.rows, threshold=code.threshold)
    return residual_tracker(code)
