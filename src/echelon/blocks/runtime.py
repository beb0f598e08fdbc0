"""The expected runtime of a partition and its gradient, exactly: no sampling, smooth in x.

With c_n = sum_{i <= n} (i+1) x_i the runtime is tau = unit * max_n T_(N-n) c_n (block, (5)), so

    P(tau <= t) = P(U_(k) <= u_k for all k),    u_k = F(t / (unit * c_{N-k})),

a boundary crossing of uniform order statistics (block, note 4; see `crossing`). E[tau] is the integral of 1 - P, and
its derivatives are integrals of dP/du_k against du_k. The range where 0 < P < 1 is found by the laws of the single
order statistics and cut into panels with Gauss-Legendre nodes, also wherever some u_k has a kink. Needs a law with a
continuous distribution function.

Differs from paper: it samples instead.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import betainc

from echelon import checks
from echelon.arrays import FloatArray
from echelon.blocks.continuous import ContinuousLaw
from echelon.blocks.crossing import crossing, crossing_gradient
from echelon.blocks.panels import bisect, cut, differentiation, refined, spread
from echelon.blocks.partition import by_coordinates, checked_partition, work_until
from echelon.delays import Delay
from echelon.reprs import short_repr

_ORDER = 12
_RESOLVED = 1e-6  # last coefficients of u_k on a panel; nodes integrate polynomials of twice the degree
_NEGLIGIBLE = 1e-14  # probability that is left out at either end


@dataclass(frozen=True, eq=False, slots=True)
class Runtime:
    """The expected runtime of a partition: `mean`, its `gradient` by x, and the error of quadrature.

    gradient: shape (workers,); where x_n is 0, the derivative of raising it.
    error: how far `mean` is from what nodes of a lower order give, or from x . gradient (equal since tau is
    1-homogeneous), whichever is more; an overestimate.
    """

    mean: float
    gradient: FloatArray
    error: float

    __repr__ = short_repr


def expected_runtime(x: FloatArray, law: Delay, unit: float = 1.0) -> Runtime:
    """Return E[tau(x, T)] for workers whose cycle times are independent and have one law, with its gradient.

    x: coordinates at each level of redundancy 0 … N-1, any numbers >= 0 that are not all 0. unit: M b / N.

    >>> from echelon.delays import Exponential
    >>> found = expected_runtime(np.array([0.0, 0.5, 0.0]), Exponential(rate=1.0))  # the second of three
    >>> round(found.mean, 9), found.gradient.round(9).tolist()
    (0.833333333, [0.833333333, 1.666666667, 0.0])
    """
    x = checked_partition("x", x)
    checks.number("unit", unit, above=0)
    known = ContinuousLaw(law, len(x))
    mean, gradient = mean_and_gradient(x, known)
    error = max(abs(mean - mean_only(x, known, order=_ORDER - 4)), abs(mean - float(gradient @ x)))
    return Runtime(unit * mean, unit * gradient, unit * error)


def mean_and_gradient(x: FloatArray, law: ContinuousLaw) -> tuple[float, FloatArray]:
    """Return E[tau] and its derivatives by x for unit 1."""
    rule = _Rule(x, law, _ORDER)
    probability, by_bound = crossing_gradient(rule.bounds)
    # G_n = dE/dc_n, the integral of dP/du_k (t / c_n) du_k with k = N - n; where c_n = 0 the level never matters
    by_work = ((by_bound * rule.slopes() * rule.times) @ rule.weights)[::-1]
    work = work_until(x)
    by_work = np.divide(by_work, work, out=np.zeros_like(work), where=work > 0)
    return rule.mean(probability), by_coordinates(by_work)


def mean_only(x: FloatArray, law: ContinuousLaw, order: int = _ORDER) -> float:
    """Return E[tau] for unit 1, quicker than with its gradient."""
    rule = _Rule(x, law, order)
    return rule.mean(crossing(rule.bounds))


class _Rule:
    """Nodes and weights on the range where tau varies, and the bounds u_k there, shape (workers, nodes)."""

    def __init__(self, x: FloatArray, law: ContinuousLaw, order: int) -> None:
        work = work_until(x)
        # a level without coordinates has the bound of the level before, so that only the others are looked up
        distinct, self._level = np.unique(work[::-1], return_inverse=True)
        self._distinct = distinct[distinct > 0, None]
        self._idle = len(distinct) - len(self._distinct)
        self._law = law
        self._start, end = self._range(float(work[-1]))
        ends = self._start + (end - self._start) * np.cumsum([0.0, *law.panels]) / law.panels.sum()
        # the same panels whatever the order, so that two orders can be compared
        ends = refined(cut(ends, (law.kinks * self._distinct).ravel()), self._at, _ORDER, _RESOLVED)
        self._half, self._order = np.diff(ends)[:, None] / 2, order
        self.times, self.weights = spread(ends, order)
        self._looked_up = self._at(self.times)
        self.bounds = self._looked_up[self._level]

    def _at(self, times: FloatArray) -> FloatArray:
        """Return u at times for each distinct amount of work; 1 for none."""
        values = np.clip(self._law(times / self._distinct), 0.0, 1.0)
        values = np.maximum.accumulate(values[::-1], axis=0)[::-1]  # rounding may have put neighbours out of order
        return np.concatenate([np.ones((self._idle, len(times))), values])

    def _range(self, most_work: float) -> tuple[float, float]:
        """Return times before and after which P is 0 and 1, but for `_NEGLIGIBLE`."""
        workers = len(self._level)
        ks = np.arange(1, workers + 1)

        def late(time: float) -> bool:
            bounds = self._at(np.array([time]))[self._level, 0]
            return bool(betainc(workers + 1 - ks, ks, 1 - bounds).sum() < _NEGLIGIBLE)  # 1 - P <= sum P(U_(k) > u_k)

        def early(time: float) -> bool:
            bounds = self._at(np.array([time]))[self._level, 0]
            return bool(betainc(ks, workers + 1 - ks, bounds).min() < _NEGLIGIBLE)  # P <= P(U_(k) <= u_k)

        floor = high = most_work * self._law.least
        high = max(high, most_work * self._law.mean)
        while not late(high):
            high *= 2
        start, _ = bisect(lambda time: not early(time), floor, high, 1e-3)
        return start, bisect(late, start, high, 1e-3)[1]

    def slopes(self) -> FloatArray:
        """Return du_k/dt at the nodes: derivatives of the polynomials through the nodes of each panel."""
        panels = self._looked_up.reshape(len(self._looked_up), len(self._half), -1)
        slopes: FloatArray = (panels @ differentiation(self._order).T / self._half).reshape(self._looked_up.shape)
        return slopes[self._level]

    def mean(self, probability: FloatArray) -> float:
        """Return the integral of 1 - P."""
        return self._start + float((1 - probability) @ self.weights)
