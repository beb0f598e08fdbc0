"""Points at which polynomials are evaluated, by the basis they suit."""

from collections.abc import Callable
from math import gcd

import numpy as np
from numpy.random import Generator

from echelon.arrays import IntArray, NumberArray
from echelon.errors import ArgumentError


def strided(count: int, stride: int | None = None) -> IntArray:
    """Return 0 … count - 1 in steps of `stride`, by default the one nearest to 0.276 count that meets all of them.

    >>> strided(5, 2).tolist()
    [0, 2, 4, 1, 3]
    """
    if stride is None:
        wanted = 0.276 * count
        stride = min((s for s in range(1, count + 1) if gcd(s, count) == 1), key=lambda s: abs(s - wanted))
    if gcd(stride, count) != 1:
        raise ArgumentError(f"stride: {stride} is not allowed; must have no common divisor with {count}")
    return (stride * np.arange(count)) % count


def roots_of_unity(count: int, rng: Generator) -> NumberArray:
    """Return all roots of unity, strided, so that neighbouring rows are far from each other."""
    points: NumberArray = np.exp(2j * np.pi * strided(count) / count)
    return points


def chebyshev_points(count: int, rng: Generator) -> NumberArray:
    """Return Chebyshev's points, strided likewise."""
    return np.cos((2 * strided(count) + 1) * np.pi / (2 * count))


def random_points(count: int, rng: Generator) -> NumberArray:
    """Return uniform random numbers between -1 and 1, as in the papers that use monomials."""
    return rng.uniform(-1, 1, count)


POINTS: dict[str, Callable[[int, Generator], NumberArray]] = {
    "roots": roots_of_unity,
    "chebyshev": chebyshev_points,
    "monomial": random_points,
}
