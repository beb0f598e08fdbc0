"""The k-th smallest of a few numbers, for many rounds at once: a network of minima and maxima on whole vectors.

Batcher's odd-even merge sort is a fixed list of comparators, whatever the numbers; those that do not lead to the k-th
output are left out. Each comparator is one or two passes over contiguous memory, which is several times quicker than
sorting each round by itself.
"""

from functools import lru_cache

import numpy as np

from echelon.arrays import FloatArray

_MOST = 16  # beyond this many numbers, sorting each round by itself is quicker

Comparator = tuple[int, int, bool, bool]  # places, and whether the smaller and the larger number are needed


def kth_smallest(values: FloatArray, k: int) -> FloatArray:
    """Return the k-th smallest (from 0) along the first axis; `values` is used as scratch memory.

    >>> kth_smallest(np.array([[3.0, 1.0], [2.0, 5.0], [1.0, 4.0]]), 1).tolist()
    [2.0, 4.0]
    """
    if k == 0:
        smallest: FloatArray = values.min(axis=0)
        return smallest
    if len(values) > _MOST:
        ordered: FloatArray = np.partition(values, k, axis=0)[k]
        return ordered
    rows: list[FloatArray] = list(values)
    spare = np.empty_like(rows[0])
    for low, high, wants_low, wants_high in network(len(rows), k):
        if wants_low:
            np.minimum(rows[low], rows[high], out=spare)
        if wants_high:
            np.maximum(rows[low], rows[high], out=rows[high])
        if wants_low:
            rows[low], spare = spare, rows[low]
    return rows[k]


@lru_cache(maxsize=256)
def network(size: int, k: int) -> tuple[Comparator, ...]:
    """Return the comparators that bring the k-th smallest of `size` numbers to place k."""
    needed = {k}
    kept: list[Comparator] = []
    for low, high in reversed(_sorting(size)):
        if low in needed or high in needed:
            kept.append((low, high, low in needed, high in needed))
            needed |= {low, high}
    return tuple(reversed(kept))


def _sorting(size: int) -> list[tuple[int, int]]:
    """Return Batcher's comparators, lower place first (Knuth, volume 3, algorithm 5.2.2 M)."""
    found: list[tuple[int, int]] = []
    top = 1 << max(size - 1, 1).bit_length() - 1
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while True:
            found += [(i, i + d) for i in range(size - d) if i & p == r]
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1
    return found
