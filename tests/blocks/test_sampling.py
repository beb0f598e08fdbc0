"""The two methods that need draws only: projected subgradients and the sample-average program."""

import numpy as np
import pytest

from echelon.blocks import METHODS, optimise_exact, optimise_lp, optimise_subgradient
from echelon.delays import Exponential, Pareto, ShiftedExponential
from tests.blocks.setting import COORDINATES, LAW, literal_runtime, unit

UNLIKE = (
    [ShiftedExponential(shift=0.5, rate=2.0)] * 4 + [Exponential(rate=0.2)] * 2 + [Pareto(shape=2.5, scale=1.0)] * 2
)


def unlike_times(draws: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.sort(np.column_stack([law.sample((draws, 1, 1), rng)[:, 0, 0] for law in UNLIKE]), axis=1)


@pytest.mark.parametrize("name", ["subgradient", "lp"])
def test_twenty_workers_come_within_half_a_percent_of_the_certified_optimum(name):
    best = optimise_exact(20, COORDINATES, LAW, unit(20))
    found = METHODS[name](20, COORDINATES, LAW, unit(20))
    assert found.method == name
    assert best.expected * (1 - best.certificate) <= found.expected <= 1.005 * best.expected
    assert found.x.min() >= 0
    assert found.x.sum() == pytest.approx(COORDINATES)


@pytest.mark.parametrize("name", ["subgradient", "lp"])
def test_the_same_seed_gives_the_same_partition(name):
    options = {"steps": 50} if name == "subgradient" else {"draws": 100}
    first, second, other = (METHODS[name](5, 10, LAW, seed=seed, **options).x for seed in (1, 1, 2))
    assert first.tolist() == second.tolist() != other.tolist()


def test_unlike_workers_are_served_alike_by_both_and_worse_by_no_code():
    lp, steps = optimise_lp(8, 100, UNLIKE), optimise_subgradient(8, 100, UNLIKE)
    assert lp.certificate is None
    times = unlike_times(200_000, 12)
    by_lp, by_steps = literal_runtime(lp.x, times), literal_runtime(steps.x, times)
    difference = by_lp - by_steps
    # the same draws for both; 1 % of the runtime is more than either loses
    assert abs(difference.mean()) <= 0.01 * by_lp.mean() + 3.2905 * difference.std() / np.sqrt(len(times))
    error = 3.2905 * np.hypot(lp.error, by_lp.std() / np.sqrt(len(times)))
    assert abs(lp.expected - by_lp.mean()) <= error
    assert by_lp.mean() < 0.9 * literal_runtime([100.0] + [0.0] * 7, times).mean()
