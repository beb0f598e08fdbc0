"""Parity rows for systematic codes over the reals: three families, none of them best everywhere.

Few losses (2 or 3) suit points on a circle; many (10 or more) suit random numbers. All but the random ones come from
interpolation, where any K of n values are enough by construction: rows are the values, at n - K further points, of
what interpolates the K parts.
"""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from echelon.arrays import FloatArray, IntArray


def random_parity(parts: int, spare: int, rng: Generator) -> FloatArray:
    """Return independent normal numbers; any square piece of them is regular, with probability one."""
    numbers: FloatArray = rng.standard_normal((spare, parts)) / np.sqrt(parts)
    return numbers


def circle_parity(parts: int, spare: int, rng: Generator) -> FloatArray:
    """Return trigonometric interpolation on evenly spaced angles, parity angles spread among the others.

    Frequencies are whole for an odd number of parts and half-whole for an even one: either way any `parts` angles
    determine the interpolant.
    """
    angles = 2 * np.pi * np.arange(parts + spare) / (parts + spare)
    half = np.arange(parts // 2)
    waves = (half + (1.0 if parts % 2 else 0.5))[None, :] * angles[:, None]
    basis = np.concatenate([np.ones((len(angles), parts % 2)), np.cos(waves), np.sin(waves)], axis=1)
    return _parity_from(basis, _spread(parts, spare))


def chebyshev_parity(parts: int, spare: int, rng: Generator) -> FloatArray:
    """Return polynomial interpolation on Chebyshev's points, parity points spread among the others."""
    total = parts + spare
    angles = (2 * np.arange(total) + 1) * np.pi / (2 * total)
    basis = np.cos(np.arange(parts)[None, :] * angles[:, None])
    return _parity_from(basis, _spread(parts, spare))


PARITIES: dict[str, Callable[[int, int, Generator], FloatArray]] = {
    "random": random_parity,
    "circle": circle_parity,
    "chebyshev": chebyshev_parity,
}


def _spread(parts: int, spare: int) -> IntArray:
    """Return which of parts + spare places belong to parity rows, evenly spread."""
    return ((2 * np.arange(spare) + 1) * (parts + spare)) // (2 * spare)


def _parity_from(basis: FloatArray, places: IntArray) -> FloatArray:
    """Return the values at `places` of what the other points interpolate.

    Which part has which point is shuffled by a stride, so that parts lost together are not neighbours.
    """
    others = np.setdiff1d(np.arange(len(basis)), places)
    stride = max(1, round(0.382 * len(others)))
    while np.gcd(stride, len(others)) != 1:
        stride += 1
    order = (stride * np.arange(len(others))) % len(others)
    return np.linalg.solve(basis[others[order]].T, basis[places].T).T.astype(np.float64, copy=False)
