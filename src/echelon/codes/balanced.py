"""Balanced placements: every part in as many rows, every two parts together in about as many; rows are plain sums."""

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import BoolArray
from echelon.codes.base import Code
from echelon.errors import ArgumentError

_TURNS = 4  # times that every part is placed anew


def balanced(*, rows: int, parts: int, load: int, rng: Generator) -> Code:
    """Return rows that are plain sums of about parts * load / rows parts, with every part in `load` of them.

    Prefer it where a sum that is nearly right is enough: what some rows lack is spread evenly over all parts, so that
    `residual` depends on how many rows came rather than on which (pairwise balanced schemes, as in "Stochastic
    gradient coding", Bitar, Wootters and El Rouayheb 2020). For exact sums take few parts: with as many parts as rows
    each row tends to be needed, while with fewer the first rows that span the target are often few. Only all rows
    together are promised to be enough.

    Parts are placed one by one where they meet those placed before least often, among the rows that hold least, and
    then again for a few turns.

    >>> code = balanced(rows=8, parts=4, load=2, rng=np.random.default_rng(1))
    >>> code.support.sum(axis=0).tolist(), code.support.sum(axis=1).tolist()
    ([2, 2, 2, 2], [1, 1, 1, 1, 1, 1, 1, 1])
    """
    checks.whole("rows", rows, least=1, most=10**4)
    checks.whole("parts", parts, least=1, most=10**4)
    checks.whole("load", load, least=1, most=rows)
    checks.generator("rng", rng)
    if parts * load < rows:
        raise ArgumentError(f"load: {load} is not allowed; {parts} parts would leave some of the {rows} rows empty")
    held = _placed(rows, parts, load, rng)
    return Code(matrix=held.astype(np.float64), target=np.ones((1, parts)), threshold=rows, counting=False)


def _placed(rows: int, parts: int, load: int, rng: Generator) -> BoolArray:
    """Return which row holds which part."""
    held = np.zeros((rows, parts), dtype=bool)
    full = np.zeros(rows, dtype=np.int64)  # parts that each row holds
    for turn in range(_TURNS):
        for part in rng.permutation(parts).tolist():
            if turn:
                full -= held[:, part]
                held[:, part] = False
            # how often the part would meet each other one
            met = np.zeros(parts, dtype=np.int64)
            for _ in range(load):
                free = ~held[:, part]
                least = np.flatnonzero(free & (full == full[free].min()))
                more = held[least] @ (2 * met + 1)  # by how much the squares of these counts would grow
                best = least[more == more.min()]
                row = int(best[rng.integers(len(best))])
                met += held[row]
                held[row, part] = True
                full[row] += 1
    return held
