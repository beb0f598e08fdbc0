"""Panels with Gauss-Legendre nodes, cut where a function has kinks and halved where it is not yet resolved."""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.polynomial import legendre

from echelon.arrays import FloatArray

_HALVINGS = 24  # rounds at most; what is rough after that is rounding noise, or a singularity that nodes close in on
_NARROW = 1e-12  # width of a panel that no longer matters, as a share of the time


@cache
def rule(order: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return nodes and weights on [-1, 1], and the matrix that takes values at the nodes to Legendre coefficients."""
    nodes, weights = legendre.leggauss(order)
    to_coefficients: FloatArray = np.linalg.inv(legendre.legvander(nodes, order - 1)).astype(np.float64)
    return nodes, weights, to_coefficients


@cache
def differentiation(order: int) -> FloatArray:
    """Return the matrix that takes values at the nodes to derivatives there."""
    nodes, _, to_coefficients = rule(order)
    slopes = legendre.legval(nodes, legendre.legder(np.eye(order))).T
    derive: FloatArray = slopes @ to_coefficients
    return derive


def spread(ends: FloatArray, order: int) -> tuple[FloatArray, FloatArray]:
    """Return the nodes of all panels in a row, and their weights.

    >>> [row.round(3).tolist() for row in spread(np.array([0.0, 1.0, 3.0]), 2)]
    [[0.211, 0.789, 1.423, 2.577], [0.5, 0.5, 1.0, 1.0]]
    """
    nodes, weights, _ = rule(order)
    half = np.diff(ends)[:, None] / 2
    return (ends[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()


def cut(ends: FloatArray, places: FloatArray) -> FloatArray:
    """Return ends of panels, cut further at places among them; panels of negligible width are left out.

    >>> cut(np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.5, 7.0])).tolist()
    [0.0, 1.0, 1.5, 2.0]
    """
    inside = places[(places > ends[0]) & (places < ends[-1])]
    if not inside.size:
        return ends
    finer = np.sort(np.concatenate([ends, inside]))
    wide = np.diff(finer) > _NARROW * finer[1:]
    kept: FloatArray = finer[np.concatenate([[True], wide])]
    return kept


def refined(ends: FloatArray, values: Callable[[FloatArray], FloatArray], order: int, tolerance: float) -> FloatArray:
    """Return ends of panels, halved until the last two Legendre coefficients of `values` are below the tolerance.

    values: takes times to an array of shape (..., times); all of it must be resolved.

    >>> refined(np.array([0.0, 1.0]), lambda t: np.exp(-8 * t), 6, 1e-3).tolist()
    [0.0, 0.125, 0.25, 0.5, 1.0]
    """
    last = rule(order)[2][-2:]
    kept = [ends[:1]]
    left, right = ends[:-1], ends[1:]
    for _ in range(_HALVINGS):
        times = (left[:, None] + (right - left)[:, None] * (1 + rule(order)[0]) / 2).ravel()
        found = values(times)
        rest = np.abs(found.reshape(-1, len(left), order) @ last.T).max(axis=(0, 2))
        rough = (rest > tolerance) & (right - left > _NARROW * right)
        kept.append(right[~rough])
        left, middle, right = left[rough], (left[rough] + right[rough]) / 2, right[rough]
        if not left.size:
            break
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    return np.sort(np.concatenate([*kept, right]))


def bisect(holds: Callable[[float], bool], low: float, high: float, tolerance: float) -> tuple[float, float]:
    """Return times around the first one that `holds`, within a share of the later."""
    while high - low > tolerance * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
