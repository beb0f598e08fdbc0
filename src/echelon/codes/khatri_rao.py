"""Separable random rows: independent random combinations of X's blocks and of Y's. Prefer it by default."""

import numpy as np
from numpy.random import Generator

from echelon.arrays import IntArray
from echelon.codes.decoder import Decoder
from echelon.codes.products import ProductCode, checked_blocks, product_code

_DRAWS, _SETS = 4, 30  # draws that compete, and sets of rows that they are measured on


def khatri_rao(*, x: int, y: int, rows: int, rng: Generator) -> ProductCode:
    """Return rows that are products of random combinations; any x y of them give all blocks, with probability one.

    Real, and well conditioned at sizes where polynomials on real points have lost all digits.

    >>> khatri_rao(x=2, y=3, rows=8, rng=np.random.default_rng(1)).threshold
    6
    """
    checked_blocks(x, 1, y, rows, x * y)
    draws = [_draw(x, y, rows, rng) for _ in range(_DRAWS)]
    sets = [rng.choice(rows, x * y, replace=False) for _ in range(_SETS)]
    return min(draws, key=lambda code: _worst(code, sets))


def _draw(x: int, y: int, rows: int, rng: Generator) -> ProductCode:
    left, right = rng.standard_normal((rows, x)), rng.standard_normal((rows, y))
    # rows of one length: a short one would be mostly noise
    left *= np.sqrt(x) / np.linalg.norm(left, axis=1, keepdims=True)
    right *= np.sqrt(y) / np.linalg.norm(right, axis=1, keepdims=True)
    return product_code(left, right, (x, 1, y), x * y)


def _worst(code: ProductCode, sets: list[IntArray]) -> float:
    decoder = Decoder(code, limit=float("inf"))
    return max(decoder.weights(some).amplification for some in sets)
