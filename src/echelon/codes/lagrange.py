"""Lagrange coded computing: any polynomial of degree d of the parts, from coded parts.

The parts are the values of a polynomial u at K points; row i is computed on u(alpha_i), a combination of the parts. A
function f of degree d makes f(u(.)) a polynomial of degree (K - 1) d: one row more than that gives it, and with it f
of every part.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from echelon import checks
from echelon.arrays import BoolArray, FloatArray
from echelon.codes.base import Code
from echelon.codes.combine import apply_rows
from echelon.reprs import short_repr


@dataclass(frozen=True, eq=False, kw_only=True)
class LagrangeCode(Code):
    """A code for values of a polynomial function.

    encoder: row i is computed on ``encoder[i] @ parts``, shape (rows, parts); `matrix` and `target` describe
        the coefficients of f(u(.)) and f of every part.
    """

    encoder: FloatArray

    __repr__ = short_repr

    @property
    def parts(self) -> int:
        """Number of parts for which the function is wanted."""
        return int(self.encoder.shape[1])

    @cached_property
    def support(self) -> BoolArray:
        """Every coded part combines all parts, shape (rows, parts)."""
        return np.ones(self.encoder.shape, dtype=bool)

    def encode_parts(self, parts: Any) -> Any:
        """Return the coded parts on which the rows compute the function, in the library of the parts."""
        return apply_rows(self.encoder, parts)


def lagrange(*, parts: int, degree: int, rows: int) -> LagrangeCode:
    """Return the code for functions of this degree; any (parts - 1) degree + 1 rows give the function of every part.

    All points are Chebyshev's, those of the parts spread among those of the rows, and polynomials are written in
    Chebyshev's basis: real, and as well conditioned as interpolation gets.

    >>> lagrange(parts=4, degree=2, rows=10).threshold
    7
    """
    checks.whole("parts", parts, least=1, most=1000)
    checks.whole("degree", degree, least=1, most=100)
    threshold = (parts - 1) * degree + 1
    checks.whole("rows", rows, least=threshold, most=10**4)
    total = parts + rows
    places = ((2 * np.arange(parts) + 1) * total) // (2 * parts)
    points = np.cos((2 * np.arange(total) + 1) * np.pi / (2 * total))
    anchors, nodes = points[places], np.delete(points, places)
    gaps = anchors[:, None] - anchors[None, :]
    np.fill_diagonal(gaps, 1.0)
    encoder = np.empty((rows, parts))
    for k in range(parts):
        others = np.delete(np.arange(parts), k)
        encoder[:, k] = np.prod((nodes[:, None] - anchors[others]) / gaps[k, others], axis=1)
    degrees = np.arange(threshold)
    return LagrangeCode(
        matrix=np.cos(degrees * np.arccos(nodes)[:, None]),
        target=np.cos(degrees * np.arccos(anchors)[:, None]),
        threshold=threshold,
        counting=True,
        precoded=True,
        encoder=encoder,
    )
