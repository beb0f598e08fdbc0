"""Every ending that a chain of products may have: products are the plain ones under faults, and no round ends early."""

import numpy as np
import pytest

import echelon as ec
from echelon.endings import WAITING
from echelon.schemes import diagonal_interleaved, improved_diagonal_interleaved
from echelon.stragglers import Arbitrary
from tests.products.works import check, pairs
from tests.schemes.faulty import FAULTS, PATIENCE_S, SEED, cluster

PRODUCTS = 8


def schemes(waiting):
    """Return chains with delays, limits and tolerances that end their rounds in this way."""
    often = {"waiting": waiting, "seed": SEED}
    return [
        diagonal_interleaved(4, x=2, y=3, delay=0, **often),
        diagonal_interleaved(4, x=2, y=3, delay=2, **often),
        diagonal_interleaved(4, x=2, y=2, delay=1, tolerance=0.3, spread=2, **often),
        improved_diagonal_interleaved(4, Arbitrary(count=4, window=3), tolerance=0.2, **often),
    ]


@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("waiting", sorted(WAITING))
def test_products_are_the_plain_ones_under_faults(waiting, faults, caplog):
    caplog.set_level("CRITICAL", logger="echelon")
    for scheme in schemes(waiting):
        given = pairs(PRODUCTS, seed=SEED)
        with ec.MatmulStream(
            cluster(scheme.workers, faults), scheme, patience_s=PATIENCE_S, progress=False, seed=SEED
        ) as stream:  # fmt: skip
            for product, (first, second) in zip(stream.products(given), given, strict=True):
                check(product, first, second)


class Rounds(ec.Observer):
    """Notes, of every round of a chain, what was due in it and what was recovered."""

    def __init__(self):
        self.seen = []

    def round_over(self, seen):
        self.seen.append((set(seen.plan.ending.due), set(seen.recovered)))


@pytest.mark.parametrize("waiting", sorted(WAITING))
def test_no_round_ends_before_what_is_due_in_it_is_recovered(waiting):
    rounds = Rounds()
    for scheme in schemes(waiting):
        with ec.MatmulStream(
            cluster(scheme.workers, "nothing"), scheme, patience_s=PATIENCE_S, progress=False, seed=SEED
        ) as stream:  # fmt: skip
            stream._stream._told.add(rounds)
            for future in [stream.submit(np.ones((4, 3)), np.ones((3, 6))) for _ in range(PRODUCTS)]:
                future.result()
    assert sum(bool(due) for due, _ in rounds.seen) >= PRODUCTS  # all products of the first chain, at least
    assert all(due <= recovered for due, recovered in rounds.seen)
