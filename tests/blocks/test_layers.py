"""Levels of layers: against the paper's runtime where layers are coordinates, and against every way to give levels."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.blocks import (
    METHODS,
    LayerCosts,
    expected_runtime,
    levels_by_cost,
    optimise_layers,
    order_means,
    runtime_of,
    runtime_of_levels,
)
from echelon.delays import Deterministic, Gamma, Pareto, ShiftedExponential
from echelon.errors import ArgumentError
from echelon.schemes import block_coordinate
from tests.blocks.setting import drawn, within_999

LAW = ShiftedExponential(shift=0.1, rate=1.0)
COSTS = LayerCosts(forward=0.3, deltas=(0.1, 0.2, 0.15, 0.0), weights=(0.4, 1.0, 0.7, 1.5))


def literal_tasks(costs, levels):
    """Pass by pass: what is new on every chunk, block by block."""
    done = {}  # by chunk: the layers that its delta went through, once its forward pass is done
    found = []
    for level in sorted(set(levels)):
        block = [b for b, its in enumerate(levels) if its == level]
        cost = 0.0
        for chunk in range(level + 1):
            if chunk not in done:
                done[chunk] = 0
                cost += costs.forward
            cost += sum(costs.deltas[done[chunk] : block[-1] + 1]) + sum(costs.weights[b] for b in block)
            done[chunk] = block[-1] + 1
        found.append(cost / costs.total)
    return found


def every_way(layers, levels):
    return combinations_with_replacement(range(levels), layers)


@pytest.mark.parametrize("levels", list(every_way(4, 3)))
def test_tasks_cost_every_pass_that_is_made(levels):
    assert COSTS.tasks(levels) == pytest.approx(literal_tasks(COSTS, levels), rel=1e-12)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.integers(0, 2**32 - 1))
def test_layers_that_cost_weights_alone_are_the_coordinates_of_the_paper(levels, seed):
    levels = np.sort(levels)
    costs = LayerCosts(forward=0.0, deltas=(0.0,) * len(levels), weights=(1.0,) * len(levels))
    times = np.random.default_rng(seed).uniform(0.1, 3.0, (7, 5))
    wanted = runtime_of_levels(levels, times, 1 / len(levels))
    np.testing.assert_allclose(runtime_of(costs.partition(levels, 5), times), wanted, rtol=1e-12)


def test_the_whole_gradient_of_a_chunk_costs_1():
    assert COSTS.tasks([0] * 4).tolist() == pytest.approx([1.0])
    assert COSTS.work([0] * 4, 3).tolist() == pytest.approx([1.0] * 3)
    assert COSTS.tasks([2] * 4).tolist() == pytest.approx([3.0])


def test_the_equivalent_partition_has_the_runtime_of_the_tasks():
    levels, workers = [0, 2, 2, 3], 5
    times = drawn(LAW, workers, 100_000, seed=3)
    ends = np.cumsum(COSTS.tasks(levels))
    seen = np.max([times[:, workers - 1 - n] * end for n, end in zip((0, 2, 3), ends, strict=True)], axis=0)
    assert within_999(seen, expected_runtime(COSTS.partition(levels, workers), LAW).mean)


@pytest.mark.parametrize("law", [LAW, Gamma(shape=0.5, scale=2.0)])
@pytest.mark.parametrize("storage", [None, 3])
def test_the_search_finds_the_best_of_all_ways(law, storage):
    workers = 4
    found = optimise_layers(workers, COSTS, law, storage=storage)
    means = {
        levels: expected_runtime(COSTS.partition(levels, workers), law).mean
        for levels in every_way(4, storage or workers)
    }
    assert found.exhaustive
    assert found.expected == pytest.approx(min(means.values()), rel=1e-9)
    assert means[found.levels] == pytest.approx(found.expected, rel=1e-9)
    assert found.uncoded == pytest.approx(means[0, 0, 0, 0], rel=1e-9)
    singles = [mean for levels, mean in means.items() if len(set(levels)) == 1]
    assert found.single == pytest.approx(min(singles), rel=1e-9)
    assert means[(found.single_level,) * 4] == pytest.approx(found.single, rel=1e-9)


def test_the_best_single_block_is_that_of_the_order_means():
    found = optimise_layers(4, COSTS, LAW)
    ends = np.arange(1, 5) * order_means(4, LAW)[::-1]
    assert (found.single, found.single_level) == (pytest.approx(ends.min()), int(ends.argmin()))


@pytest.mark.parametrize("seed", range(3))
def test_climbs_end_where_looking_at_every_way_does(seed):
    rng = np.random.default_rng(seed)
    weights, deltas = rng.uniform(0.5, 2.0, 6), rng.uniform(0.0, 0.3, 6)
    costs = LayerCosts(forward=rng.uniform(0, 1), deltas=(*deltas[:-1], 0.0), weights=weights)
    every, climbed = (optimise_layers(8, costs, LAW, most=most) for most in (20_000, 0))
    assert (every.exhaustive, climbed.exhaustive) == (True, False)
    assert every.expected <= climbed.expected <= every.expected * 1.001


def test_many_equal_layers_come_near_the_optimum_of_the_paper():
    costs = LayerCosts(forward=0.0, deltas=(0.0,) * 40, weights=(1.0,) * 40)
    found = optimise_layers(8, costs, LAW)
    best = METHODS["exact"](8, 40, LAW, 1 / 40).expected
    assert best < found.expected < best * 1.01
    assert not found.exhaustive


def test_costly_forward_passes_make_one_block_best_and_it_says_so():
    found = optimise_layers(6, LayerCosts(forward=2.0, deltas=(1.0, 0.0), weights=(1.0, 1.0)), LAW)
    assert found.one_block
    assert (found.gain, found.levels) == (0.0, (5, 5))
    assert found.why == (
        "one block at level 5 is best: forward and delta passes on further chunks cost more than early blocks save"
    )


@pytest.mark.parametrize(
    ("weights", "law", "said"),
    [
        ((1.0,), LAW, "there is one layer only"),
        ((100.0, 1.0), LAW, "no layer is small enough for an early block to save time"),
        ((1.0, 1.0), ShiftedExponential(shift=10.0, rate=1.0), "redundancy costs more than waiting for all workers"),
    ],
)
def test_every_other_reason_for_one_block_is_given(weights, law, said):
    found = optimise_layers(4, LayerCosts(forward=0.0, deltas=(0.0,) * len(weights), weights=weights), law)
    assert found.one_block
    assert found.why.endswith(said)


def test_blocks_are_named_with_what_they_save():
    found = optimise_layers(8, LayerCosts(forward=0.1, deltas=(0.1, 0.0), weights=(1.0, 2.0)), LAW)
    assert not found.one_block
    assert found.why == "2 blocks at levels 0, 7 save 17 % of what one block at level 7 takes"
    plan = block_coordinate(8, levels=found.levels, tasks=found.tasks)
    assert (plan.levels, plan.blocks) == ((0, 7), (slice(0, 1), slice(1, 2)))


def test_laws_without_a_formula_and_unlike_workers_are_sampled():
    laws = [ShiftedExponential(shift=0.1 * p, rate=1.0) for p in range(1, 5)]
    for law in (laws, Pareto(shape=2.5, scale=1.0)):
        found = optimise_layers(4, COSTS, law)
        assert found.error > 0
        assert found.expected <= found.single <= found.uncoded


def test_unit_scales_all_times():
    one, other = optimise_layers(4, COSTS, LAW), optimise_layers(4, COSTS, LAW, 3.0)
    assert other.levels == one.levels
    assert (other.expected, other.single) == pytest.approx((3 * one.expected, 3 * one.single))


def test_one_worker_and_constant_times_need_no_redundancy():
    assert optimise_layers(1, COSTS, LAW).levels == (0,) * 4
    assert optimise_layers(3, COSTS, Deterministic(time=1.0)).levels == (0,) * 4


@given(
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=6).filter(lambda x: sum(x) > 0.1),
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=20),
)
def test_no_cut_is_nearer_to_its_share_of_the_cost(x, costs):
    x, costs = np.array(x), np.array(costs)
    levels = levels_by_cost(x, costs)
    assert (np.diff(levels) >= 0).all()
    possible = np.concatenate([[0.0], np.cumsum(costs) / costs.sum()])
    for n in range(len(x) - 1):
        wanted = x[: n + 1].sum() / x.sum()
        cut = costs[levels <= n].sum() / costs.sum()
        assert abs(cut - wanted) <= np.abs(possible - wanted).min() + 1e-9


def test_levels_of_equal_costs_are_those_of_the_partition():
    assert levels_by_cost(np.array([1.0, 3.0, 0.0, 2.0]), np.ones(6)).tolist() == [0, 1, 1, 1, 3, 3]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"forward": -1.0}, "forward: -1.0 is not allowed"),
        ({"deltas": (0.1,)}, "deltas: 1 given; must be 2"),
        ({"deltas": (0.1, 0.1)}, r"deltas\[1\]: 0.1 is not allowed; must be 0"),
        ({"deltas": (-0.1, 0.0)}, r"deltas\[0\]: -0.1"),
        ({"weights": (1.0, 0.0)}, r"weights\[1\]: 0.0"),
        ({"weights": ()}, "weights: .*one per layer"),
        ({"weights": 1.0}, "weights: 1.0 is not allowed"),
    ],
)
def test_costs_that_make_no_sense_are_refused(arguments, said):
    with pytest.raises(ArgumentError, match=said):
        LayerCosts(**({"forward": 1.0, "deltas": (0.1, 0.0), "weights": (1.0, 1.0)} | arguments))


def test_what_is_not_allowed_is_named():
    with pytest.raises(ArgumentError, match=r"levels: .* must be 4, one per layer"):
        COSTS.tasks([0, 1])
    with pytest.raises(ArgumentError, match="not fall"):
        COSTS.tasks([0, 1, 0, 1])
    with pytest.raises(ArgumentError, match=r"levels\[3\]: 3"):
        COSTS.work([0, 1, 1, 3], 3)
    with pytest.raises(ArgumentError, match=r"costs: .* must be LayerCosts"):
        optimise_layers(4, [1.0], LAW)
    with pytest.raises(ArgumentError, match="storage: 5"):
        optimise_layers(4, COSTS, LAW, storage=5)
    with pytest.raises(ArgumentError, match="law: "):
        optimise_layers(4, COSTS, [LAW] * 3)
    with pytest.raises(ArgumentError, match="costs: not allowed"):
        levels_by_cost(np.ones(3), [1.0, 0.0])
