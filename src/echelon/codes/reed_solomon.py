"""Polynomial codes on an arbitrary mask: any pattern of which worker holds which part becomes a code.

Column j holds the values of a polynomial at the rows' points; it vanishes at the points of the rows that do not hold
part j, and is 1 at the point that decoding aims at. Polynomials of a degree below K are known from any K values, so
any K rows give the value at that point, for all columns with the same weights: the sum of the parts. K is one more
than the largest number of rows that a part is missing from.
"""

import numpy as np

from echelon import checks
from echelon.arrays import BoolArray, ComplexArray, FloatArray
from echelon.codes.base import Code
from echelon.codes.points import strided
from echelon.errors import ArgumentError


def threshold_of(mask: BoolArray) -> int:
    """Return one more than the largest number of zeros in a column: that many rows always hold every part."""
    return int((~_checked(mask)).sum(axis=0).max()) + 1


def _checked(mask: object) -> BoolArray:
    try:
        held = np.asarray(mask, dtype=bool)
    except (TypeError, ValueError):
        held = np.empty(0, dtype=bool)
    if held.ndim != 2 or not held.size or not held.any(axis=0).all() or not held.any(axis=1).all():
        raise ArgumentError("mask: must have two axes, a part in every row and a row for every part")
    return held


def reed_solomon(mask: BoolArray, *, real: bool = False, stride: int | None = None) -> Code:
    """Return the code whose row i holds the parts that ``mask[i]`` names, shape (rows, parts).

    Points are roots of unity and decoding aims at 0, the middle of the circle: prefer it for accuracy. `real` uses
    real trigonometric polynomials and one more point to aim at: messages stay real, errors are larger. `stride` says
    which root belongs to row i, stride * i; neighbours on the circle tell little apart, so rows that go missing
    together should be far from each other. By default it is the stride nearest to 0.276 n that has no common divisor
    with n (11 for 40 rows).

    >>> code = reed_solomon(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=bool))
    >>> code.threshold, code.matrix.shape
    (2, (3, 3))
    """
    mask = _checked(mask)
    checks.flag("real", real)
    if stride is not None:
        checks.whole("stride", stride, least=1)
    rows, parts = mask.shape
    circle = rows + 1 if real else rows
    turns = strided(circle, stride)[:rows] / circle
    degree = threshold_of(mask) - 1
    matrix = _real_values(mask, turns, degree) if real else _values(mask, turns)
    counting = np.linalg.matrix_rank(matrix) == degree + 1
    return Code(matrix=matrix, target=np.ones((1, parts)), threshold=degree + 1, counting=bool(counting))


def _values(mask: BoolArray, turns: FloatArray) -> ComplexArray:
    points = np.exp(2j * np.pi * turns)
    ratios = 1 - points[:, None] / points[None, :]  # of the value at point i to the value at 0, of a zero at point k
    columns = [np.prod(ratios[:, ~mask[:, j]], axis=1) for j in range(mask.shape[1])]
    return np.where(mask, np.stack(columns, axis=1), 0)


def _real_values(mask: BoolArray, turns: FloatArray, degree: int) -> FloatArray:
    angles = 2 * np.pi * turns
    aim = _free_angle(turns)
    ratios = np.sin((angles[:, None] - angles[None, :]) / 2) / np.sin((aim - angles[None, :]) / 2)
    # one at the aim, and zero at a place between two rows' points: brings every column to the same degree
    nowhere = aim + np.pi * (1 + 1 / (len(turns) + 1)) if len(turns) % 2 else aim + np.pi
    filler = np.sin((angles - nowhere) / 2) / np.sin((aim - nowhere) / 2)
    columns = []
    for j in range(mask.shape[1]):
        zeros = ~mask[:, j]
        columns.append(np.prod(ratios[:, zeros], axis=1) * filler ** (degree - int(zeros.sum())))
    return np.where(mask, np.stack(columns, axis=1), 0.0)


def _free_angle(turns: FloatArray) -> float:
    """Return the angle of the one point of the circle that no row has."""
    circle = len(turns) + 1
    taken = np.zeros(circle, dtype=bool)
    taken[np.rint(turns * circle).astype(int)] = True
    return float(2 * np.pi * np.flatnonzero(~taken)[0] / circle)
