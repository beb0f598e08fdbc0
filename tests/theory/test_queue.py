import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.profile import Arrivals
from echelon.theory import kingman, pollaczek_khinchine, queue_delay, service_moments


@given(load=st.floats(0.01, 0.99), rate=st.floats(0.1, 10))
def test_the_mm1_queue(load, rate):
    """Mean delay 1 / (service rate - arrival rate)."""
    mean = load / rate
    assert pollaczek_khinchine(rate, mean, 2 * mean**2) == pytest.approx(1 / (1 / mean - rate), rel=1e-9)


@given(load=st.floats(0.01, 0.99), gap=st.floats(0.1, 10), spread=st.floats(0, 5))
def test_kingman_is_exact_for_poisson_arrivals(load, gap, spread):
    mean = load * gap
    second = mean**2 * (1 + spread)
    exact = pollaczek_khinchine(1 / gap, mean, second)
    assert kingman(gap, 2 * gap**2, mean, second) == pytest.approx(exact, rel=1e-9)


def test_a_service_as_long_as_the_gap_is_unstable():
    for poisson in (True, False):
        arrivals = Arrivals(mean=2.0, second=8.0, poisson_process=poisson)
        said = queue_delay(arrivals, 2.0, 5.0)
        assert said.mean == np.inf
        assert not said.stable


def test_service_moments_of_a_sum():
    draws = np.random.default_rng(1).gamma(2.0, 1.5, (200_000, 4)).sum(axis=1)
    mean, second = service_moments(3.0, 3.0**2 + 2 * 1.5**2, 4)
    assert mean == 12.0
    assert abs(draws.mean() - mean) < 3.29 * draws.std() / np.sqrt(len(draws))  # 99.9 %
    squares = draws**2
    assert abs(squares.mean() - second) < 3.29 * squares.std() / np.sqrt(len(draws))  # 99.9 %


def test_unstable_means_no_finite_delay_and_the_other_way_round():
    """Within rounding of equality, too."""
    for gap in np.arange(1.0, 400.0):
        for service in (np.nextafter(gap, 0), gap, np.nextafter(gap, np.inf)):
            for poisson in (True, False):
                arrivals = Arrivals(mean=gap, second=2 * gap**2, poisson_process=poisson)
                said = queue_delay(arrivals, service, service**2)
                assert said.stable == np.isfinite(said.mean)
                assert said.stable or service >= gap * (1 - 1e-15)
