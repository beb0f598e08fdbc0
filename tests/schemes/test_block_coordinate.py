"""Block coordinates as a plan: against (2) and (5) of the paper, from sorted times."""

import numpy as np
import pytest

from echelon.delays import RoundPace, ShiftedExponential
from echelon.errors import ArgumentError
from echelon.schemes import block_coordinate
from echelon.simulation import RoundSampler


def runtime(levels, times, workers):
    """Return (2) for every round, in units of a chunk's whole gradient: times have shape (rounds, workers)."""
    ordered = np.sort(times, axis=1)
    done = np.cumsum(np.array(levels) + 1) / len(levels)
    return np.max([ordered[:, workers - 1 - s] * c for s, c in zip(levels, done, strict=True)], axis=0)


@pytest.mark.parametrize("seed", range(6))
def test_rounds_of_the_plan_take_what_the_paper_says(seed):
    rng = np.random.default_rng(seed)
    workers = int(rng.integers(2, 8))
    levels = np.sort(rng.integers(0, workers, int(rng.integers(1, 20))))
    plan = block_coordinate(workers, levels=levels)
    law = RoundPace(base=ShiftedExponential(shift=0.1, rate=2.0))
    sampler = RoundSampler(plan, law, np.zeros(workers))
    seen, _ = sampler.draw(sampler.begin(1, rng), 1, 50, np.random.default_rng(9))
    paces = law.sample((workers, 50, 1), np.random.default_rng(9))[..., 0].T
    np.testing.assert_allclose(seen.times[0], runtime(levels, paces, workers), rtol=1e-12)


def test_the_worked_example_of_fig_1():
    """T = (1/10, 1/10, 1/4, 1), four coordinates: (2) with M b = 4, so that a chunk's whole gradient costs 4."""
    times = np.array([[0.1, 0.1, 0.25, 1.0]])
    found = {levels: 4 * runtime(levels, times, 4)[0] for levels in ((1, 1, 1, 1), (2, 2, 2, 2), (1, 1, 2, 2))}
    assert found == pytest.approx({(1, 1, 1, 1): 2.0, (2, 2, 2, 2): 1.2, (1, 1, 2, 2): 1.0})


def test_sizes_and_levels_are_two_ways_to_say_the_same():
    one, other = block_coordinate(4, [1, 3, 0, 2]), block_coordinate(4, levels=[0, 1, 1, 1, 3, 3])  # block, Fig. 2
    assert (one.slots, one.lanes, one.blocks, one.levels) == (other.slots, other.lanes, other.blocks, other.levels)
    assert one.levels == (0, 1, 3)


def test_costs_of_coordinates_are_shares_of_a_chunks_gradient():
    plan = block_coordinate(3, [1, 0, 2], costs=[6.0, 1.0, 1.0])
    assert [task.cost for task in plan.lanes[0]] == pytest.approx([0.75, 3 * 0.25])


def test_the_cost_of_every_task_can_be_given():
    plan = block_coordinate(3, [1, 0, 2], tasks=[0.5, 2.0])
    assert all([task.cost for task in lane] == [0.5, 2.0] for lane in plan.lanes)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "sizes, levels: give one of them"),
        ({"sizes": [1, 2]}, "sizes: 2 given; must be 3"),
        ({"sizes": [0, 0, 0]}, "not all 0"),
        ({"sizes": [1, -1, 3]}, r"sizes\[1\]"),
        ({"levels": [1, 0]}, "must not fall"),
        ({"levels": []}, "at least one coordinate"),
        ({"levels": [0, 3]}, r"levels\[1\]"),
        ({"sizes": [1, 1, 1], "costs": [1.0, 2.0]}, "costs: must be 3 finite numbers > 0"),
        ({"sizes": [1, 1, 1], "costs": [1.0, 2.0, 0.0]}, "costs: must be 3 finite numbers > 0"),
        ({"sizes": [1, 1, 1], "costs": [1.0] * 3, "tasks": [1.0] * 3}, "costs, tasks: give one of them"),
        ({"sizes": [1, 0, 1], "tasks": [1.0] * 3}, "tasks: 3 given; must be 2, one per block"),
        ({"sizes": [1, 0, 1], "tasks": [1.0, 0.0]}, r"tasks\[1\]: 0.0 is not allowed"),
    ],
)
def test_what_makes_no_blocks_is_refused(arguments, said):
    with pytest.raises(ArgumentError, match=said):
        block_coordinate(3, **arguments)
