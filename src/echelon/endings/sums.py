"""What is there of the sums of one round, as its rows come."""

from collections.abc import Sequence


class Sums:
    """How much each slot still misses: the squared distance of its effective weights from those of the sum.

    sizes: what a slot without any row misses: the number of its parts.

    >>> sums = Sums([3.0, 1.0])
    >>> sums.miss(0, 1.0)
    >>> sums.share
    0.5
    """

    def __init__(self, sizes: Sequence[float]) -> None:
        self.sizes, self.missed = list(sizes), list(sizes)
        self.recovered = [False] * len(self.sizes)
        self.whole = self._left = sum(self.sizes)

    def miss(self, slot: int, squared: float) -> None:
        """Note what a slot misses now."""
        self._left += squared - self.missed[slot]
        self.missed[slot] = squared

    @property
    def share(self) -> float:
        """The share of the sums that is there, from 0 to 1: 1 - |alpha - 1|^2 / |1|^2 over all parts."""
        return min(1.0, max(0.0, 1.0 - self._left / self.whole))
