"""Graph codes: every row is the sum of two parts. Cheap, decoded in linear time, and lucky sets are small."""

import numpy as np
from numpy.random import Generator
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from echelon import checks
from echelon.arrays import IntArray
from echelon.codes.base import Code
from echelon.errors import ArgumentError

_TRIES = 100
_MOST_PARTS = 2000  # beyond, connections take too long to count


def graph(*, parts: int, load: int, rng: Generator) -> Code:
    """Return a code whose parts are the vertices, and whose rows the edges, of a random graph of degree `load`.

    Prefer it where each part should be in many places, but most of the rows are not to be awaited: with `load` copies
    of each part the first rows that give the sum are often few. There are parts * load / 2 rows; each holds two of the
    parts, so that `load` is also the number of copies. Rows give the sum of all parts if every connected component has
    a cycle of odd length, or is bipartite with as many parts on one side as on the other (`echelon.codes.pairs`), and
    `residual` says how near others come.

    Any rows - load + 1 rows do: the graph is drawn so that load - 1 missing edges never disconnect it, and a bipartite
    graph that is left would have sides A and B with load (|A| - |B|) = 2 (missing edges within A - those within B), so
    that they differ by less than 2, and not by 1 if the number of parts is even. If it is odd, half as many may miss.

    >>> code = graph(parts=8, load=4, rng=np.random.default_rng(1))
    >>> code.rows, code.threshold, code.support.sum(axis=1).tolist() == [2] * 16
    (16, 13, True)
    """
    checks.whole("parts", parts, least=2, most=_MOST_PARTS)
    checks.whole("load", load, least=1, most=parts - 1)
    checks.generator("rng", rng)
    if parts * load % 2:
        raise ArgumentError(f"load: {load} is not allowed for {parts} parts; one of both must be even")
    edges = _connected(parts, load, rng)
    matrix = np.zeros((len(edges), parts))
    matrix[np.arange(len(edges))[:, None], edges] = 1.0
    missing = load - 1 if parts % 2 == 0 else load // 2 - 1
    return Code(matrix=matrix, target=np.ones((1, parts)), threshold=len(edges) - missing, counting=load == 1)


def _connected(vertices: int, degree: int, rng: Generator) -> IntArray:
    """Return the edges, in random order, of a regular graph that fewer than `degree` missing ones leave connected."""
    if degree == 1:
        return rng.permutation(vertices).reshape(-1, 2)
    if degree == 2:  # most random ones fall into several circles
        circle = rng.permutation(vertices)
        return np.column_stack([circle, np.roll(circle, 1)])[rng.permutation(vertices)]
    for _ in range(_TRIES):
        edges = _regular(vertices, degree, rng)
        if _connectivity(edges, vertices) == degree:
            return edges
    raise ArgumentError(f"load: {degree} is not allowed for {vertices} parts; no such graph was found")


def _regular(vertices: int, degree: int, rng: Generator) -> IntArray:
    """Return a random regular graph without loops or double edges; of a dense one, what is missing is drawn."""
    if 2 * degree > vertices - 1:
        every = np.column_stack(np.triu_indices(vertices, 1))
        apart = vertices - 1 - degree
        if not apart:
            return rng.permutation(every)
        left = set(map(tuple, _regular(vertices, apart, rng).tolist()))
        return rng.permutation([edge for edge in every.tolist() if tuple(edge) not in left])
    edges = [sorted(pair) for pair in rng.permutation(np.repeat(np.arange(vertices), degree)).reshape(-1, 2).tolist()]
    known: dict[tuple[int, ...], int] = {}
    for u, v in edges:
        known[u, v] = known.get((u, v), 0) + 1
    bad = [at for at, (u, v) in enumerate(edges) if u == v or known[u, v] > 1]
    while bad:
        at, other = bad[-1], int(rng.integers(len(edges)))
        (u, v), (x, y) = edges[at], edges[other]
        if u != v and known[u, v] == 1:
            bad.pop()  # it was mended by another
            continue
        x, y = (y, x) if rng.random() < 0.5 else (x, y)
        swapped = [sorted((u, x)), sorted((v, y))]
        (a, b), (c, d) = swapped
        if at == other or a == b or c == d or known.get((a, b), 0) or known.get((c, d), 0) or (a, b) == (c, d):
            continue
        for old, new in zip((at, other), swapped, strict=True):
            known[tuple(edges[old])] -= 1
            known[tuple(new)] = 1
            edges[old] = new
    return np.array(edges)


def _connectivity(edges: IntArray, vertices: int) -> int:
    """Return how many edges must be missing before the graph falls apart: the least flow from the first vertex.

    Where the second eigenvalue is at most degree - 2 it is the degree (Krivelevich and Sudakov 2006), and no flow is
    computed.
    """
    both = np.concatenate([edges, edges[:, ::-1]])
    dense = np.zeros((vertices, vertices))
    dense[both[:, 0], both[:, 1]] = 1.0
    degree = int(dense[0].sum())
    if np.linalg.eigvalsh(dense)[-2] <= degree - 2 - 1e-9:
        return degree
    capacity = csr_array(dense.astype(np.int32))
    return min(int(maximum_flow(capacity, 0, sink).flow_value) for sink in range(1, vertices))
