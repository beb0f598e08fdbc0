"""Separable random rows: plain products first, then products of random combinations. Prefer it by default."""

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import IntArray
from echelon.codes.decoder import Decoder
from echelon.codes.products import ProductCode, checked_blocks, plain_first

_LIMIT = 3000.0  # eps of float32 times this, and a little for the sums: errors stay below 1e-3
_DRAWS, _SETS = 4, 30  # draws that compete, and sets of rows that they are measured on


def khatri_rao(*, x: int, y: int, rows: int, rng: Generator) -> ProductCode:
    """Return x y plain products and products of random combinations; any x y rows give all blocks, almost surely.

    Real, and well conditioned at sizes where polynomials on real points have lost all digits: with s plain products
    lost, what is solved is an s by s random system. About one such system in seventy amplifies noise more than the
    code's limit of 3000; decoders then wait for one more row, and so keep three digits of float32 messages.

    >>> khatri_rao(x=2, y=3, rows=8, rng=np.random.default_rng(1)).threshold
    6
    """
    for name, size in (("x", x), ("y", y)):
        checks.whole(name, size, least=1)
    checks.generator("rng", rng)
    checked_blocks(x, 1, y, rows, x * y)
    draws = [_draw(x, y, rows, rng) for _ in range(_DRAWS)]
    sets = [rng.choice(rows, x * y, replace=False) for _ in range(_SETS)]
    return min(draws, key=lambda code: _worst(code, sets))


def _draw(x: int, y: int, rows: int, rng: Generator) -> ProductCode:
    spare = rows - x * y
    left, right = rng.standard_normal((spare, x)), rng.standard_normal((spare, y))
    # rows of one length, that of the plain ones: a short one would be mostly noise
    left /= np.linalg.norm(left, axis=1, keepdims=True)
    right /= np.linalg.norm(right, axis=1, keepdims=True)
    return plain_first(left, right, x, y, _LIMIT)


def _worst(code: ProductCode, sets: list[IntArray]) -> float:
    decoder = Decoder(code, limit=float("inf"))
    return max(decoder.weights(some).amplification for some in sets)
