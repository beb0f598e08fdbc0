from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from echelon.blocks import expected_runtime, order_means, x_f, x_t
from echelon.delays import Deterministic, Exponential, Gamma, Pareto, RoundPace, ShiftedExponential, Straggler
from echelon.errors import ArgumentError, NoClosedForm
from tests.blocks.setting import COORDINATES, LAW, ROUGH, drawn, literal_runtime, unit, within_999

LAWS = [
    LAW,
    Exponential(rate=2.0),
    Gamma(shape=0.5, scale=1.0),
    Gamma(shape=2.5, scale=1.0),
    Straggler(base=Gamma(shape=20.0, scale=1.0), probability=0.1, slowdown=5.0),
    RoundPace(base=ShiftedExponential(shift=1.0, rate=1.0)),
]


def survival_of_two(t: float, x, law) -> float:
    """P(tau > t) for two workers, from the two events that keep both levels: no recursion."""
    later, sooner = law.sums(range(1, 2), np.array([t / x[0], t / (x[0] + 2 * x[1])]))[:, 0]
    return 1 - (later**2 - (later - sooner) ** 2)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("x", [(0.7, 0.3), (0.2, 0.8)])
def test_two_workers_agree_with_adaptive_integration(law, x):
    end = 80 * (x[0] + 2 * x[1]) * law.mean
    cuts = np.concatenate([[0.0], np.geomspace(1e-3 * law.mean, end, 25)])
    integral = sum(quad(survival_of_two, a, b, args=(x, law), limit=200)[0] for a, b in pairwise(cuts))
    found = expected_runtime(np.array(x), law, 3.0)
    assert found.mean == pytest.approx(3.0 * integral, rel=1e-7)
    assert found.error <= 1e-7 * found.mean


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("workers", [1, 3, 4, 12])
def test_mean_and_gradient_lie_in_the_intervals_of_a_simulation(law, workers):
    rng = np.random.default_rng(workers)
    x = rng.dirichlet(np.ones(workers))
    if workers > 3:
        x[[0, 2]] = 0.0
    found = expected_runtime(x, law)
    times = drawn(law, workers, 200_000, 100 + workers)
    assert within_999(literal_runtime(x, times), found.mean)
    ends = times[:, ::-1] * np.cumsum(np.arange(1, workers + 1) * x)
    last = ends.argmax(axis=1)
    slowest = times[np.arange(len(times)), workers - 1 - last]
    for i in range(workers):
        # among levels that end together (empty ones) the first ends the block
        assert within_999(np.where(last >= i, (i + 1) * slowest, 0.0), found.gradient[i]), i


@pytest.mark.parametrize("name", sorted(ROUGH))
@pytest.mark.parametrize("x", [(0.7, 0.3), (0.2, 0.8)])
def test_rough_laws_agree_with_adaptive_integration_between_their_kinks(name, x):
    """`quad` is given every place at which some bound has a kink, and fine pieces after each."""
    law = ROUGH[name]
    work = np.array([x[0], x[0] + 2 * x[1]])
    end = 80 * work[-1] * law.mean
    starts = np.outer([1.0, 2.0, 3.0, 5.0, 6.0] if name != "paper" else [50.0, 250.0], work).ravel()
    pieces = [starts, *(starts + law.std * step for step in (1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0))]
    cuts = np.unique(np.concatenate([[0.0], *pieces, np.geomspace(1e-3 * law.mean, end, 60)]))
    integral = sum(
        quad(survival_of_two, a, b, args=(x, law), limit=400, epsabs=1e-12 * law.mean, epsrel=1e-10)[0]
        for a, b in pairwise(cuts[cuts <= end])
    )
    found = expected_runtime(np.array(x), law, 3.0)
    assert found.mean == pytest.approx(3.0 * integral, rel=2e-8)
    assert found.error <= 1e-6 * found.mean


@pytest.mark.parametrize("name", sorted(ROUGH))
def test_mean_and_gradient_of_rough_laws_agree_with_draws_and_differences(name):
    law, x = ROUGH[name], np.random.default_rng(5).dirichlet(np.ones(6))
    found = expected_runtime(x, law)
    assert within_999(literal_runtime(x, drawn(law, 6, 200_000, 31)), found.mean)
    assert found.gradient @ x == pytest.approx(found.mean, rel=1e-6)
    for i in range(6):
        step = np.zeros(6)
        step[i] = 1e-5 * x[i]
        slope = (expected_runtime(x + step, law).mean - expected_runtime(x - step, law).mean) / (2 * step[i])
        assert found.gradient[i] == pytest.approx(slope, rel=1e-3, abs=1e-3 * found.mean)


def test_one_block_takes_the_mean_of_an_order_statistic():
    times = order_means(30, LAW)
    for level in (0, 7, 29):
        x = np.zeros(30)
        x[level] = 10.0
        assert expected_runtime(x, LAW, 2.0).mean == pytest.approx(20.0 * (level + 1) * times[29 - level], rel=1e-11)


def test_the_gradient_agrees_with_differences_and_is_homogeneous():
    rng = np.random.default_rng(0)
    x = rng.dirichlet(np.ones(15))
    found = expected_runtime(x, LAW)
    assert found.gradient @ x == pytest.approx(found.mean, rel=1e-10)
    for i in range(15):
        step = np.zeros(15)
        step[i] = 1e-4 * x[i]
        slope = (expected_runtime(x + step, LAW).mean - expected_runtime(x - step, LAW).mean) / (2 * step[i])
        assert found.gradient[i] == pytest.approx(slope, rel=1e-5)


def test_an_empty_level_has_the_slope_of_filling_it():
    x = np.array([0.5, 0.0, 0.0, 0.5])
    found = expected_runtime(x, LAW)
    for i in range(4):
        step = np.zeros(4)
        step[i] = 1e-6
        slope = (expected_runtime(x + step, LAW).mean - found.mean) / 1e-6
        assert found.gradient[i] == pytest.approx(slope, rel=1e-3)


def test_two_hundred_workers_agree_with_a_simulation():
    x = 1 / np.arange(1, 201.0)
    found = expected_runtime(x, LAW)
    assert found.error <= 1e-9 * found.mean
    assert within_999(literal_runtime(x, drawn(LAW, 200, 10_000, 5)), found.mean)


def test_scale_of_time_and_of_work_does_not_matter():
    x = np.array([3.0, 1.0, 0.0, 2.0])
    usual = expected_runtime(x, ShiftedExponential(shift=0.5, rate=1.0)).mean
    tiny = expected_runtime(x * 1e-9, ShiftedExponential(shift=0.5e-9, rate=1e9), 1e18).mean
    assert tiny == pytest.approx(usual, rel=1e-10)


def test_section_six_has_the_runtimes_of_the_rulings():
    assert expected_runtime(x_t(20, COORDINATES, LAW), LAW, unit(20)).mean == pytest.approx(78.853e6, abs=500)
    assert expected_runtime(x_f(20, COORDINATES, LAW), LAW, unit(20)).mean == pytest.approx(78.438e6, abs=500)


def test_what_is_not_allowed_is_named():
    with pytest.raises(ArgumentError, match="x: "):
        expected_runtime(np.array([1.0, -1.0]), LAW)
    with pytest.raises(ArgumentError, match="x: "):
        expected_runtime(np.zeros(3), LAW)
    with pytest.raises(ArgumentError, match="unit: "):
        expected_runtime(np.ones(3), LAW, 0.0)
    with pytest.raises(ArgumentError, match="law: "):
        expected_runtime(np.ones(3), "exponential")
    with pytest.raises(ArgumentError, match="workers: "):
        expected_runtime(np.ones(501), LAW)
    with pytest.raises(NoClosedForm, match="no distribution function"):
        expected_runtime(np.ones(3), Pareto(shape=3.0, scale=1.0))
    with pytest.raises(NoClosedForm, match="jumps"):
        expected_runtime(np.ones(3), Deterministic(time=1.0))
