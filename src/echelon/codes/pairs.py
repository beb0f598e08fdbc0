"""Codes whose rows are plain sums of one or two groups of parts: a graph, which says at once what is recovered.

Groups of parts that are always together are vertices; a row is an edge between two of them, or a loop at one. The
rows received fall into connected components. Along an edge {u, v} the effective weight of u and that of v are raised
by the same amount. So in a component without a cycle of odd length (bipartite, with sides A and B) the weights on A
sum to what those on B sum to, and any weights that do can be reached; with an odd cycle, or a loop, any at all can.
Hence the sum of all parts comes out if and only if every component has an odd cycle, or as many groups on one side as
on the other. Elsewhere the nearest weights are known as well: with W = sum over the component of 1 / (parts of the
group), those of side A are too small by (|A| - |B|) / W / (parts of the group), those of side B too large by as much,
and the component's share of the squared distance is (|A| - |B|)^2 / W.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from echelon.arrays import FloatArray, IntArray, NumberArray


@dataclass(frozen=True, eq=False, slots=True)
class Pairs:
    """The graph of a code.

    ends: the vertices of each row, shape (rows, 2); twice the same for a loop.
    sizes: parts of each vertex, shape (vertices,). vertex_of: the vertex of each part, shape (parts,).
    """

    ends: IntArray
    sizes: IntArray
    vertex_of: IntArray

    def nearest(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return weights of rows whose sum is as near to the sum of all parts as can be, and those of the vertices.

        In linear time: along a tree in every component from its leaves on, and once more around an odd cycle. They are
        among the nearest ones, but not the shortest.

        >>> pairs = pairs_of(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]), np.ones((1, 3)))
        >>> weights, reached = pairs.nearest(np.array([0, 1]))
        >>> weights.round(9).tolist(), reached.round(9).tolist()
        ([0.666666667, 0.666666667], [0.666666667, 0.666666667, 1.333333333])
        """
        weights, reached = np.zeros(len(rows)), np.zeros(len(self.sizes))
        touching: list[list[tuple[int, int]]] = [[] for _ in self.sizes]
        ends = self.ends[rows].tolist()
        for at, (u, v) in enumerate(ends):
            touching[u].append((at, v))
            if v != u:
                touching[v].append((at, u))
        side = [0] * len(self.sizes)
        for root in range(len(self.sizes)):
            if not side[root]:
                _component(root, touching, side, self.sizes, weights, reached)
        return weights, reached


def _component(
    root: int,
    touching: list[list[tuple[int, int]]],
    side: list[int],
    sizes: IntArray,
    weights: FloatArray,
    reached: FloatArray,
) -> None:
    """Set the weights of the rows of one component, and what its vertices reach; sides become 1 and -1."""
    side[root] = 1
    order, above, odd, line = [root], {root: (-1, -1)}, -1, deque([root])
    while line:
        u = line.popleft()
        for at, v in touching[u]:
            if not side[v]:
                side[v], above[v] = -side[u], (at, u)
                order.append(v)
                line.append(v)
            elif side[v] == side[u]:
                odd, odd_ends = at, (u, v)
    lead = sum(side[v] for v in order)
    wanted = dict.fromkeys(order, 1.0)
    if odd < 0 and lead:
        share = lead / sum(1.0 / sizes[v] for v in order)
        wanted = {v: 1.0 - side[v] * share / sizes[v] for v in order}
    reached[order] = list(wanted.values())
    if odd >= 0:
        # all other rows add as much to one side as to the other
        u, v = odd_ends
        loop = u == v
        weights[odd] = lead * side[u] * (1.0 if loop else 0.5)
        wanted[u] -= weights[odd]
        if not loop:
            wanted[v] -= weights[odd]
    for v in reversed(order[1:]):
        at, u = above[v]
        weights[at] = wanted[v]
        wanted[u] -= wanted[v]


def pairs_of(matrix: NumberArray, target: NumberArray) -> Pairs | None:
    """Return the graph of rows that are plain sums of at most two groups of parts, wanted in one sum; or None."""
    plain = len(target) == 1 and bool((target == 1).all()) and bool(((matrix == 0) | (matrix == 1)).all())
    if not plain or not matrix.shape[1]:
        return None
    columns, vertex_of, sizes = np.unique(matrix.T != 0, axis=0, return_inverse=True, return_counts=True)
    held = columns.T  # rows by vertices
    count = held.sum(axis=1)
    if not ((count == 1) | (count == 2)).all():
        return None
    first = held.argmax(axis=1)
    last = held.shape[1] - 1 - held[:, ::-1].argmax(axis=1)
    return Pairs(np.column_stack([first, last]), sizes, vertex_of.ravel())
