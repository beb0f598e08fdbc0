"""Boundary crossing of uniform order statistics: P(U_(1) <= u_1, …, U_(N) <= u_N), exactly and with its gradient.

Points are counted from left to right. Let Q_j(i) be the volume of i ordered points below u_j that keep the first j
bounds; then Q_j(i) = sum_{m <= i} Q_{j-1}(m) (u_j - u_{j-1})^{i-m} / (i-m)! for i >= j, and the probability is
N! Q_N(N) (block, note 4). All terms are positive, so nothing cancels. Each power is carried as a mass of the Poisson
law of mean N (u_j - u_{j-1}): N uniform points are a Poisson process of rate N with N points, and such masses neither
overflow nor underflow where they matter.
"""

import numpy as np
from scipy.special import gammaln

from echelon.arrays import FloatArray

MOST_POINTS = 500  # exp(-points) must not be 0: it is divided by


def crossing(bounds: FloatArray) -> FloatArray:
    """Return P(U_(k) <= bounds[k - 1] for all k), shape (nodes,), for bounds of shape (points, nodes), rising in k.

    >>> crossing(np.array([[0.5], [1.0]])).round(12).tolist()
    [0.75]
    """
    steps = _Steps(bounds)
    return steps.probability(_forward(steps)[1])


def crossing_gradient(bounds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the probability, shape (nodes,), and its derivatives by each bound, shape (points, nodes).

    The derivative by u_k is N! Q_{k-1}(k-1) R_k(k): k - 1 points that keep their bounds, one at u_k, and after it
    the volume R_k(k) of the others. Where bounds are equal it is that of moving the lower ones down.

    >>> crossing_gradient(np.array([[0.5], [1.0]]))[1].round(12).ravel().tolist()
    [1.0, 1.0]
    """
    steps = _Steps(bounds)
    left, last = _forward(steps)
    right = _backward(steps)
    n = steps.points
    scale = np.exp(gammaln(n + 1) - (n - 1) * np.log(n) + n * (bounds[-1] - steps.widths))
    return steps.probability(last), scale * left * right


class _Steps:
    """The bounds as steps: masses of the Poisson laws that lead from one bound to the next."""

    def __init__(self, bounds: FloatArray) -> None:
        self.points = len(bounds)
        assert 0 < self.points <= MOST_POINTS
        self.highest = bounds[-1]
        self.widths = np.diff(bounds, axis=0, prepend=0.0)
        assert self.widths.min() >= 0
        self._most = self.points * self.widths.max(axis=1)

    def masses(self, j: int) -> FloatArray | None:
        """Return Poisson masses of step j = 1 … N, shape (counts, nodes); None where no node moves."""
        most = float(self._most[j - 1])
        if most == 0:
            return None
        mean = self.points * self.widths[j - 1]
        # beyond, masses are below 1e-17
        counts = min(self.points, int(most + 8 * np.sqrt(most) + 16)) + 1
        ratios = np.empty((counts, len(mean)))
        ratios[0] = np.exp(-mean)
        ratios[1:] = mean / np.arange(1, counts)[:, None]
        return np.multiply.accumulate(ratios, axis=0)

    def probability(self, last: FloatArray) -> FloatArray:
        """Return the probability from the mass of N points in the Poisson process: divide by that of having N."""
        n = self.points
        having: FloatArray = np.exp(n * np.log(n) - gammaln(n + 1) - n * self.highest)
        return np.minimum(last / having, 1.0)


def _forward(steps: _Steps) -> tuple[FloatArray, FloatArray]:
    """Return Q_{k-1}(k-1) for k = 1 … N, shape (points, nodes), and Q_N(N), in Poisson masses."""
    n, nodes = steps.widths.shape
    diagonal = np.empty((n, nodes))
    counts = np.zeros((n + 1, nodes))
    counts[0] = 1.0
    for j in range(1, n + 1):
        diagonal[j - 1] = counts[j - 1]
        masses = steps.masses(j)
        if masses is not None:
            moved = counts * masses[0]
            for k in range(1, min(len(masses), n + 2 - j)):
                moved[j - 1 + k :] += masses[k] * counts[j - 1 : n + 1 - k]
            counts = moved
        counts[j - 1] = 0.0
    return diagonal, counts[n]


def _backward(steps: _Steps) -> FloatArray:
    """Return R_k(k) for k = 1 … N, shape (points, nodes), in Poisson masses."""
    n, nodes = steps.widths.shape
    diagonal = np.empty((n, nodes))
    rest = np.zeros((n + 1, nodes))
    rest[n] = 1.0
    for j in range(n, 0, -1):
        diagonal[j - 1] = rest[j]
        masses = steps.masses(j)
        if masses is not None:
            moved = rest * masses[0]
            for k in range(1, min(len(masses), n + 2 - j)):
                # from i points before step j to i + k >= j after it
                moved[j - 1 : n + 1 - k] += masses[k] * rest[j - 1 + k :]
            rest = moved
    return diagonal
