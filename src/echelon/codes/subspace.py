"""Rows with given supports inside a drawn subspace that holds the all-one vector.

A subspace of dimension K of the space of `parts` coordinates has, for any `load` = parts - K + 1 of them, a vector
that is zero elsewhere. If it also holds the all-one vector, and rows are such vectors in general position, any K of
them span it, and so give the sum of all parts (stream, appendix; gradient coding's random null-space construction).
"""

from contextlib import suppress
from itertools import combinations
from math import comb

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import BoolArray, FloatArray, IntArray
from echelon.codes.base import Code
from echelon.errors import ArgumentError

_MISFIT = 1e-9  # of a vector that should be orthogonal to others, relative to its largest number
_ALL = 4096  # patterns of losses, if there are no more of them: all are tried
_SOME, _LEAST = 512, 16  # of more patterns, how many are tried, and how many at least
_HOPELESS = 1e12  # noise beyond which a pattern counts as one that can't be decoded
_MOST, _WORST = 0.9, 1e-3  # where some are tried: by which share draws are compared, and how much the worst counts
_NUMBERS = 1 << 22  # of all systems that are solved for these, about
_WAVES = 24  # parts: with more, waves gain nothing
_NEAR = (0.02, 0.05, 0.1, 0.2, 0.4)  # how far from waves draws are, one after another
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
    """Return rows with these supports out of a drawn subspace of this dimension that holds the all-one vector.

    Few parts are drawn near a cyclic code over roots of unity, more of them at random. Of a few draws the one whose
    decoding amplifies noise least is kept: whatever is lost, or, where there are too many patterns of losses to try,
    in nine of ten that are tried.
    """
    parts = support.shape[1]
    best, least = None, float("inf")
    rows, waves = len(support), _waves(parts - dimension, parts)
    losses = _losses(rows, dimension, rng)
    for turn in range(_tries(rows)):
        matrix = np.zeros(support.shape)
        if dimension < parts:
            # what the subspace is orthogonal to; itself orthogonal to the all-one vector
            normals = rng.standard_normal(waves.shape)
            if parts <= _WAVES:
                normals = waves + _NEAR[turn % len(_NEAR)] * normals
            normals -= normals.mean(axis=1, keepdims=True)
        for i, places in enumerate(support):
            where = np.flatnonzero(places)
            free = np.eye(len(where)) if dimension == parts else _null_space(normals[:, where])
            row = rng.standard_normal(len(free)) @ free
            matrix[i, where] = row / np.abs(row).max() * np.sign(row.sum() or 1.0)
        found = _noise(matrix, dimension, losses)
        noise = float(found.max())
        if comb(rows, dimension) > _ALL:  # which pattern is the worst of some is chance
            noise = float(np.quantile(found, _MOST, method="higher")) + _WORST * noise
        if noise < least:
            best, least = matrix, noise
    if best is None:
        raise ArgumentError(f"support: no draw of {_TRIES} could be decoded; use fewer losses, or roots of unity")
    return Code(matrix=best, target=np.ones((1, parts)), threshold=dimension, counting=True)


def _waves(count: int, parts: int) -> FloatArray:
    """Return the quickest waves over this many parts, one per line of the result.

    The vectors orthogonal to them are a cyclic code whose roots are consecutive roots of unity, as in "Gradient coding
    from cyclic MDS codes and expander graphs" (Raviv, Tamo, Tandon and Dimakis 2020), which is well conditioned for few
    parts. If `count + parts` is even, no such roots come in conjugate pairs: waves are then shifted by half a step, and
    weighted by half a cosine, so that they stay orthogonal to the all-one vector. Codes are drawn near them, not from
    them: waves have relations by which fewer rows are enough at times, which a code that counts its rows must not have.
    """
    at, slower = np.arange(parts) - (parts - 1) / 2, np.arange(count)[:, None] - (count - 1) / 2
    phase = 2 * np.pi * slower * at / parts  # less than that of the wave of two parts
    by = np.resize([1.0, -1.0], parts) * (1.0 if (count + parts) % 2 else np.cos(np.pi * at / parts))
    waves: FloatArray = np.asarray(by * np.where(slower < 0, np.sin(phase), np.cos(phase)), dtype=np.float64)
    return waves


def _tries(rows: int) -> int:
    return _TRIES if rows <= 64 else 6 if rows <= 128 else 3 if rows <= 512 else 1


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


def _losses(rows: int, dimension: int, rng: Generator) -> IntArray:
    """Return which rows may be lost: all patterns if they are few, else neighbours and some at random."""
    lost = rows - dimension
    if comb(rows, lost) <= _ALL:
        return np.array(list(combinations(range(rows), lost)), dtype=np.int64).reshape(comb(rows, lost), lost)
    half = max(_LEAST, min(_SOME, _NUMBERS // min(lost, dimension) ** 2)) // 2
    first = np.arange(min(half, rows)) * rows // min(half, rows)
    apart = rng.permuted(np.tile(np.arange(rows), (half, 1)), axis=1)[:, :lost]
    return np.vstack([(first[:, None] + np.arange(lost)) % rows, apart])


def _noise(matrix: FloatArray, dimension: int, losses: IntArray) -> FloatArray:
    """Return by how much decoding amplifies the rounding of rows, for each pattern of losses; inf where it fails.

    One inf stands for all patterns where a system has no solution at all.
    """
    few = losses.shape[1] <= dimension
    left, _, right = np.linalg.svd(matrix, full_matrices=few)
    inside = right[:dimension].T  # the space of the rows
    wanted = inside.sum(axis=0)
    if not np.allclose(inside @ wanted, 1.0, rtol=0, atol=_MISFIT):
        return np.array([np.inf])
    try:
        weights = _by_lost(matrix, left[:, dimension:], losses) if few else _by_kept(matrix @ inside, wanted, losses)
    except np.linalg.LinAlgError:
        return np.array([np.inf])
    noise: FloatArray = np.linalg.norm(weights * np.linalg.norm(matrix, axis=1), axis=1)
    return np.where(noise <= _HOPELESS, noise, np.inf)


def _by_lost(matrix: FloatArray, cancel: FloatArray, losses: IntArray) -> FloatArray:
    """Return weights that give the sum, 0 for rows that are lost: any, shifted by combinations of rows that cancel."""
    whole = np.linalg.lstsq(matrix.T, np.ones(matrix.shape[1]))[0]
    shifts: FloatArray = np.linalg.solve(cancel[losses], -whole[losses][:, :, None])[:, :, 0]
    return whole + shifts @ cancel.T


def _by_kept(inside: FloatArray, wanted: FloatArray, losses: IntArray) -> FloatArray:
    """Return the same where fewer rows are kept than lost, by what those are in coordinates of their space."""
    patterns = np.arange(len(losses))[:, None]
    here = np.ones((len(losses), len(inside)), dtype=bool)
    here[patterns, losses] = False
    kept = np.nonzero(here)[1].reshape(len(losses), -1)
    weights = np.zeros(here.shape)
    weights[patterns, kept] = np.linalg.solve(inside[kept].transpose(0, 2, 1), wanted[:, None])[:, :, 0]
    return weights
