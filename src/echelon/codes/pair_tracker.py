"""When rows that are sums of at most two groups of parts are enough: components and their parity, as rows arrive."""

from typing import Self

from echelon.codes.base import Code
from echelon.codes.residual import Approximate, residual
from echelon.codes.seen import Seen
from echelon.errors import ArgumentError


class PairTracker(Seen):
    """Joins components as rows arrive, and knows of each how much of the target it misses (`echelon.codes.pairs`).

    A row costs next to nothing, whatever the size of the code. The count of components that miss something is a whole
    number, so "enough" is exact.

    >>> from echelon.codes import fractional_repetition
    >>> tracker = PairTracker(fractional_repetition(rows=4, load=2))
    >>> [(tracker.add(row), round(tracker.residual**2)) for row in (0, 1, 3)]
    [(False, 2), (False, 2), (True, 0)]
    """

    def __init__(self, code: Code) -> None:
        super().__init__()
        pairs = code.pairs
        if pairs is None:
            raise ArgumentError("code: not allowed; its rows must be plain sums of at most two groups of parts")
        self._code = code
        self._ends: list[list[int]] = pairs.ends.tolist()
        count = len(pairs.sizes)
        self._up = list(range(count))
        self._flip = [1] * count  # the side of a vertex, seen from the one above it
        self._rank = [0] * count
        self._lead = [1] * count  # of each component: vertices on the side of its root, less those on the other
        self._spread = [1.0 / size for size in pairs.sizes.tolist()]  # sum of 1 / parts over the component
        self._free = [False] * count  # whether it has an odd cycle
        self._short = count  # components that miss something
        self._missed = float(pairs.sizes.sum())  # sum of what they miss, squared

    def copy(self) -> Self:
        """Return an independent copy that has taken in the same rows."""
        made = super().copy()
        for name in ("_up", "_flip", "_rank", "_lead", "_spread", "_free"):
            setattr(made, name, getattr(self, name).copy())
        return made

    @property
    def residual(self) -> float:
        """Distance of the nearest effective weights from those of the sum of all parts; 0 where they are enough."""
        return max(self._missed, 0.0) ** 0.5 if self._short else 0.0

    def nearest(self) -> Approximate:
        """Return weights of the rows received that come nearest to the target, in time linear in their number."""
        return residual(self._code, self._seen)

    def add(self, row: int) -> bool:
        """Take in a row and return whether the target lies in the span of the rows."""
        if row not in self._seen and row in range(len(self._ends)):
            self._seen[row] = None
            self._join(*self._ends[row])
        return self._short == 0

    def _join(self, u: int, v: int) -> None:
        (a, side_a), (b, side_b) = self._root(u), self._root(v)
        before = self._squared(a) + (self._squared(b) if a != b else 0.0)
        self._short -= (before > 0) if a == b else (self._squared(a) > 0) + (self._squared(b) > 0)
        if a == b:
            self._free[a] = self._free[a] or side_a == side_b
        else:
            if self._rank[a] < self._rank[b]:
                a, b, side_a, side_b = b, a, side_b, side_a
            turned = -side_a * side_b  # the ends of a row are on different sides
            self._up[b], self._flip[b] = a, turned
            self._rank[a] += self._rank[a] == self._rank[b]
            self._lead[a] += turned * self._lead[b]
            self._spread[a] += self._spread[b]
            self._free[a] = self._free[a] or self._free[b]
        after = self._squared(a)
        self._short += after > 0
        self._missed += after - before

    def _squared(self, root: int) -> float:
        return 0.0 if self._free[root] else self._lead[root] ** 2 / self._spread[root]

    def _root(self, vertex: int) -> tuple[int, int]:
        """Return the root of a vertex and the vertex's side, seen from there; paths stay short by joining by rank."""
        side = 1
        while self._up[vertex] != vertex:
            side *= self._flip[vertex]
            vertex = self._up[vertex]
        return vertex, side
