"""Rows with given supports inside a random subspace that holds the all-one vector.

A subspace of dimension K of the space of `parts` coordinates has, for any `load` = parts - K + 1 of them, a vector
that is zero elsewhere. If it also holds the all-one vector, and rows are such vectors in general position, any K of
them span it, and so give the sum of all parts (stream, appendix; gradient coding's random null-space construction).
"""

from contextlib import suppress
from itertools import combinations

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import BoolArray, FloatArray
from echelon.codes.base import Code
from echelon.codes.decoder import Decoder
from echelon.errors import ArgumentError, NotDecodable

_MISFIT = 1e-9  # of a vector that should be orthogonal to others, relative to its largest number
_STARTS = 256  # runs of consecutive losses that are tried
_TRIES = 20  # competing draws of small codes; large ones are slow, and get fewer


def subspace(*, critical: int, rows: int, parts: int, rng: Generator, load: int | None = None) -> Code:
    """Return a code of which any `critical` of `rows` rows give the sum of `parts` parts, `load` of them in a row.

    The load is at least parts - K + 1, which is the default.

    Supports are cyclic arcs whose starts are spread evenly, so that every part lies in the same number of rows, give or
    take one. A part that is missing from K rows could not be recovered from them, which bounds the number of rows:
    rows * (parts - load) / parts must be less than K.

    >>> subspace(critical=2, rows=3, parts=3, rng=np.random.default_rng(1)).support.sum(axis=1).tolist()
    [2, 2, 2]
    """
    checks.whole("parts", parts, least=1, most=10**5)
    checks.whole("critical", critical, least=1, most=parts)
    checks.generator("rng", rng)
    checks.whole("rows", rows, least=critical, most=10**5)
    least = parts - critical + 1
    load = least if load is None else checks.whole("load", load, least=least, most=parts)
    starts = (np.arange(rows) * parts) // rows
    support = (np.arange(parts)[None, :] - starts[:, None]) % parts < load
    absent = int((~support).sum(axis=0).max())
    if absent >= critical:
        raise ArgumentError(
            f"rows: {rows} is not allowed; a part would be missing from {absent} rows; must be fewer than critical, "
            f"{critical}"
        )
    return code_in_subspace(support, critical, rng)


def code_in_subspace(support: BoolArray, dimension: int, rng: Generator) -> Code:
    """Return rows with these supports out of a random subspace of this dimension that holds the all-one vector.

    Of a few draws the one whose decoding amplifies noise least is kept.
    """
    parts = support.shape[1]
    best, least = None, float("inf")
    for _ in range(_tries(len(support))):
        matrix = np.zeros(support.shape)
        if dimension < parts:
            # what the subspace is orthogonal to: random, but orthogonal to the all-one vector
            normals = rng.standard_normal((parts - dimension, parts))
            normals -= normals.mean(axis=1, keepdims=True)
        for i, places in enumerate(support):
            where = np.flatnonzero(places)
            free = np.eye(len(where)) if dimension == parts else _null_space(normals[:, where])
            row = rng.standard_normal(len(free)) @ free
            matrix[i, where] = row / np.abs(row).max() * np.sign(row.sum() or 1.0)
        code = Code(matrix=matrix, target=np.ones((1, parts)), threshold=dimension, counting=True)
        noise = _worst(code)
        if noise < least:
            best, least = code, noise
    if best is None:
        raise ArgumentError(f"support: no draw of {_TRIES} could be decoded; use fewer losses, or roots of unity")
    return best


def _tries(rows: int) -> int:
    return _TRIES if rows <= 64 else 3 if rows <= 512 else 1


def _null_space(normals: FloatArray) -> FloatArray:
    """Return a basis of what is orthogonal to these rows; if that is one vector, by a system of equations."""
    count, places = normals.shape
    if places == count + 1:
        with suppress(np.linalg.LinAlgError):
            found = np.append(np.linalg.solve(normals[:, :-1], -normals[:, -1]), 1.0)
            if np.abs(normals @ found).max() <= _MISFIT * np.abs(found).max():
                return found[None]
    basis: FloatArray = np.linalg.svd(normals)[2][count:]
    return basis


def _worst(code: Code) -> float:
    """Return the largest amplification over consecutive losses, the usual worst case; small codes try all losses."""
    lost = code.rows - code.threshold
    if code.rows <= 8:
        patterns = [list(some) for some in combinations(range(code.rows), code.threshold)]
    else:
        starts = np.unique(np.linspace(0, code.rows - 1, min(code.rows, _STARTS)).astype(int)).tolist()
        patterns = [[(start + i) % code.rows for i in range(lost, code.rows)] for start in starts]
    try:
        decoder = Decoder(code, limit=1e12)
        return max(decoder.weights(some).amplification for some in patterns)
    except (ArgumentError, NotDecodable):
        return float("inf")
