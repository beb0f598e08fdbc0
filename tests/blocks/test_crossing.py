from math import factorial

import numpy as np
import pytest

from echelon.blocks.crossing import crossing, crossing_gradient


def steck(bounds) -> float:
    """Steck's determinant, N! det(u_i^(j-i+1) / (j-i+1)!): another formula, good for few points."""
    n = len(bounds)
    matrix = np.zeros((n, n))
    for i in range(n):
        for j in range(max(i - 1, 0), n):
            matrix[i, j] = bounds[i] ** (j - i + 1) / factorial(j - i + 1)
    return factorial(n) * float(np.linalg.det(matrix))


@pytest.mark.parametrize("points", [1, 2, 3, 4, 6, 8])
def test_the_recursion_agrees_with_a_determinant(points):
    rng = np.random.default_rng(points)
    bounds = np.sort(rng.uniform(0.2, 1.0, (points, 20)), axis=0)
    np.testing.assert_allclose(crossing(bounds), [steck(column) for column in bounds.T], rtol=0, atol=1e-12)


@pytest.mark.parametrize("points", [1, 5, 50, 200, 500])
def test_linear_bounds_have_the_probability_of_daniels(points):
    # P(F_N(t) <= z t for all t) = 1 - 1/z; mirrored, U_(k) <= 1 - (N+1-k)/(N z)
    z = np.array([1.5, 2.0, 10.0])
    left = np.arange(points, 0, -1)[:, None]
    np.testing.assert_allclose(crossing(1 - left / (points * z)), 1 - 1 / z, rtol=1e-11)


def test_equal_bounds_are_a_power():
    np.testing.assert_allclose(crossing(np.full((100, 1), 0.99)), 0.99**100, rtol=1e-12)


def test_the_gradient_agrees_with_differences_of_the_determinant():
    rng = np.random.default_rng(3)
    bounds = np.sort(rng.uniform(0.2, 1.0, 6))
    _, gradient = crossing_gradient(bounds[:, None])
    for k in range(6):
        up, down = bounds.copy(), bounds.copy()
        up[k] += 1e-5
        down[k] -= 1e-5
        assert gradient[k, 0] == pytest.approx((steck(up) - steck(down)) / 2e-5, rel=1e-6)


def test_bounds_of_zero_have_no_probability_and_bounds_of_one_have_all():
    assert crossing(np.zeros((4, 1))).tolist() == [0.0]
    np.testing.assert_allclose(crossing(np.ones((300, 1))), 1.0, rtol=1e-11)
