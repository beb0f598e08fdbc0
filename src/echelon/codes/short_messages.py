"""Gradient codes with short messages: a row is shorter than the sum that it helps to recover (Ye and Abbe, 2018).

Each result is cut into m pieces. Row i is one combination of all pieces of the d = s + m parts that it holds, so it is
1/m as long as a result; any n - s of n rows give all m pieces of the sum. With m = 1 that is a cyclic gradient code.
"""

from itertools import combinations
from math import comb

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.codes.base import Code
from echelon.codes.decoder import Decoder
from echelon.errors import ArgumentError, NotDecodable

_DRAWS, _FEW_DRAWS = 40, 4  # that compete; few where codes are large, and take long to measure
_WAVES = 4
_LARGE = 64  # rows of a large code
_APART = 0.15  # of the distance of neighbours, by which points of waves are moved
_SETS, _ALL = 60, 200  # sets of rows that codes are measured on besides arcs; or all sets, where there are no more
_WORST = 1e10  # gain beyond which no code is given: float64 keeps five digits


def short_messages(*, rows: int, critical: int, pieces: int, rng: Generator) -> Code:
    """Return as many rows as parts, each 1/pieces as long as a result; any `critical` of them give the sum.

    A row combines rows - critical + pieces consecutive parts: with s losses allowed, s + pieces of them. Prefer it
    where messages, and not computing, are what a round waits for: one more part to compute makes messages half as long,
    two more a third.

    With K = critical, V a real K x n matrix of which any K columns are independent, and B_j an m x K matrix for each
    part j, row i is sum_j (B_j v_i) . (pieces of part j). The last m columns of each B_j are the unit matrix: so the
    weights y with V y = e_(K-m+u) recover the sum's piece u, on any K rows. The other columns make B_j v_i vanish for
    the K - m rows i that do not hold part j: a square system for each j.

    Differs from paper: V is random, or waves (cosines and sines of K neighbouring frequencies, of which the lowest m
    carry the sum), whatever lets noise through least on arcs of losses and on random ones; a piece is a run of
    neighbouring numbers, so that nothing is copied to cut a result.

    >>> code = short_messages(rows=6, critical=4, pieces=2, rng=np.random.default_rng(1))
    >>> code.threshold, code.cost(0), code.matrix.shape, code.target.shape
    (4, 4, (6, 12), (2, 12))
    """
    checks.whole("rows", rows, least=1, most=1000)
    checks.whole("pieces", pieces, least=1, most=rows)
    checks.whole("critical", critical, least=pieces, most=rows)
    checks.generator("rng", rng)
    sets = _measured(rows, critical, rng)
    draws = [_waves(rows, critical, pieces, rng) for _ in range(_WAVES)]
    draws += [rng.standard_normal((critical, rows)) for _ in range(_DRAWS if rows <= _LARGE else _FEW_DRAWS)]
    best, least = None, _WORST
    for columns in draws:
        code = _made(columns, pieces)
        worst = np.inf if code is None else _gain(code, sets, least)
        if worst < least:
            best, least = code, worst
    if best is None:
        raise ArgumentError(
            f"rows: {rows} is not allowed with {critical} of them critical and {pieces} pieces; no draw could be "
            "decoded; allow fewer losses, or use groups of workers with a code each"
        )
    return best


def _waves(rows: int, critical: int, pieces: int, rng: Generator) -> FloatArray:
    """Return waves of K neighbouring frequencies around 0 on n points in a circle, the lowest ones last.

    In complex terms that is a Vandermonde matrix on points of the unit circle, columns scaled: any K columns are
    independent. On points at equal distances some K - 1 of them would be enough, by symmetry; here they are not.
    """
    angles = 2 * np.pi * (np.arange(rows) + rng.uniform(-_APART, _APART, rows)) / rows
    found = []
    for frequency in (critical - 1) / 2 - np.arange(critical // 2):  # halves where K is even
        found += [np.cos(frequency * angles), np.sin(frequency * angles)]
    level = [np.full(rows, 0.5**0.5)] * (critical % 2)
    # cosine and sine of a frequency stay together: then all parts are about as well conditioned as one another
    return np.array([*found, *level] if pieces % 2 else [*level, *found])


def _made(columns: FloatArray, pieces: int) -> Code | None:
    """Return the code of a matrix V, shape (critical, rows); None where a system is singular."""
    critical, rows = columns.shape
    free, fixed = columns[: critical - pieces], columns[critical - pieces :]
    offsets = (np.arange(rows)[None, :] - np.arange(rows)[:, None]) % rows
    held = offsets < rows - critical + pieces
    matrix = np.zeros((rows, rows, pieces))
    for part in range(rows):
        without = np.flatnonzero(~held[:, part])
        try:
            solved = np.linalg.solve(free[:, without].T, -fixed[:, without].T)
        except np.linalg.LinAlgError:
            return None
        matrix[:, part] = free.T @ solved + fixed.T
        matrix[without, part] = 0.0
    if not np.isfinite(matrix).all() or (np.abs(matrix).max(axis=2)[held] == 0).any():
        return None
    matrix /= np.abs(matrix).max(axis=(1, 2), keepdims=True)
    target = np.tile(np.eye(pieces), rows)
    return Code(
        matrix=matrix.reshape(rows, rows * pieces), target=target, threshold=critical, counting=True, pieces=pieces
    )


def _measured(rows: int, critical: int, rng: Generator) -> list[IntArray]:
    """Return sets of rows on which codes are compared: all, or arcs of losses and random ones."""
    if comb(rows, critical) <= _ALL:
        return [np.array(some) for some in combinations(range(rows), critical)]
    starts = np.unique(np.linspace(0, rows - 1, min(rows, _SETS)).astype(int))
    arcs = [(start + np.arange(critical)) % rows for start in starts]
    return arcs + [rng.choice(rows, critical, replace=False) for _ in range(_SETS)]


def _gain(code: Code, sets: list[IntArray], enough: float) -> float:
    """Return the largest gain of a message's error over some sets of rows; infinite as soon as it is `enough`."""
    worst = 0.0
    try:
        decoder = Decoder(code, limit=1e12)
        for some in sets:
            worst = max(worst, decoder.weights(some).gain)
            if worst >= enough:
                return np.inf
    except (ArgumentError, NotDecodable):
        return np.inf
    return worst
