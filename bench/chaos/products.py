"""Schedules of products: a `MatmulStream` under faults of its workers, against products that one process computes."""

import numpy as np

from bench.chaos.watch import WatchedCluster
from bench.chaos.world import faults
from echelon.clusters.faults import Endless, Faults, Raise
from echelon.clusters.pace import Pace
from echelon.delays import Exponential
from echelon.products import MatmulStream
from echelon.schemes import (
    Sequential,
    diagonal_interleaved,
    improved_diagonal_interleaved,
    polynomial_products,
    uncoded_products,
)
from echelon.seeds import place_generator
from echelon.stragglers import Arbitrary

SCHEMES: list[Sequential] = [
    polynomial_products(3, x=2, y=1),
    uncoded_products(3),
    diagonal_interleaved(3, x=2, y=3, delay=2),
    diagonal_interleaved(3, x=2, y=4, delay=2, spread=2, tolerance=0.2),
    improved_diagonal_interleaved(3, Arbitrary(count=2, window=3), x=2, y=3),
    diagonal_interleaved(3, x=2, y=4, delay=2, tolerance=0.2, waiting="fastest"),
    diagonal_interleaved(3, x=2, y=3, delay=0, waiting="fastest"),
]


def run_products(seed: int) -> None:
    """Run one schedule; raise where anything is wrong."""
    rng = np.random.default_rng([seed, 7])
    scheme = SCHEMES[int(rng.integers(len(SCHEMES)))]
    trouble = _without_raises(faults(rng, places=scheme.workers, horizon=10.0, crashes=False))
    paces = [
        Pace(Exponential(rate=3.0), float(rng.uniform(0, 0.2)), place_generator(seed, place))
        for place in range(scheme.workers)
    ]
    cluster = WatchedCluster(paces=paces, faults=trouble)
    pairs = [(rng.standard_normal((4, 3)), rng.standard_normal((3, 5))) for _ in range(int(rng.integers(1, 7)))]
    with MatmulStream(cluster, scheme, patience_s=rng.choice([2.0, None]), progress=False) as stream:
        found = list(stream.products(pairs, ahead=int(rng.integers(1, 5))))
        stream._stream.pass_time(lambda: not stream._stream._out.outstanding(), None)
        assert not cluster.lent, f"memory of {len(cluster.lent)} messages was not given back"
        assert not stream._loaded, "factors are left behind"
    for product, (first, second) in zip(found, pairs, strict=True):
        np.testing.assert_allclose(product, first @ second, atol=1e-6)


def _without_raises(drawn: Faults) -> Faults:
    kept = tuple(incident for incident in drawn.incidents if not isinstance(incident, Raise | Endless))
    return Faults(
        drawn.rng, drawn.lose / 4, drawn.repeat, drawn.delay, drawn.late, drawn.start, drawn.stillborn, drawn.loading,
        kept,
    )  # fmt: skip
