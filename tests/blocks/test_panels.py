import numpy as np
import pytest

from echelon.blocks.panels import bisect, cut, differentiation, refined, spread


def test_nodes_integrate_polynomials_of_twice_the_degree():
    times, weights = spread(np.array([-1.0, 0.5, 3.0]), 4)
    assert times**7 @ weights == pytest.approx((3.0**8 - 1) / 8, rel=1e-13)


def test_the_derivative_of_a_polynomial_is_exact():
    times, _ = spread(np.array([-1.0, 1.0]), 5)
    np.testing.assert_allclose(differentiation(5) @ times**4, 4 * times**3, atol=1e-13)


def test_a_kink_is_cut_at_and_integrated_exactly():
    times, weights = spread(cut(np.array([0.0, 1.0]), np.array([0.3, 5.0, -1.0])), 3)
    assert np.abs(times - 0.3) @ weights == pytest.approx((0.09 + 0.49) / 2, rel=1e-14)


def test_places_that_are_ends_or_nearly_so_make_no_panels():
    ends = np.array([1.0, 2.0, 3.0])
    assert cut(ends, np.array([1.0, 2.0, 2.0 * (1 + 1e-15), 3.0])).tolist() == [1.0, 2.0, 3.0]


def test_panels_are_halved_where_a_function_is_steep_and_nowhere_else():
    def step(times):
        return 1 / (1 + np.exp(-200 * (times - 0.7)))

    ends = refined(np.linspace(0, 1, 5), step, 12, 1e-9)
    assert ends[:3].tolist() == [0.0, 0.25, 0.5]
    times, weights = spread(ends, 12)
    assert step(times) @ weights == pytest.approx(0.3, rel=1e-12)  # log(1 + e^60) / 200, less log(1 + e^-140) / 200


def test_all_rows_of_a_function_are_resolved_and_a_jump_does_not_go_on_for_ever():
    ends = refined(np.array([0.0, 1.0]), lambda t: np.array([t, 1.0 * (t > 1 / 3)]), 8, 1e-6)
    assert 10 < len(ends) < 60
    assert np.diff(ends).min() < 1e-6


def test_bisection_stops_at_neighbouring_numbers():
    low, high = bisect(lambda t: t >= 0.1, 0.0, 1.0, 0.0)
    assert high == 0.1
    assert low == np.nextafter(0.1, 0)
