import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.blocks import METHODS, Partition, blocks_of, levels, rounded, runtime_of, runtime_of_levels
from echelon.errors import ArgumentError

FIG_1 = np.array([0.1, 0.1, 0.25, 1.0])


@pytest.mark.parametrize(
    ("s", "runtime"),
    [
        ((1, 1, 1, 1), 2.0),  # Fig. 1(b): T_(3) * 8
        ((2, 2, 2, 2), 1.2),  # Fig. 1(c): T_(2) * 12
        ((1, 1, 2, 2), 1.0),  # Fig. 1(d): max(T_(3) * 4, T_(2) * 10)
    ],
)
def test_the_worked_example_of_figure_1(s, runtime):
    """N = L = 4 and M b = 4, so that the unit M b / N is 1, in multiples of T_0."""
    assert float(runtime_of_levels(np.array(s), FIG_1)) == pytest.approx(runtime)
    assert float(runtime_of(blocks_of(np.array(s), 4), FIG_1)) == pytest.approx(runtime)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_levels_in_rising_order_and_blocks_have_the_same_runtime(s, seed):
    s = np.sort(np.array(s))
    times = np.random.default_rng(seed).uniform(0.1, 3.0, (7, 5))
    x = blocks_of(s, 5)
    assert levels(x).tolist() == s.tolist()
    np.testing.assert_allclose(runtime_of_levels(s, times, 2.0), runtime_of(x, times, 2.0), rtol=1e-12)


@given(st.permutations([0, 1, 1, 2, 3, 3]), st.integers(0, 2**32 - 1))
def test_rising_order_is_never_slower(s, seed):
    times = np.random.default_rng(seed).uniform(0.1, 3.0, (7, 4))
    sorted_runtime = runtime_of_levels(np.sort(s), times)
    assert (sorted_runtime <= runtime_of_levels(np.array(s), times) * (1 + 1e-12)).all()


def test_times_may_come_in_any_order():
    x = np.array([1.0, 2.0, 0.5, 0.0])
    assert float(runtime_of(x, FIG_1[::-1])) == float(runtime_of(x, FIG_1))
    s = np.array([0, 1, 1, 3])
    assert float(runtime_of_levels(s, FIG_1[::-1])) == float(runtime_of_levels(s, FIG_1))


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=30), st.integers(1, 10**6))
def test_rounding_keeps_the_sum_and_stays_near(shares, coordinates):
    x = np.array(shares) / sum(shares) * coordinates
    whole = rounded(x, coordinates)
    assert whole.sum() == coordinates
    assert whole.min() >= 0
    assert np.abs(whole - x).max() < 1 + 1e-6


def test_a_partition_in_whole_coordinates():
    assert Partition(np.array([1.6, 1.7, 0.7]), 1.0, None, "t").counts.tolist() == [1, 2, 1]


def test_the_registry_names_five_methods():
    assert sorted(METHODS) == ["exact", "f", "lp", "subgradient", "t"]


def test_what_is_not_allowed_is_named():
    with pytest.raises(ArgumentError, match="x: it sums to"):
        rounded(np.array([1.0, 2.0]), 4)
    with pytest.raises(ArgumentError, match=r"x: .*whole"):
        levels(np.array([0.5, 0.5]))
    with pytest.raises(ArgumentError, match="s: 4 is not allowed"):
        blocks_of(np.array([0, 4]), 4)
    with pytest.raises(ArgumentError, match="s: "):
        runtime_of_levels(np.array([0.5]), FIG_1)
    with pytest.raises(ArgumentError, match="times: "):
        runtime_of(np.ones(3), FIG_1)
    with pytest.raises(ArgumentError, match="times: "):
        runtime_of(np.ones(4), -FIG_1)
    with pytest.raises(ArgumentError, match="unit: "):
        runtime_of(np.ones(4), FIG_1, -1.0)
