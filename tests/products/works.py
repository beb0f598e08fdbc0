"""What the tests of products share: factors, schemes, clusters that count, and mini-tasks that fail on purpose."""

import numpy as np

from echelon.clusters import ProcessCluster, ThreadCluster
from echelon.products.factors import ProductWork
from echelon.schemes import (
    diagonal_interleaved,
    improved_diagonal_interleaved,
    polynomial_products,
    uncoded_products,
)
from echelon.stragglers import Arbitrary, Bursts

LIMIT_S = 60.0  # after which a test gives up; nothing is asserted about time
UNLUCKY = 1313.0
WORKERS = 3

SCHEMES = {
    "polynomial": polynomial_products(WORKERS, x=2, y=1),
    "uncoded": uncoded_products(WORKERS),
    "DIP": diagonal_interleaved(WORKERS, x=2, y=3, delay=2),
    "DIP, lambda, mu": diagonal_interleaved(WORKERS, x=2, y=4, delay=2, spread=2, tolerance=0.2),
    "DIP, no delay": diagonal_interleaved(WORKERS, x=2, y=3, delay=0),
    "DIP, monomial": diagonal_interleaved(WORKERS, x=2, y=3, delay=1, spread=3, basis="monomial"),
    "z = 2": diagonal_interleaved(WORKERS, x=2, y=2, z=2, delay=2),
    "DIP, fastest": diagonal_interleaved(WORKERS, x=2, y=4, delay=2, tolerance=0.2, waiting="fastest"),
    "DIP, fastest, no delay": diagonal_interleaved(WORKERS, x=2, y=3, delay=0, waiting="fastest"),
    "IDIP": improved_diagonal_interleaved(WORKERS, Arbitrary(count=2, window=3), x=2, y=3),
    "IDIP, bursts": improved_diagonal_interleaved(WORKERS, Bursts(workers_at_once=1, length=2, window=3), x=1, y=7),
}


def pairs(count, seed=1, dtype=np.float64, sizes=(7, 5, 6)):
    """Return pairs of random factors; sizes that no number of blocks divides."""
    rng = np.random.default_rng(seed)
    rows, inner, columns = sizes
    drawn = [(rng.standard_normal((rows, inner)), rng.standard_normal((inner, columns))) for _ in range(count)]
    return [(first.astype(dtype), second.astype(dtype)) for first, second in drawn]


def check(found, first, second, atol=1e-8):
    expected = np.asarray(first) @ np.asarray(second)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=atol)


class Fragile(ProductWork):
    """Raises for a product whose second factor holds the unlucky number."""

    def part(self, state, part):
        slot = part // self._code.rows
        if (state.factors(slot)[1] == UNLUCKY).any():
            raise RuntimeError("an unlucky number")
        return super().part(state, part)


class CountedThreads(ThreadCluster):
    """Counts what is loaded; a number a key."""

    def __init__(self, workers):
        self.loads = {}
        super().__init__(workers)

    def load(self, key, work):
        self.loads[key] = self.loads.get(key, 0) + 1
        super().load(key, work)


class CountedProcesses(ProcessCluster):
    """Counts what is loaded, and knows which blocks of memory messages hold."""

    def __init__(self, workers):
        self.loads, self.held, self.blocks = {}, set(), set()
        super().__init__(workers)

    def load(self, key, work):
        self.loads[key] = self.loads.get(key, 0) + 1
        super().load(key, work)

    def _result(self, handle, frame, reports):
        super()._result(handle, frame, reports)
        message = reports[-1]
        if message.token is not None:
            block = id(message.token[0]), message.token[1]
            self.held.add(block)
            self.blocks.add(block)

    def release(self, message):
        if message.token is not None:
            self.held.discard((id(message.token[0]), message.token[1]))
        super().release(message)


def holds(cluster):
    """Return the keys of what a cluster has loaded."""
    if isinstance(cluster, ThreadCluster):
        return {*cluster._shelf._sources, *cluster._shelf._made}
    return set(cluster._works)


COUNTED = {"processes": CountedProcesses, "threads": CountedThreads}


def idle(stream):
    """Wait until no chain is under way, so that all that it had loaded is unloaded."""
    inner = stream._stream
    with inner._out.changed:
        assert inner._out.changed.wait_for(lambda: not inner._out.outstanding(), LIMIT_S)
