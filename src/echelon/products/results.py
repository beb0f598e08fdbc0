"""Results of products, for the function that makes the next pair of factors."""

from collections import deque

from echelon.arrays import NumberArray
from echelon.products.chain import Product

KEPT = 64  # results that can be looked back on


class Results:
    """``results[i]`` is the product of pair i, after waiting for it if needed; negative i count from the end.

    The last 64 are kept.
    """

    def __init__(self) -> None:
        self._kept: deque[Product] = deque(maxlen=KEPT)
        self._count = 0

    def append(self, product: Product) -> None:
        """Add one more product; for the stream."""
        self._kept.append(product)
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> NumberArray:
        number = index + self._count if index < 0 else index
        if not 0 <= number < self._count:
            raise IndexError(f"result {index}: only {self._count} pairs were given so far")
        back = self._count - number
        if back > len(self._kept):
            raise IndexError(f"result {index}: only the last {KEPT} are kept")
        return self._kept[-back].future.result()
