"""Any K of n rows give all parts, and the first K rows are the parts: for matrix-vector and any linear work."""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.codes.base import Code
from echelon.codes.parity import PARITIES
from echelon.errors import ArgumentError

_DRAWS = 4  # seeded draws of random parity that compete
_EFFORT = 3e7  # multiplications, about, that measuring one rival may take


def mds(*, parts: int, rows: int, rng: Generator, parity: str = "auto") -> Code:
    """Return identity rows and rows - parts parity rows; with nothing lost, decoding is a copy.

    `parity` names a family of `PARITIES`, or "auto" for the one that amplifies noise least on measured patterns of
    losses, consecutive ones included: no family is the best for every size.

    >>> code = mds(parts=3, rows=5, rng=np.random.default_rng(1))
    >>> code.threshold, code.systematic, code.cost(4)
    (3, 3, 1)
    """
    checks.whole("parts", parts, least=1, most=10**4)
    checks.whole("rows", rows, least=parts, most=2 * 10**4)
    checks.one_of("parity", parity, ["auto", *PARITIES])
    checks.generator("rng", rng)
    spare = rows - parts
    if not spare:
        return _code(np.empty((0, parts)))
    names = list(PARITIES) if parity == "auto" else [parity]
    rivals = [PARITIES[name](parts, spare, rng) for name in names]
    if "random" in names:
        rivals += [PARITIES["random"](parts, spare, rng) for _ in range(_DRAWS - 1)]
    best = _least_noisy(rivals, [_Pattern(parts, spare, lost) for lost in _losses(rows, spare, rng)])
    if best is None:
        raise ArgumentError(
            f"parity: {parity!r} is not allowed for {parts} parts and {rows} rows; it can't be inverted"
        )
    return _code(best)


def _code(parity: FloatArray) -> Code:
    parts = parity.shape[1]
    return Code(
        matrix=np.concatenate([np.eye(parts), parity]),
        target=np.eye(parts),
        threshold=parts,
        counting=True,
        precoded=True,
        systematic=parts,
    )


def _losses(rows: int, spare: int, rng: Generator) -> Iterator[IntArray]:
    """Yield sets of `spare` lost rows: consecutive ones, and random ones."""
    count = int(np.clip(_EFFORT / (spare**3 + spare * rows), 20, 400))
    for start in np.unique(np.linspace(0, rows - 1, min(rows, count)).astype(int)):
        yield (start + np.arange(spare)) % rows
    for _ in range(count):
        yield rng.choice(rows, spare, replace=False)


class _Pattern:
    """Which parts are gone and which are kept, and which parity rows are left, as many as parts are gone."""

    def __init__(self, parts: int, spare: int, lost: IntArray) -> None:
        there = np.ones(parts + spare, dtype=bool)
        there[lost] = False
        self.gone = lost[lost < parts]
        self.kept, self.left = np.flatnonzero(there[:parts]), np.flatnonzero(there[parts:])

    def noise(self, parity: FloatArray) -> float:
        """Return the largest norm of the weights that recover a lost part."""
        if not len(self.gone):
            return 1.0
        rows = parity[self.left]
        left, sizes, right = np.linalg.svd(rows[:, self.gone])
        if sizes[0] > 1e12 * sizes[-1]:
            return float("inf")
        solve = right.T @ (left.T / sizes[:, None])
        weights = np.concatenate([solve, -solve @ rows[:, self.kept]], axis=1)
        return float(np.linalg.norm(weights, axis=1).max())


def _least_noisy(rivals: list[FloatArray], patterns: list[_Pattern]) -> FloatArray | None:
    """Return the parity with the least noise in its worst pattern, or None where none is finite."""
    best, least = None, float("inf")
    for rival in rivals:
        worst = 0.0
        for pattern in patterns:
            worst = max(worst, pattern.noise(rival))
            if worst >= least:
                break  # another is already better
        else:
            best, least = rival, worst
    return best
