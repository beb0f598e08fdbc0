import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from echelon.blocks import expected_runtime, optimise_exact
from echelon.delays import Exponential, Gamma, Pareto, ShiftedExponential
from echelon.errors import ArgumentError, NoClosedForm
from tests.blocks.setting import COORDINATES, LAW, ROUGH, drawn, literal_runtime, unit, within_999
from tests.blocks.test_runtime import survival_of_two


def test_twenty_workers_of_section_six_are_certified():
    best = optimise_exact(20, COORDINATES, LAW, unit(20))
    assert best.expected == pytest.approx(70.494e6, abs=500)
    assert best.certificate <= 1e-5
    assert best.x.sum() == pytest.approx(COORDINATES)
    assert within_999(literal_runtime(best.x, drawn(LAW, 20, 100_000, 8), unit(20)), best.expected)


def test_the_certificate_is_the_gap_to_a_bound_that_a_simulation_confirms():
    best = optimise_exact(20, COORDINATES, LAW, unit(20))
    # f(y) >= sum_i y_i df/dx_i >= L min_i df/dx_i, and the slopes are means over draws
    times = drawn(LAW, 20, 400_000, 9)
    work = np.cumsum(np.arange(1, 21) * best.x)
    last = (times[:, ::-1] * work).argmax(axis=1)
    slowest = unit(20) * times[np.arange(len(times)), 19 - last]
    for i in range(20):
        assert within_999(COORDINATES * np.where(last >= i, (i + 1) * slowest, 0.0), best.expected), i


def test_fifty_workers_are_certified():
    best = optimise_exact(50, COORDINATES, LAW, unit(50))
    assert best.certificate <= 1e-5
    assert within_999(literal_runtime(best.x, drawn(LAW, 50, 40_000, 8), unit(50)), best.expected)


def test_two_workers_agree_with_a_search_in_one_variable():
    law = ShiftedExponential(shift=0.5, rate=1.0)
    grid = np.linspace(0, 60, 60_001)

    def mean(share):
        x = (share, 1 - share)
        values = np.array([survival_of_two(t, x, law) for t in grid[::20]])
        return float(np.trapezoid(values, grid[::20]))

    found = minimize_scalar(mean, bounds=(0.05, 0.95), method="bounded", options={"xatol": 1e-3})
    best = optimise_exact(2, 1, law)
    assert best.expected == pytest.approx(found.fun, rel=1e-4)
    assert best.x[0] == pytest.approx(found.x, abs=0.02)


@pytest.mark.parametrize(
    "law",
    [Exponential(rate=1.0), Gamma(shape=2.0, scale=1.0), Gamma(shape=0.5, scale=1.0), Gamma(shape=100.0, scale=1.0)],
)
def test_no_partition_near_or_far_is_better(law):
    best = optimise_exact(6, 100, law)
    assert best.certificate <= 1e-5
    rng = np.random.default_rng(6)
    for pull in (1e-3, 0.1, 1.0):
        for _ in range(5):
            other = (1 - pull) * best.x + pull * 100 * rng.dirichlet(np.ones(6))
            assert expected_runtime(other, law).mean >= best.expected * (1 - best.certificate)


@pytest.mark.parametrize("name", sorted(ROUGH))
@pytest.mark.parametrize("workers", [4, 8])
def test_laws_with_kinks_and_steep_stretches_are_certified(name, workers):
    best = optimise_exact(workers, COORDINATES, ROUGH[name], unit(workers))
    assert best.certificate <= 1e-5
    times = drawn(ROUGH[name], workers, 100_000, 10 + workers)
    assert within_999(literal_runtime(best.x, times, unit(workers)), best.expected)
    rng = np.random.default_rng(6)
    for pull in (0.01, 0.1, 1.0):
        other = (1 - pull) * best.x + pull * COORDINATES * rng.dirichlet(np.ones(workers))
        mean = expected_runtime(other, ROUGH[name], unit(workers)).mean
        assert mean >= best.expected * (1 - best.certificate)


def test_a_small_tolerance_is_kept():
    assert optimise_exact(10, 100, LAW, tolerance=1e-9).certificate <= 1e-9


def test_one_worker_takes_everything():
    best = optimise_exact(1, 100, Exponential(rate=2.0), 3.0)
    assert best.x.tolist() == [100.0]
    assert best.expected == pytest.approx(150.0)


def test_what_is_not_allowed_is_named():
    with pytest.raises(ArgumentError, match=r"tolerance: .* is the best reached"):
        optimise_exact(3, 10, LAW, tolerance=1e-25)
    with pytest.raises(ArgumentError, match="workers: "):
        optimise_exact(0, 10, LAW)
    with pytest.raises(ArgumentError, match="coordinates: "):
        optimise_exact(3, 0, LAW)
    with pytest.raises(NoClosedForm, match="law: "):
        optimise_exact(3, 10, Pareto(shape=3.0, scale=1.0))
