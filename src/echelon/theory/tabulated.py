"""A distribution function known only by evaluation, tabulated until its integrals are known to a stated error.

The range is cut into panels at every jump and kink that is known; each panel carries values at Chebyshev points and is
halved until its last coefficients vanish, so smooth stretches cost little and unknown kinks are closed in on.
"""

from collections.abc import Callable
from functools import cache, cached_property

import numpy as np
from numpy.random import Generator

from echelon.arrays import FloatArray
from echelon.errors import ArgumentError

_ORDER = 16  # degree of the polynomial on a panel
_FINE = 96  # linear pieces per panel in the table that samples
_SLACK = 1e-11  # stop when a panel adds less than this to the mean, as a share of the range
_ROUGH = 1e-7  # … and is nowhere further off than about this
_TAIL = 1e-11  # ignore what lies beyond this probability at either end
_OUTMOST = 1e-9  # quantiles nearer to 0 or 1 are refused: rounding in the CDF is not far below
_MANY = 2000  # panels of one size; more of them mean noise, not shape
_INSIDE = 1e-10  # end points are taken this far inside a panel, in halves of it: a jump may sit on the edge


@cache
def _rules() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return points and weights on [-1, 1], the map to coefficients, and the map to the fine grid.

    Points are Chebyshev's extremes, ends included: a monotone function that is the same at all of them is
    constant, so that no step can hide in a panel.
    """
    degrees = np.arange(_ORDER + 1)
    angles = np.pi * degrees[::-1] / _ORDER
    ends = np.where((degrees == 0) | (degrees == _ORDER), 0.5, 1.0)
    to_coefficients = 2 / _ORDER * np.cos(degrees[:, None] * angles) * ends * ends[:, None]
    even = degrees % 2 == 0
    moments = np.zeros(_ORDER + 1)
    moments[even] = 2 / (1 - np.square(degrees[even], dtype=np.float64))
    weights = moments @ to_coefficients
    fine = np.linspace(-1, 1, _FINE + 1)
    to_fine = np.cos(degrees * np.arccos(fine)[:, None]) @ to_coefficients
    points = np.clip(np.cos(angles), -1 + _INSIDE, 1 - _INSIDE)
    return points, weights, to_coefficients, to_fine


class TabulatedCdf:
    """The law of a non-negative time, from its CDF ``cdf(times)`` and the `cuts`, the places of its jumps and kinks.

    `start` is any time of the right size: the search for the range begins there. `decay` is a time over which
    the far tail falls notably, for the error that ignoring it makes.

    >>> law = TabulatedCdf(lambda t: 1 - np.exp(-t), start=1.0)
    >>> round(law.mean, 8), round(law.second, 8), law.quantile(0.5).round(8).tolist()
    (1.0, 2.0, 0.69314718)
    """

    def __init__(
        self,
        cdf: Callable[[FloatArray], FloatArray],
        *,
        start: float,
        cuts: FloatArray | None = None,
        decay: float = 0.0,
    ) -> None:
        self._cdf = cdf
        low, high = self._range(start)
        places = np.empty(0) if cuts is None else np.asarray(cuts, dtype=np.float64)
        inner = places[(places > low) & (places < high)]
        edges = np.unique(np.concatenate([np.linspace(low, high, 9), inner]))
        self._left, self._right, self._values, rest = self._refine(edges[:-1], edges[1:])
        # beyond the range P(T > t) is at most _TAIL and falls within `decay`; below it P(T <= t) is that small
        self.error = rest + _TAIL * (high + decay)
        self.second_error = 2 * high * rest + 2 * _TAIL * (high + decay) ** 2

    def _range(self, start: float) -> tuple[float, float]:
        """Return times between which all but a negligible probability lies."""
        steps = start * np.exp2(np.linspace(-3.0, 2.0, 36))
        values = self._cdf(steps)
        while values[-1] < 1 - _TAIL:
            if steps[-1] > start * 2.0**200:
                raise ArgumentError("cdf: does not reach 1; the law has no finite range in floating point")
            steps = steps[-1] * np.exp2(np.arange(1.0, 7.0))
            values = self._cdf(steps)
        reached, begun = int(np.argmax(values >= 1 - _TAIL)), int(np.argmax(values > _TAIL))
        low, high = float(steps[begun - 1]) if begun else 0.0, float(steps[reached])
        for _ in range(3):
            grid = np.linspace(low, high, 14)
            values = self._cdf(grid)
            reached = int(np.argmax(values >= 1 - _TAIL))
            begun = int(np.argmax(values > _TAIL))
            tight = reached - begun > 5
            low, high = float(grid[max(begun - 1, 0)]), float(grid[reached])
            if tight:
                break
        return low, high

    def _refine(self, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Halve panels until each is good enough; return them in order with what they may add to the mean."""
        points, _, to_coefficients, _ = _rules()
        whole = right[-1] - left[0]
        kept: list[tuple[FloatArray, FloatArray, FloatArray]] = []
        error = 0.0
        while len(left):
            middle, half = (left + right) / 2, (right - left) / 2
            values = self._cdf((middle[:, None] + half[:, None] * points).ravel()).reshape(len(left), _ORDER + 1)
            rest = np.abs(values @ to_coefficients[-3:].T).max(axis=1)
            good = (rest * half <= _SLACK * whole) & (rest <= _ROUGH)
            good |= half <= 1e-12 * right
            # rounding noise in the CDF does not go away by halving: what is left is charged to the error instead
            good |= len(left) > _MANY
            kept.append((left[good], right[good], values[good]))
            error += float((2 * rest * half)[good].sum())
            left, middle, right = left[~good], middle[~good], right[~good]
            left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        lefts, rights, tables = (np.concatenate(part) for part in zip(*kept, strict=True))
        order = np.argsort(lefts)
        return lefts[order], rights[order], tables[order], error

    @cached_property
    def mean(self) -> float:
        """First moment, the integral of P(T > t)."""
        _, weights, _, _ = _rules()
        half = (self._right - self._left) / 2
        return float(self._left[0] + ((1 - self._values) @ weights) @ half)

    @cached_property
    def second(self) -> float:
        """Second moment, the integral of 2 t P(T > t)."""
        points, weights, _, _ = _rules()
        middle, half = (self._left + self._right) / 2, (self._right - self._left) / 2
        times = middle[:, None] + half[:, None] * points
        return float(self._left[0] ** 2 + 2 * ((times * (1 - self._values)) @ weights) @ half)

    @property
    def support(self) -> tuple[float, float]:
        """Times between which all but 1e-11 of the probability lies."""
        return float(self._left[0]), float(self._right[-1])

    def cdf(self, times: FloatArray) -> FloatArray:
        """Return P(T <= t) for each time, of their shape."""
        return self._cdf(np.asarray(times, dtype=np.float64))

    def quantile(self, p: float | FloatArray) -> FloatArray:
        """Return the least times t with P(T <= t) >= p, of the shape of `p`; 1e-9 <= p <= 1 - 1e-9.

        A jump is returned as the cut that it was given as. Elsewhere the CDF is bisected until a time is known to 1e-13
        of itself, or to what the CDF is wrong by over the density there, if that is more.
        """
        wanted = np.asarray(p, dtype=np.float64)
        if not ((wanted >= _OUTMOST) & (wanted <= 1 - _OUTMOST)).all():
            raise ArgumentError(f"p: {p!r} is not allowed; must be from {_OUTMOST:g} to 1 - {_OUTMOST:g}")
        flat = wanted.ravel()
        # values just inside the ends of each panel: between those of one panel lies its inside, else the next edge
        ends = np.maximum.accumulate(self._values[:, [0, -1]].ravel())
        at = np.minimum(np.searchsorted(ends, flat), len(ends) - 1)
        panel, inside = at // 2, at % 2 == 1
        high = np.where(inside, self._right[panel], self._left[panel])
        low = np.where(inside, self._left[panel], high)
        while (left := np.flatnonzero(high - low > 1e-13 * high)).size:
            middle = (low[left] + high[left]) / 2
            reached = self._cdf(middle) >= flat[left]
            high[left] = np.where(reached, middle, high[left])
            low[left] = np.where(reached, low[left], middle)
        times: FloatArray = high.reshape(wanted.shape)
        return times

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray]:
        _, _, _, to_fine = _rules()
        values = np.maximum.accumulate(np.clip(self._values @ to_fine.T, 0.0, 1.0).ravel())
        shares = np.linspace(0, 1, _FINE + 1)
        times = (self._left[:, None] + (self._right - self._left)[:, None] * shares).ravel()
        return values, times

    def sample(self, size: int | tuple[int, ...], rng: Generator) -> FloatArray:
        """Draw by inversion from a table of straight pieces; the CDF is nowhere off by more than about 1e-5.

        Range cut at 1e-11 on either side; a jump is one time with its full probability.
        """
        values, times = self._table
        return np.interp(rng.random(size), values, times)
