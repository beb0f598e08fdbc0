"""Stochastic gradient codes: rows that need no decoding, since the sum of those that come is right on average."""

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import BoolArray
from echelon.codes.base import Code
from echelon.errors import ArgumentError


def stochastic(*, rows: int, parts: int, load: int, rng: Generator, missing: float = 0.1) -> Code:
    """Return rows that are sums of about parts * load / rows parts at random, over load (1 - missing).

    Prefer it where rounds end by a deadline and an estimate without bias will do, as in training: if each row comes
    with the chance 1 - p, p = `missing`, whichever others come, then the plain sum of those that come has the mean
    sum of all g_j, since g_j comes in (1 - p) d rows on average, d = `load` (Bitar, Wootters and El Rouayheb 2020,
    "Stochastic gradient coding"). `weights_for` gives these weights, one each. A row i with a_i g as its message comes
    or not, so the estimate has the variance p (1 - p) sum over all rows of |a_i g|^2: more copies and more even rows
    make it small (`Approximate.deviation` tells it of the messages that came).

    Weights that suit the rows that came (`residual`) come nearer, and are biased towards parts that came often. Only
    all rows together are promised to give the sum exactly.

    Differs from paper: a part goes to rows that hold least so far, drawn among these, so that workers have equal work.

    >>> code = stochastic(rows=8, parts=4, load=4, missing=0.2, rng=np.random.default_rng(1))
    >>> code.support.sum(axis=0).tolist(), code.support.sum(axis=1).tolist(), float(code.matrix.max())
    ([4, 4, 4, 4], [2, 2, 2, 2, 2, 2, 2, 2], 0.3125)
    """
    checks.whole("rows", rows, least=1, most=10**4)
    checks.whole("parts", parts, least=1, most=10**4)
    checks.whole("load", load, least=1, most=rows)
    checks.generator("rng", rng)
    if not checks.probability("missing", missing) < 1:
        raise ArgumentError("missing: 1 is not allowed; some rows must come")
    if parts * load < rows:
        raise ArgumentError(f"load: {load} is not allowed; {parts} parts would leave some of the {rows} rows empty")
    matrix = _placed(rows, parts, load, rng) / (load * (1 - missing))
    return Code(
        matrix=matrix, target=np.ones((1, parts)), threshold=rows, counting=False, missing=float(missing)
    )  # fmt: skip


def _placed(rows: int, parts: int, load: int, rng: Generator) -> BoolArray:
    """Return which row holds which part."""
    held = np.zeros((rows, parts), dtype=bool)
    full = np.zeros(rows)
    for part in rng.permutation(parts).tolist():
        chosen = np.lexsort((rng.random(rows), full))[:load]
        held[chosen, part] = True
        full[chosen] += 1
    return held
