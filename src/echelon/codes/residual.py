"""The nearest that some rows come to the sum, where they are too few to give it: weights, and how far they miss."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray, NumberArray
from echelon.codes.base import Code
from echelon.codes.combine import combine
from echelon.errors import ArgumentError
from echelon.reprs import short_repr

_MISFIT = 1e-9  # relative: nearer than that the rows give the target, as trackers and decoders see it
_RANK = 1e-10  # relative: singular values below it count as none


@dataclass(frozen=True, eq=False, slots=True)
class Approximate:
    """Weights whose effect is as near to the target as some rows come.

    rows: the rows that messages must come from, in this order, shape (received,).
    weights: of their messages, shape (received,).
    effective: the weight that each part has in the result, shape (parts,).
    residual: the distance of `effective` from the target, |alpha - 1| for a sum; exactly 0 where the rows give it.
    """

    rows: IntArray
    weights: NumberArray
    effective: NumberArray
    residual: float
    _code: Code

    __repr__ = short_repr

    def combine(self, messages: Iterable[Any]) -> Any:
        """Return the approximate target from messages in the order of `rows`; zero rows can't be combined."""
        listed = list(messages)
        if not listed or len(listed) != len(self.rows):
            raise ArgumentError(f"messages: {len(listed)} given; must be {len(self.rows)}, one per row, and not none")
        return combine(self.weights[None], listed)[0]

    def error_limit(self, part_sizes: Iterable[float]) -> float:
        """Return how far the approximate sum is off at most, from the norm of each part: without any assumption.

        The error is the sum of (alpha_j - 1) g_j over the parts, so it is at most the sum of |alpha_j - 1| |g_j|, which
        is at most |alpha - 1| times the root of the sum of |g_j|^2. Norms of an earlier round will often do, or one
        limit for all, as where gradients are clipped.

        >>> from echelon.codes import uncoded
        >>> residual(uncoded(parts=4), [0, 1, 3]).error_limit([2.0, 5.0, 1.5, 1.0])
        1.5
        """
        lengths = _lengths("part_sizes", part_sizes, len(self.effective), "part")
        return float(np.abs(self.effective - self._code.target[0]) @ lengths) if self.residual else 0.0

    def error_bound(self, sizes: Iterable[float]) -> float:
        """Return how far the approximate sum is off at most, from the norm of each message, in the order of `rows`.

        The nearest weights leave an error of which messages say nothing: alpha - 1 is orthogonal to all rows that came.
        So it takes assumptions on the parts: those of one message do not cancel each other (no two of them point
        apart), so that none is longer than the message over its weight in it; and parts that no message holds are no
        longer than the longest that one could. Then the error is at most the sum of |alpha_j - 1| times the longest
        part. Without the first assumption the bound is a scale and no bound; `error_limit` needs none, but the norms
        of the parts. It is 0 where nothing is missed, and infinite where something is and nothing came.

        >>> from echelon.codes import uncoded
        >>> residual(uncoded(parts=4), [0, 1, 3]).error_bound([2.0, 5.0, 1.0])
        5.0
        """
        lengths = _lengths("sizes", sizes, len(self.rows), "row")
        if not self.residual:
            return 0.0
        held = np.abs(self._code.matrix[self.rows])
        known = held.max(axis=1, initial=0.0) > 0
        if not known.any():
            return float("inf")
        least = np.where(held > 0, held, np.inf).min(axis=1)
        missed = float(np.abs(self.effective - self._code.target[0]).sum())
        return missed * float((lengths[known] / least[known]).max())

    def deviation(self, sizes: Iterable[float]) -> float:
        """Return the standard deviation to expect of a sum of rows that come by chance (`stochastic`).

        sizes: the norm of each message, in the order of `rows`. The variance is p (1 - p) sum of |message|^2 over all
        rows, come or not; p times the same sum over those that came has that for its mean.

        >>> from echelon.codes import stochastic
        >>> code = stochastic(rows=4, parts=4, load=2, missing=0.25, rng=np.random.default_rng(1))
        >>> weights_for(code, [0, 1, 3]).deviation([2.0, 2.0, 2.0 * 2**0.5])
        2.0
        """
        lengths = _lengths("sizes", sizes, len(self.rows), "row")
        if self._code.missing is None:
            raise ArgumentError("deviation: not known; the rows of this code do not come by a chance that it states")
        return float((self._code.missing * (lengths**2).sum()) ** 0.5)

    def rms_error(self, part_size: float) -> float:
        """Return the root mean square error where parts are as long as this, and point anywhere at random.

        Then (alpha - 1) applied to them has a squared length of |alpha - 1|^2 times theirs, on average.
        """
        return self.residual * checks.number("part_size", part_size, least=0)


def _lengths(name: str, given: Iterable[float], count: int, of: str) -> FloatArray:
    lengths = checks.floats(name, list(given))
    if lengths.shape != (count,) or not (np.isfinite(lengths).all() and (lengths >= 0).all()):
        raise ArgumentError(f"{name}: must be {count} finite numbers >= 0, one per {of}")
    return lengths


def residual(code: Code, received: Iterable[int]) -> Approximate:
    """Return the weights of the rows received that come nearest to the target, one sum, and how far they miss it.

    In linear time where rows are plain sums of at most two groups of parts (graph codes, fractional repetition,
    uncoded; `echelon.codes.pairs`), otherwise by least squares, with the shortest of all such weights. To follow the
    residual row by row as rows arrive, and to have the weights without solving anew, take `residual_tracker`.

    >>> from echelon.codes import fractional_repetition
    >>> near = residual(fractional_repetition(rows=4, load=2), [0, 1])
    >>> near.weights.tolist(), near.effective.tolist(), near.residual == 2**0.5
    ([0.0, 1.0], [1.0, 1.0, 0.0, 0.0], True)
    """
    rows = _checked(code, received)
    if code.pairs is not None:
        weights, of_vertex = code.pairs.nearest(rows)
        return with_weights(code, rows, weights, of_vertex[code.pairs.vertex_of] / 1.0)
    held = code.matrix[rows]
    weights = np.linalg.lstsq(held.T, code.target[0], rcond=_RANK)[0] if len(rows) else np.zeros(0)
    return with_weights(code, rows, weights)


def weights_for(code: Code, received: Iterable[int]) -> Approximate:
    """Return the weights by which the rows received are added up where a round ends with them, and how far they miss.

    The code's own: one each where it says with which chance rows come (`stochastic`; without bias, and off by its
    `residual` even where all rows came), and otherwise the nearest (`residual`; exact where the rows give the sum).

    >>> from echelon.codes import stochastic, uncoded
    >>> weights_for(uncoded(parts=3), [2, 0]).effective.tolist()
    [1.0, 0.0, 1.0]
    >>> code = stochastic(rows=4, parts=4, load=2, missing=0.5, rng=np.random.default_rng(1))
    >>> weights_for(code, range(4)).effective.tolist()
    [2.0, 2.0, 2.0, 2.0]
    """
    if checks.instance("code", code, Code).missing is None:
        return residual(code, received)
    rows = _checked(code, received)
    return with_weights(code, rows, np.ones(len(rows)))


def with_weights(
    code: Code, rows: IntArray, weights: NumberArray, effective: FloatArray | NumberArray | None = None
) -> Approximate:
    """Return what some weights of distinct rows, in rising order, come to; `effective` where it is known."""
    target = code.target[0]
    if effective is None:
        effective = weights @ code.matrix[rows] if len(rows) else np.zeros(len(target))
    missed = float(np.linalg.norm(effective - target))
    if missed <= _MISFIT * float(np.linalg.norm(target)):
        missed = 0.0
    for shared in (rows, weights, effective):
        shared.setflags(write=False)
    return Approximate(rows, weights, effective, missed, code)


def _checked(code: Code, received: Iterable[int]) -> IntArray:
    """Return distinct rows of a code of one sum, in rising order."""
    checks.instance("code", code, Code)
    if len(code.target) != 1:
        raise ArgumentError(f"code: {len(code.target)} wanted values are not allowed; must be one, such as a sum")
    listed = checks.items("received", received)
    return np.array(sorted({checks.whole("received", row, least=0, most=code.rows - 1) for row in listed}), dtype=int)
