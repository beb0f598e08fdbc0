"""The network of minima and maxima against sorting."""

import numpy as np
import pytest

from echelon.simulation.selection import kth_smallest, network


@pytest.mark.parametrize("shape", [(9,), (3, 4)], ids=["2-D", "3-D"])
@pytest.mark.parametrize("n", range(1, 41))
def test_the_kth_smallest_is_what_sorting_says(n, shape):
    values = np.random.default_rng(n).normal(size=(n, *shape))
    ordered = np.sort(values, axis=0)
    for k in range(n):
        np.testing.assert_array_equal(kth_smallest(values.copy(), k), ordered[k])


@pytest.mark.parametrize("n", range(1, 41))
def test_ties_and_rows_that_never_come_keep_their_place_in_the_order(n):
    values = np.random.default_rng(n).choice([0.0, 1.0, 1.0, 2.0, np.inf], size=(n, 25))
    ordered = np.sort(values, axis=0)
    for k in range(n):
        np.testing.assert_array_equal(kth_smallest(values.copy(), k), ordered[k])


@pytest.mark.parametrize("n", range(1, 17))
def test_zeros_and_ones_in_every_arrangement_are_told_apart(n):
    """A network of minima and maxima that is right for all 2^n arrangements of 0 and 1 is right for all numbers."""
    arranged = ((np.arange(2**n)[None, :] >> np.arange(n)[:, None]) & 1).astype(float)
    zeros = n - arranged.sum(axis=0)
    for k in range(n):
        np.testing.assert_array_equal(kth_smallest(arranged.copy(), k), np.where(k < zeros, 0.0, 1.0))


def test_a_network_holds_no_comparator_that_does_not_matter():
    """The smallest of n needs n - 1 comparisons at least, and sorting four takes Batcher five."""
    assert all(len(network(n, 0)) == n - 1 for n in range(2, 17))
    assert len(network(4, 1)) == 5
    for low, high, wants_low, wants_high in network(11, 5):
        assert low < high
        assert wants_low or wants_high
