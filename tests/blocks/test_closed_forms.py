import numpy as np
import pytest
from scipy.optimize import linprog

from echelon.blocks import equalised, expected_runtime, optimise_t, order_harmonic_means, order_means, x_f, x_t
from echelon.delays import Gamma, ShiftedExponential
from echelon.errors import ArgumentError
from tests.blocks.setting import COORDINATES, LAW, drawn, literal_runtime, unit


@pytest.mark.parametrize("workers", [1, 2, 20, 1000, 10_000])
def test_all_blocks_end_together_and_the_sum_is_kept(workers):
    for x, times in (
        (x_t(workers, COORDINATES, LAW), order_means(workers, LAW)),
        (x_f(workers, COORDINATES, LAW), order_harmonic_means(workers, LAW)),
    ):
        assert x.min() > 0
        assert x.sum() == pytest.approx(COORDINATES, rel=1e-12)
        ends = times[::-1] * np.cumsum(np.arange(1, workers + 1) * x)
        np.testing.assert_allclose(ends, ends[0], rtol=1e-9)


def test_the_end_is_m_of_theorem_2():
    t = order_means(20, LAW)
    m = COORDINATES / (sum(1 / (n * (n + 1) * t[20 - n]) for n in range(1, 20)) + 1 / (20 * t[0]))
    assert literal_runtime(x_t(20, COORDINATES, LAW), t[None, :])[0] == pytest.approx(m, rel=1e-12)


def test_no_partition_is_better_for_constant_times():
    rng = np.random.default_rng(4)
    for _ in range(20):
        times = np.sort(rng.uniform(0.1, 3.0, 6))
        # min m under t_(N-n) c_n <= m, by a general solver
        rows = np.zeros((6, 7))
        for n in range(6):
            rows[n, : n + 1] = times[5 - n] * np.arange(1, n + 2)
        rows[:, 6] = -1.0
        least = linprog([0] * 6 + [1], A_ub=rows, b_ub=np.zeros(6), A_eq=[[1] * 6 + [0]], b_eq=[10.0]).fun
        assert literal_runtime(equalised(times, 10.0), times[None, :])[0] == pytest.approx(least, rel=1e-8)


@pytest.mark.parametrize(
    ("workers", "rate", "t_saves", "f_saves"), [(50, 1e-3, 0.371, 0.367), (30, 10**-2.6, 0.44, 0.44)]
)
def test_the_reductions_of_the_paper_are_those_against_a_single_block(workers, rate, t_saves, f_saves):
    law = ShiftedExponential(shift=50.0, rate=rate)
    times = order_means(workers, law)
    single = COORDINATES * min((n + 1) * times[workers - 1 - n] for n in range(workers))
    digits = 5e-4 if workers == 50 else 5e-3
    for x, saves in ((x_t(workers, COORDINATES, law), t_saves), (x_f(workers, COORDINATES, law), f_saves)):
        assert 1 - expected_runtime(x, law).mean / single == pytest.approx(saves, abs=digits)


def test_x_f_beats_x_t_up_to_26_workers_only():
    def advantage(workers):
        f, t = (expected_runtime(x(workers, COORDINATES, LAW), LAW, unit(workers)).mean for x in (x_f, x_t))
        return t - f

    assert advantage(26) > 0 > advantage(27)


def test_beyond_two_hundred_workers_the_runtime_is_sampled():
    found = optimise_t(300, COORDINATES, LAW, unit(300))
    again = literal_runtime(found.x, drawn(LAW, 300, 4_000, 2), unit(300))
    assert found.certificate is None
    error = np.hypot(found.error, again.std(ddof=1) / np.sqrt(len(again)))
    assert abs(found.expected - again.mean()) <= 3.2905 * error


def test_any_law_with_a_formula_will_do():
    x = x_f(5, 100, Gamma(shape=3.0, scale=1.0))
    assert x.sum() == pytest.approx(100)
    assert x.min() > 0


def test_what_is_not_allowed_is_named():
    with pytest.raises(ArgumentError, match="times: "):
        equalised(np.array([2.0, 1.0]), 1.0)
    with pytest.raises(ArgumentError, match="times: "):
        equalised(np.array([0.0, 1.0]), 1.0)
    with pytest.raises(ArgumentError, match="coordinates: "):
        x_t(3, 0, LAW)
    with pytest.raises(ArgumentError, match="coordinates: "):
        x_f(3, 0, LAW)
