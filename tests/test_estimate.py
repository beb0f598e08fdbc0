import numpy as np
import pytest

import echelon as ec
from echelon.estimate import SpeedEstimator
from echelon.profile import Speeds
from echelon.simulation import RoundSampler


def observed(profile, counts, rounds, seed, laws=None):
    plan = ec.schemes.any_k(counts, profile.workload.critical)
    sampler = RoundSampler(plan, laws or ec.delays.task_laws(profile), profile.speeds.link)
    rng = np.random.default_rng(seed)
    seen, _ = sampler.draw(sampler.begin(1, rng), 1, rounds, rng)
    return seen.busy[0], seen.done[0]


def test_busy_time_over_completions_is_unbiased_where_averaging_finished_tasks_is_not(example2):
    """Uniform split, so that the slow worker is purged nearly always; means at 99.9 %."""
    busy, done = observed(example2, [11] * 5, 20_000, 1)
    estimator = SpeedEstimator(example2.speeds, prior=1e-9)
    estimator.observe(busy=busy, done=done)
    ours = estimator.estimate().speeds
    half = 3.29 * example2.speeds.mean / np.sqrt(done.sum(axis=0))
    assert (np.abs(ours.mean - example2.speeds.mean) < half).all()
    np.testing.assert_allclose(ours.std, example2.speeds.std, rtol=0.05)


def test_averaging_finished_tasks_makes_the_slow_worker_look_fast(example2):
    """Theorem 2's split of Example 2: the mean of w4's finished tasks is too small by a fifth or so.

    Counted from the same draws that the master would see: tasks that ended before the iteration did.
    """
    rng = np.random.default_rng(1)
    rows = zip(example2.speeds.mean, [13, 18, 7, 3, 14], strict=True)
    tasks = [rng.exponential(mean, (20_000, count)) for mean, count in rows]
    ends = [link + times.cumsum(axis=1) for link, times in zip(example2.speeds.link, tasks, strict=True)]
    over = np.sort(np.concatenate(ends, axis=1), axis=1)[:, 49]
    finished = ends[3] <= over[:, None]
    naive = tasks[3][finished].mean() / example2.speeds.mean[3]
    busy = np.minimum(ends[3][:, -1], over) - example2.speeds.link[3]
    ours = busy.sum() / finished.sum() / example2.speeds.mean[3]
    half = 3.29 / np.sqrt(finished.sum())  # 99.9 %
    assert 0.78 < naive < 0.84
    assert abs(ours - 1) < half


@pytest.mark.parametrize(("rounds", "memory"), [(6, None), (20, None), (100, None), (200, 100.0)])
def test_the_interval_holds_the_truth_as_often_as_it_says(example2, rounds, memory):
    """600 runs at 95 %: no worker's share may lie below 95 % by more than chance allows at 99.9 %."""
    hits = []
    for seed in range(600):
        busy, done = observed(example2, [13, 18, 7, 3, 14], rounds, [seed, rounds])
        estimator = SpeedEstimator(example2.speeds, prior=1e-9, memory=memory)
        estimator.observe(busy=busy, done=done)
        known = estimator.estimate(0.95)
        hits.append((known.low <= example2.speeds.mean) & (example2.speeds.mean <= known.high))
    assert np.mean(hits, axis=0).min() > 0.95 - 3.09 * np.sqrt(0.95 * 0.05 / 600)
    assert np.mean(hits) < 0.985


def test_the_prior_counts_as_so_many_tasks():
    declared = Speeds(np.array([2.0]), np.array([2.0]), np.zeros(1))
    estimator = SpeedEstimator(declared, prior=10)
    assert estimator.estimate().speeds.mean.tolist() == [2.0]
    estimator.observe(busy=np.array([[10.0]]), done=np.array([[10]]))
    assert estimator.estimate().speeds.mean.tolist() == [1.5]
    assert estimator.estimate().weight.tolist() == [20.0]


def test_a_worker_that_is_never_asked_keeps_its_declared_speed(example2):
    busy, done = observed(example2, [20, 20, 10, 5, 0], 50, 1)
    estimator = SpeedEstimator(example2.speeds, prior=5)
    estimator.observe(busy=busy, done=done)
    known = estimator.estimate()
    assert known.speeds.mean[4] == pytest.approx(example2.speeds.mean[4])
    assert known.weight[4] == 5


def test_memory_forgets_at_the_same_pace_in_one_batch_or_in_many():
    rng = np.random.default_rng(2)
    busy, done = rng.exponential(3.0, (40, 2)), rng.integers(0, 5, (40, 2))
    declared = Speeds(np.ones(2), np.ones(2), np.zeros(2))
    at_once, piecewise = (SpeedEstimator(declared, prior=3, memory=20) for _ in range(2))
    at_once.observe(busy=busy, done=done)
    for i in range(0, 40, 7):
        piecewise.observe(busy=busy[i : i + 7], done=done[i : i + 7])
    one, many = at_once.estimate(), piecewise.estimate()
    np.testing.assert_allclose(one.speeds.mean, many.speeds.mean, rtol=1e-12)
    np.testing.assert_allclose(one.weight, many.weight, rtol=1e-12)
    assert (one.weight < 3 + 25).all()


def test_gamma_tasks_are_estimated_to_about_a_task_a_round():
    job = ec.Workload(critical=40, redundancy=1.1, iterations=1, arrivals=ec.Arrivals.poisson(1e-6))
    profile = ec.Profile(job, [ec.Worker("a", mean=1.0, std=0.3), ec.Worker("b", mean=2.0, std=0.6)])
    busy, done = observed(profile, [29, 15], 4000, 3)
    estimator = SpeedEstimator(profile.speeds, prior=1e-9)
    estimator.observe(busy=busy, done=done)
    known = estimator.estimate().speeds
    np.testing.assert_allclose(known.mean, profile.speeds.mean, rtol=1 / 14)
    np.testing.assert_allclose(known.std, profile.speeds.std, rtol=0.5)


@pytest.mark.parametrize(
    ("busy", "done", "said"),
    [
        (np.zeros((3, 4)), np.zeros((3, 5)), "busy: shape"),
        (np.zeros((3, 5)), np.zeros((2, 5)), "done: shape"),
        (-np.ones((1, 5)), np.ones((1, 5)), "busy: must be finite and >= 0"),
        (np.full((1, 5), np.nan), np.ones((1, 5)), "busy: must be finite"),
    ],
)
def test_observations_that_cannot_be_are_refused(example2, busy, done, said):
    with pytest.raises(ValueError, match=said):
        SpeedEstimator(example2.speeds).observe(busy=busy, done=done)


@pytest.mark.parametrize("confidence", [0, 1, -0.5, float("nan")])
def test_confidence_lies_between_zero_and_one(example2, confidence):
    with pytest.raises(ValueError, match="confidence"):
        SpeedEstimator(example2.speeds).estimate(confidence)


def test_counts_may_be_unsigned():
    declared = Speeds(np.ones(1), np.ones(1), np.zeros(1))
    signed, unsigned = SpeedEstimator(declared, memory=2.0), SpeedEstimator(declared, memory=2.0)
    done = np.array([[1], [3], [2]])
    signed.observe(busy=np.ones((3, 1)), done=done)
    unsigned.observe(busy=np.ones((3, 1)), done=done.astype(np.uint8))
    assert signed.estimate().speeds.mean == unsigned.estimate().speeds.mean


def test_a_spread_far_beyond_the_mean_gives_wide_intervals_and_no_warning():
    ones = np.ones(1)
    found = SpeedEstimator(Speeds(ones, 50 * ones, 0 * ones), prior=2.0, memory=200.0).estimate()
    assert 0 <= found.low[0] <= 1
    assert found.high[0] > 1e6
