"""The schemes for chains of products: thresholds, loads, codes, and what is refused."""

from itertools import combinations

import numpy as np
import pytest

from echelon.codes import Decoder
from echelon.errors import ArgumentError
from echelon.schemes import (
    Window,
    diagonal_interleaved,
    improved_diagonal_interleaved,
    polynomial_products,
    uncoded_products,
)
from echelon.stragglers import Arbitrary, Bursts
from echelon.theory import optimal_load
from tests.schemes.chains import Matrices


@pytest.mark.parametrize(
    ("scheme", "threshold", "share"),
    [
        (diagonal_interleaved(4, x=2, y=3, delay=3), 6, 1 / 6),
        (diagonal_interleaved(4, x=2, y=2, z=2, delay=1), 9, 1 / 8),
        (diagonal_interleaved(4, x=1, y=1, z=3, delay=1), 5, 1 / 3),
        (polynomial_products(4, x=2, y=1), 2, 1 / 2),
        (uncoded_products(6), 6, 1 / 6),
    ],
    ids=repr,
)
def test_thresholds_and_shares_are_those_of_note_1(scheme, threshold, share):
    assert scheme.threshold == threshold
    assert scheme.code.threshold == threshold
    assert scheme.share == pytest.approx(share, rel=1e-15)
    assert scheme.code.rows == scheme.rows


@pytest.mark.parametrize(("workers", "count", "window"), [(4, 10, 4), (4, 8, 4), (3, 2, 2), (6, 7, 3), (2, 0, 1)])
def test_idip_has_the_least_load_by_default(workers, count, window):
    scheme = improved_diagonal_interleaved(workers, Arbitrary(count=count, window=window))
    assert scheme.x * scheme.y == workers * window - count
    assert scheme.delay == window - 1
    load = window * scheme.share
    assert load == pytest.approx(optimal_load(workers=workers, count=count, window=window), rel=1e-14)


def test_the_share_of_the_due_product_is_rounded_up():
    scheme = diagonal_interleaved(4, x=3, y=4, delay=2, spread=3)
    assert [scheme.due_tasks(missing) for missing in (0, 1, 3, 4, 12)] == [0, 1, 1, 2, 4]
    improved = improved_diagonal_interleaved(4, Arbitrary(count=2, window=2))
    assert [improved.due_tasks(missing) for missing in (0, 1, 6)] == [0, 1, 1]


@pytest.mark.parametrize(
    "scheme",
    [
        diagonal_interleaved(2, x=1, y=3, delay=1),
        diagonal_interleaved(2, x=2, y=2, delay=1, spread=2),
        diagonal_interleaved(3, x=2, y=2, delay=1, spread=3, basis="monomial"),
        diagonal_interleaved(2, x=1, y=1, z=2, delay=1),
        diagonal_interleaved(2, x=1, y=2, z=2, delay=0, spread=2, basis="monomial"),
        improved_diagonal_interleaved(2, Arbitrary(count=1, window=2), basis="monomial"),
    ],
    ids=repr,
)
def test_any_threshold_rows_give_the_product_of_real_matrices(scheme):
    """All sets of that size, to 1e-8; one in a hundred may ask for another row instead, as it is too noisy."""
    matrices, decoder = Matrices(scheme), Decoder(scheme.code, limit=1e6)
    refused = total = 0
    for rows in combinations(range(scheme.rows), scheme.threshold):
        total += 1
        if decoder.ready(rows):
            matrices.check(decoder.weights(rows))
        else:
            refused += 1
    assert refused <= total / 100


def test_the_first_rows_are_plain_products():
    for scheme in (
        diagonal_interleaved(2, x=2, y=3, delay=1),
        diagonal_interleaved(2, x=2, y=3, delay=1, basis="monomial"),
    ):
        assert scheme.code.systematic == 6
        np.testing.assert_array_equal(scheme.code.matrix[:6], np.eye(6))


def test_the_code_is_made_once_and_from_the_seed():
    scheme = diagonal_interleaved(3, x=2, y=2, delay=2, seed=4)
    assert scheme.code is scheme.code
    same, other = (diagonal_interleaved(3, x=2, y=2, delay=2, seed=seed) for seed in (4, 5))
    np.testing.assert_array_equal(scheme.code.matrix, same.code.matrix)
    assert (scheme.code.matrix != other.code.matrix).any()


@pytest.mark.parametrize("spread", [1, 2, 4])
def test_there_are_rows_for_the_worst_chain(spread):
    """Nothing comes back until the last round, and nothing then either: all rows that are asked for exist."""
    scheme = diagonal_interleaved(4, x=2, y=3, delay=3, spread=spread)
    window = Window(scheme)
    window.open(0)
    for _ in range(3):
        window.close([], [])
        plan = window.open()
    assert max(task.row for lane in plan.lanes for task in lane) < scheme.rows


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: diagonal_interleaved(0, x=1, y=1, delay=1), "workers: 0 is not allowed"),
        (lambda: diagonal_interleaved(2, x=0, y=1, delay=1), "x: 0 is not allowed"),
        (lambda: diagonal_interleaved(2, x=1, y=101, delay=1), "y: 101 is not allowed"),
        (lambda: diagonal_interleaved(2, x=1, y=1, delay=-1), "delay: -1 is not allowed"),
        (lambda: diagonal_interleaved(2, x=1, y=1, delay=1, spread=3), "spread: 3 is not allowed"),
        (lambda: diagonal_interleaved(2, x=1, y=1, delay=1, tolerance=-0.1), "tolerance: -0.1 is not allowed"),
        (lambda: diagonal_interleaved(2, x=1, y=1, delay=1, basis="fourier"), "basis: 'fourier' is not allowed"),
        (lambda: diagonal_interleaved(2, x=1, y=1, delay=1, basis="roots"), "must be khatri_rao or monomial"),
        (lambda: diagonal_interleaved(2, x=1, y=1, z=2, delay=1, basis="khatri_rao"), "must be roots or monomial"),
        (lambda: polynomial_products(2, x=2, y=2), "4 results are needed; must be at most workers, 2"),
        (lambda: uncoded_products(4, x=3, y=1), "x y must be the number of workers, 4"),
        (lambda: uncoded_products(4, x=4), "x y must be the number of workers, 4"),
        (lambda: improved_diagonal_interleaved(2, "arbitrary"), "model: 'arbitrary' is not allowed"),
        (lambda: improved_diagonal_interleaved(2, Arbitrary(count=4, window=2)), "count: 4 is not allowed"),
        (lambda: improved_diagonal_interleaved(2, Arbitrary(count=1, window=2), x=2), "give both or neither"),
        (lambda: improved_diagonal_interleaved(2, Arbitrary(count=1, window=2), x=2, y=2), "guarantees only 3 results"),
        (
            lambda: improved_diagonal_interleaved(2, Bursts(workers_at_once=2, length=2, window=2)),
            "workers_at_once: 2 is not allowed",
        ),
        (lambda: diagonal_interleaved(4, x=4, y=6, delay=3, basis="monomial").code, "Use separable random rows"),
    ],
)
def test_wrong_arguments_are_named(make, said):
    with pytest.raises(ArgumentError, match=said):
        make()
