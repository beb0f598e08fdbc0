import numpy as np
import pytest

from echelon.profile import Speeds
from echelon.splits import theorem2
from echelon.theory import metric


def by_bisection(speeds: Speeds, tasks: int, gamma: float) -> tuple[float, np.ndarray]:
    """Theorem 2 as printed (or its limit for gamma = 0), by scalar bisection on theta."""

    def kappa(theta, c, m, sigma):
        a, b = c + gamma * c * c, m + 2 * gamma * c * m + gamma * sigma**2
        d = max(theta - a, 0.0)
        if gamma == 0:
            return d / b
        return b / (2 * gamma * m * m) * (-1 + (1 + 4 * gamma * m * m * d / b**2) ** 0.5)

    rows = list(zip(speeds.link, speeds.mean, speeds.std, strict=True))
    low, high = 0.0, 1.0
    while sum(kappa(high, *row) for row in rows) < tasks:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if sum(kappa(middle, *row) for row in rows) < tasks:
            low = middle
        else:
            high = middle
    return high, np.array([kappa(high, *row) for row in rows])


def test_the_numbers_of_example_2(example2):
    split = theorem2(example2.speeds, 55, 1.0)
    assert split.counts.tolist() == [13, 18, 7, 3, 14]
    assert split.theta == pytest.approx(1.33065, abs=5e-6)
    assert split.active == 5


@pytest.mark.parametrize("seed", range(40))
def test_theta_and_rows_agree_with_a_scalar_bisection_of_the_printed_formula(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 30))
    speeds = Speeds(rng.uniform(0.01, 5, count), rng.uniform(0, 5, count), rng.uniform(0, 3, count))
    tasks, gamma = int(rng.integers(1, 500)), float(rng.choice([0.0, 0.1, 1.0, 7.0]))
    theta, rows = by_bisection(speeds, tasks, gamma)
    split = theorem2(speeds, tasks, gamma)
    assert split.theta == pytest.approx(theta, rel=1e-9)
    np.testing.assert_allclose(split.real, rows, rtol=1e-6, atol=1e-9)


def test_active_workers_reach_one_metric_and_idle_ones_could_not():
    rng = np.random.default_rng(3)
    speeds = Speeds(rng.uniform(0.1, 2, 50), rng.uniform(0, 2, 50), rng.uniform(0, 20, 50))
    split = theorem2(speeds, 120, 1.0)
    active = split.real > 0
    assert 0 < active.sum() < 50
    np.testing.assert_allclose(metric(speeds, split.real, 1.0)[active], split.theta, rtol=1e-9)
    assert ((speeds.link + speeds.link**2)[~active] >= split.theta * (1 - 1e-12)).all()


def test_tiny_gamma_does_not_cancel():
    """The printed form loses all digits here; the limit gamma -> 0 is kappa = (theta - c) / m."""
    speeds = Speeds(np.array([1.0, 3.0]), np.array([1.0, 3.0]), np.array([0.5, 0.1]))
    np.testing.assert_allclose(theorem2(speeds, 40, 1e-18).real, theorem2(speeds, 40, 0.0).real, rtol=1e-12)


@pytest.mark.parametrize("tasks", [1, 1000, 10**7])
def test_a_large_cluster_is_solved_as_exactly_as_a_small_one(tasks):
    rng = np.random.default_rng(5)
    speeds = Speeds(rng.exponential(1, 50_000) + 0.01, rng.exponential(1, 50_000), rng.exponential(1, 50_000))
    split = theorem2(speeds, tasks, 1.0)
    active = split.real > 0
    np.testing.assert_allclose(metric(speeds, split.real, 1.0)[active], split.theta, rtol=1e-9)
    assert split.tasks == tasks


def test_links_that_dwarf_the_work_are_no_obstacle():
    speeds = Speeds(np.array([1e-9, 2e-9]), np.array([1e-9, 2e-9]), np.array([1e9, 1e9]))
    split = theorem2(speeds, 50, 0.0)
    np.testing.assert_allclose(split.real, [100 / 3, 50 / 3], rtol=1e-9)
