"""Means of order statistics of N independent cycle times, t_n = E[T_(n)] and t'_n = 1 / E[1 / T_(n)], all n at once.

For the shifted exponential law, t_n by (11) and t'_n by an integral of positive terms. For other laws with a
distribution function F, by spacings: E[g(T_(n+1))] - E[g(T_(n))] is the integral of C(N,n) F^n (1-F)^{N-n} g', which
is positive for g = t and negative for g = 1/t, so that sums of them lose no digits.

Differs from paper: (8) is right, but its sum alternates and is useless in float64 beyond N = 20 (block, note 1);
H_n in (11) sums 1/i (block, note 3).
"""

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from echelon import checks
from echelon.arrays import FloatArray
from echelon.blocks.continuous import checked_formula
from echelon.blocks.panels import cut, refined, spread
from echelon.delays import Delay, Exponential, RoundPace, ShiftedExponential
from echelon.errors import ArgumentError

MOST_WORKERS = 100_000
_BLOCK = 1 << 20  # numbers held at once
_ORDER = 8
_RESOLVED = (
    1e-7  # last coefficients of F on a panel: quantiles alone leave stretches unresolved on which F hardly rises
)
_LOGITS = 36.0  # F and 1 - F below exp(-36) are left out


def order_means(workers: int, law: Delay) -> FloatArray:
    """Return t_n = E[T_(n)], n = 1 … workers: shift + (H_N - H_{N-n}) / rate for a shifted exponential (block, (11)).

    >>> order_means(3, ShiftedExponential(shift=1.0, rate=0.5)).round(9).tolist()
    [1.666666667, 2.666666667, 4.666666667]
    """
    known = _checked(workers, law)
    if known is not None:
        shift, rate = known
        spacings = 1 / np.arange(workers, 0, -1)
        return shift + np.cumsum(spacings) / rate
    grid = _Grid(workers, law)
    return grid.first + np.cumsum(grid.spacings(np.ones_like(grid.times))[:-1])


def order_harmonic_means(workers: int, law: Delay) -> FloatArray:
    """Return t'_n = 1 / E[1 / T_(n)], n = 1 … workers.

    For a shifted exponential 1/t'_n = rate * int_0^inf exp(-rate * shift * s) prod_{j<n} (N-j)/(N-j+s) ds
    (block, note 1), by the trapezoid rule in log s. Needs a law with E[1 / T_(1)] finite: a shift > 0, say.

    >>> order_harmonic_means(2, ShiftedExponential(shift=1.0, rate=1.0)).round(6).tolist()
    [1.383782, 2.12749]
    """
    known = _checked(workers, law)
    if known is None:
        return _Grid(workers, law).harmonic_means()
    shift, rate = known
    if shift == 0:
        raise ArgumentError(f"law: {law!r} is not allowed; 1/T has no mean unless the shift is > 0")
    # nothing is left of the integrand s e^(-as) below exp(-40), nor beyond 750/a
    step = 0.125
    s = np.exp(np.arange(-40.0, np.log(750 / (rate * shift)) + step, step))
    weights = rate * step * s * np.exp(-rate * shift * s)
    left = np.arange(workers, 0, -1, dtype=np.float64)
    inverse = np.zeros(workers)
    rows = max(1, _BLOCK // workers)
    for at in range(0, len(s), rows):
        factors = np.log1p(s[at : at + rows, None] / left)
        inverse += weights[at : at + rows] @ np.exp(-np.cumsum(factors, axis=1))
    return 1 / inverse


def _checked(workers: int, law: Delay) -> tuple[float, float] | None:
    """Return shift and rate of an exponential law, None for any other with a distribution function."""
    checks.whole("workers", workers, least=1, most=MOST_WORKERS)
    checked_formula(law)
    single = law.base if isinstance(law, RoundPace) else law
    if isinstance(single, ShiftedExponential):
        return single.shift, single.rate
    if isinstance(single, Exponential):
        return 0.0, single.rate
    return None


class _Grid:
    """Gauss-Legendre nodes in time, in panels between kinks and quantiles that are evenly spaced in log F/(1-F).

    C(N,n) F^n (1-F)^{N-n} is a bell in that variable, at least 2/sqrt(N) wide, so panels that narrow resolve it.
    """

    def __init__(self, workers: int, law: Delay) -> None:
        self.workers, self._law = workers, law
        panels = int(12 * np.sqrt(workers)) + 60
        logits = np.linspace(-_LOGITS, _LOGITS, panels + 1)
        low, high = np.zeros(panels + 1), np.full(panels + 1, law.mean)
        below = 1 / (1 + np.exp(-logits))
        for _ in range(1100):
            short = self._cdf(high) < np.minimum(below, 1 - 1e-15)
            if not short.any():
                break
            high[short] *= 2
        for _ in range(70):
            middle = (low + high) / 2
            short = self._cdf(middle) < below
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        self.first = float(high[0])
        ends = refined(cut(high, law.kinks(range(1, 2))), self._cdf, _ORDER, _RESOLVED)
        self.times, self._weights = spread(ends, _ORDER)
        self._values = np.clip(self._cdf(self.times), 0.0, 1.0)
        self._end = float(ends[-1])

    def _cdf(self, times: FloatArray) -> FloatArray:
        return self._law.sums(range(1, 2), times)[:, 0]

    def spacings(self, slopes: FloatArray) -> FloatArray:
        """Return the integrals of C(N,n) F^n (1-F)^{N-n} slopes, n = 0 … N."""
        n, total = np.arange(self.workers + 1.0), np.zeros(self.workers + 1)
        choices = gammaln(self.workers + 1) - gammaln(n + 1) - gammaln(self.workers + 1 - n)
        weights = self._weights * slopes
        rows = max(1, _BLOCK // (self.workers + 1))
        for at in range(0, len(weights), rows):
            values = self._values[at : at + rows, None]
            total += weights[at : at + rows] @ np.exp(choices + xlogy(n, values) + xlog1py(self.workers - n, -values))
        return total

    def harmonic_means(self) -> FloatArray:
        """Return 1 / E[1/T_(n)]: 1/t at the end, and the integrals of P(T_(n) <= t) / t^2 before it."""
        if self.first <= 0:
            raise ArgumentError(f"law: {self._law!r} is not allowed; 1/T must have a mean")
        drops = self.spacings(self.times**-2.0)[1:]
        inverse = 1 / self._end + np.cumsum(drops[::-1])[::-1]
        # what is left out before the first node, where F goes like a power of t: only T_(1) feels it
        before, at = self._cdf(np.array([0.5, 1.0]) * self.first)
        power = np.log2(at / before) if before > 0 else np.inf
        missing = self.workers * at / self.first
        if power < 1.01 and missing > 1e-9 * inverse[0]:
            raise ArgumentError(f"law: {self._law!r} is not allowed; 1/T has no mean for the fastest worker")
        inverse[0] += missing / (power - 1)
        return 1 / inverse
