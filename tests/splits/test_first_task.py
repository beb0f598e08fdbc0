"""Splits for lanes whose first task costs more than the others."""

import numpy as np
import pytest

from echelon.errors import ArgumentError
from echelon.profile import Arrivals, Profile, Speeds, Worker, Workload
from echelon.search.splits import split_rows
from echelon.splits import SPLITS, theorem2, uniform


def random_speeds(rng, count, links=3.0):
    return Speeds(rng.uniform(0.1, 3, count), rng.uniform(0, 3, count), rng.uniform(0, links, count))


def levels(speeds, rows, gamma, first):
    """Return E[T] + gamma E[T^2] of link + (rows + first - 1) independent tasks, from mean and variance."""
    tasks = rows + first - 1
    mean = speeds.link + tasks * speeds.mean
    variance = tasks * speeds.std**2
    return mean + gamma * (variance + mean**2)


@pytest.mark.parametrize("gamma", [0.0, 0.2, 1.0, 7.0])
@pytest.mark.parametrize("first", [1, 2, 3.5, 10, 200])
@pytest.mark.parametrize("seed", range(6))
def test_active_workers_reach_one_level_with_the_first_task_paid_and_idle_ones_could_not(seed, first, gamma):
    rng = np.random.default_rng(seed)
    speeds = random_speeds(rng, int(rng.integers(1, 40)))
    tasks = int(rng.integers(1, 300))
    split = theorem2(speeds, tasks, gamma, first=first)
    active = split.real > 0
    assert active.any()
    np.testing.assert_allclose(levels(speeds, split.real, gamma, first)[active], split.theta, rtol=1e-8)
    assert (levels(speeds, np.zeros(len(speeds.mean)), gamma, first)[~active] >= split.theta * (1 - 1e-9)).all()
    assert split.real.sum() == pytest.approx(tasks, rel=1e-9)
    assert split.counts.sum() == tasks
    assert (np.abs(split.counts - split.real) < 1).all()


@pytest.mark.parametrize("seed", range(10))
def test_rows_agree_with_two_bisections(seed):
    rng = np.random.default_rng(seed)
    speeds = random_speeds(rng, 12, links=20.0)
    tasks, gamma, first = int(rng.integers(5, 90)), float(rng.uniform(0.1, 3)), float(rng.uniform(1, 12))

    def rows_at(theta):
        low, high = np.zeros(12), np.full(12, float(tasks))
        for _ in range(60):
            middle = (low + high) / 2
            below = levels(speeds, middle, gamma, first) < theta
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return low

    low, high = 0.0, float(levels(speeds, np.full(12, float(tasks)), gamma, first).max())
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if rows_at(middle).sum() < tasks else (low, middle)
    split = theorem2(speeds, tasks, gamma, first=first)
    assert split.theta == pytest.approx(high, rel=1e-8)
    np.testing.assert_allclose(split.real, rows_at(high), rtol=1e-6, atol=1e-6)


def test_a_first_task_of_cost_one_is_the_plain_split():
    speeds = random_speeds(np.random.default_rng(7), 30)
    for gamma in (0.0, 1.0):
        plain, same = theorem2(speeds, 77, gamma), theorem2(speeds, 77, gamma, first=1)
        np.testing.assert_array_equal(plain.real, same.real)
        np.testing.assert_array_equal(plain.counts, same.counts)
        assert plain.theta == same.theta


def test_a_dear_first_task_leaves_slow_workers_without_rows():
    """Without variance or links kappa + first - 1 tasks of 1 take as long as those of 2: 23 + 9 = 2 (7 + 9)."""
    speeds = Speeds(np.array([1.0, 2.0]), np.zeros(2), np.zeros(2))
    assert theorem2(speeds, 30, 0.0).counts.tolist() == [20, 10]
    assert theorem2(speeds, 30, 0.0, first=10).counts.tolist() == [23, 7]
    assert theorem2(speeds, 30, 0.0, first=31).counts.tolist() == [30, 0]
    assert theorem2(speeds, 30, 0.0, first=100).active == 1


def test_a_large_cluster_is_solved_as_exactly_as_a_small_one():
    rng = np.random.default_rng(5)
    speeds = Speeds(rng.exponential(1, 20_000) + 0.01, rng.exponential(1, 20_000), rng.exponential(1, 20_000))
    split = theorem2(speeds, 50_000, 1.0, first=6)
    active = split.real > 0
    np.testing.assert_allclose(levels(speeds, split.real, 1.0, 6)[active], split.theta, rtol=1e-9)
    assert split.tasks == 50_000


def test_a_uniform_split_is_uniform_whatever_the_first_task_costs():
    speeds = random_speeds(np.random.default_rng(8), 5)
    assert uniform(speeds, 12, first=7).counts.tolist() == uniform(speeds, 12).counts.tolist() == [3, 3, 2, 2, 2]


@pytest.mark.parametrize("rule", SPLITS.values(), ids=SPLITS)
@pytest.mark.parametrize("first", [0, 0.5, -1, np.nan, np.inf, "2", True])
def test_a_first_task_cheaper_than_the_others_is_refused(rule, first):
    with pytest.raises(ArgumentError, match=r"^first: "):
        rule(Speeds(np.ones(2), np.ones(2), np.zeros(2)), 4, first=first)


def test_the_search_on_the_exact_delay_knows_equal_tasks_only():
    job = Workload(critical=9, redundancy=1.2, iterations=1, arrivals=Arrivals.poisson(0.01))
    profile = Profile(job, [Worker("a", mean=1, std=1), Worker("b", mean=3, std=3)])
    with pytest.raises(ArgumentError, match="'best' is not allowed with first 3"):
        split_rows(profile, "best", first=3)
    assert split_rows(profile, "best", first=1).tasks == 11
    assert split_rows(profile, first=3).counts.tolist() == theorem2(profile.speeds, 11, 1.0, first=3).counts.tolist()
