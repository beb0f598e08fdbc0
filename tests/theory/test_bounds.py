"""Yardsticks: the paper's, and a bound that every split is held to."""

import numpy as np
import pytest
from scipy import stats

import echelon as ec
from echelon.delays import Deterministic, Exponential, Gamma, Pareto, RoundPace, ShiftedExponential, Straggler
from echelon.errors import ArgumentError, NoClosedForm
from echelon.profile import Arrivals, Speeds
from echelon.theory import busy_law, iteration_law, lower_bound, metric, mismatch, paper_bound, queued_bound
from tests.strategies import random_profile


def test_the_metric_is_that_of_sampled_lanes():
    """E[T] + gamma E[T^2] of c + a sum of kappa tasks, at 99.9 %."""
    rng = np.random.default_rng(2)
    lane = 0.4 + rng.exponential(0.7, (200_000, 5)).sum(axis=1)
    sampled = lane + 2.0 * lane**2
    speeds = Speeds(np.array([0.7]), np.array([0.7]), np.array([0.4]))
    exact = metric(speeds, np.array([5]), 2.0)[0]
    assert abs(sampled.mean() - exact) < 3.29 * sampled.std() / np.sqrt(len(sampled))


def test_idle_workers_have_no_metric_and_pay_no_link():
    assert metric(Speeds(np.ones(2), np.ones(2), np.array([5.0, 1.0])), np.array([0, 1])).tolist()[0] == 0.0


def test_mismatch_over_all_workers_counts_who_is_idle():
    """Ruling 12: theta^2 f (1 - f) for an unrounded split."""
    assert mismatch(np.array([3.0, 3.0, 0.0, 0.0])) == pytest.approx(9 * 0.25)
    assert mismatch(np.empty(0)) == 0.0


def test_the_paper_s_bound_of_example_2(example2):
    bound = paper_bound(example2.speeds, 50, 50)
    assert bound == pytest.approx(33.928, abs=5e-4)
    assert queued_bound(example2.workload.arrivals, bound) == pytest.approx(42.640, abs=5e-4)


def test_busy_exponential_workers_without_links_are_one_poisson_process():
    """The K-th event of a process whose rate is the sum of all."""
    law = busy_law([Exponential(rate=rate) for rate in (0.5, 1.0, 2.5)], np.zeros(3), 7)
    assert law.mean == pytest.approx(7 / 4, rel=1e-10)
    np.testing.assert_allclose(
        law.quantile(np.array([0.1, 0.9])), stats.gamma(7, scale=1 / 4).ppf([0.1, 0.9]), rtol=1e-9
    )


LAWS = [
    lambda rng: Exponential(rate=float(rng.uniform(1, 10))),
    lambda rng: Gamma(shape=float(rng.uniform(0.3, 5)), scale=float(rng.uniform(0.02, 0.3))),
    lambda rng: ShiftedExponential(shift=float(rng.uniform(0.01, 0.2)), rate=float(rng.uniform(3, 50))),
    lambda rng: Deterministic(time=float(rng.uniform(0.05, 0.4))),
    lambda rng: Straggler(base=ShiftedExponential(shift=0.05, rate=20.0), probability=0.2, slowdown=8.0),
    lambda rng: RoundPace(base=Gamma(shape=2.0, scale=float(rng.uniform(0.02, 0.2)))),
]


def draws(laws, links, counts, critical, rounds, rng):
    """Times of an iteration, by drawing every task and sorting all arrivals."""
    arrivals = [
        link + law.sample((rounds, int(count)), rng).cumsum(axis=1)
        for law, link, count in zip(laws, links, counts, strict=True)
    ]
    return np.sort(np.concatenate(arrivals, axis=1), axis=1)[:, critical - 1]


@pytest.mark.parametrize("seed", range(12))
def test_the_law_of_busy_workers_is_that_of_draws_of_all_their_tasks(seed):
    """The mean of 20 000 draws, and the share below each quantile: 48 intervals of 99.9 % together, 4.3 deviations."""
    rng = np.random.default_rng(seed)
    laws = [LAWS[i](rng) for i in rng.integers(0, len(LAWS), rng.integers(1, 5))]
    links, critical = rng.uniform(0, 0.5, len(laws)), int(rng.integers(1, 12))
    law = busy_law(laws, links, critical)
    drawn = draws(laws, links, [critical] * len(laws), critical, 20_000, rng)
    assert abs(drawn.mean() - law.mean) <= 4.3 * drawn.std() / np.sqrt(len(drawn)) + 1e-9
    for p in (0.1, 0.5, 0.9):
        at, slack = float(law.quantile(p)), 4.3 * np.sqrt(p * (1 - p) / len(drawn))
        assert np.mean(drawn < at * (1 - 1e-9)) - slack <= p <= np.mean(drawn <= at * (1 + 1e-9)) + slack


@pytest.mark.parametrize("seed", range(60))
def test_no_split_is_below_the_bound_whatever_the_laws_and_however_far_a_worker_is(seed):
    """Exact services of random splits over random laws, some of which leave workers out, others give one everything."""
    rng = np.random.default_rng(seed)
    workers = int(rng.integers(2, 6))
    laws = [LAWS[i](rng) for i in rng.integers(0, len(LAWS), workers)]
    links = rng.uniform(0, 0.3, workers)
    links[rng.random(workers) < 0.3] += float(rng.choice([1.0, 20.0, 500.0]))
    critical, iterations = int(rng.integers(1, 20)), int(rng.integers(1, 10))
    whole = lower_bound(laws, links, critical, iterations, Arrivals.poisson(1e-6))
    for _ in range(4):
        counts = rng.multinomial(critical + int(rng.integers(0, critical + 1)), rng.dirichlet(np.full(workers, 0.4)))
        service = iterations * iteration_law(laws, links, counts, critical).mean
        used = np.flatnonzero(counts)
        some = lower_bound([laws[p] for p in used], links[used], critical, iterations, Arrivals.poisson(1e-6))
        assert whole.service <= some.service * (1 + 1e-9) <= service * (1 + 2e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_delay_of_every_rule_is_at_least_the_bound_with_its_queue(seed):
    """Profiles with one worker that is too far to be of use: (9) often fails, the bound never does."""
    profile = random_profile(seed, spread="gamma")
    far = ec.Worker("far", mean=0.1, std=0.1, link=200.0)
    profile = ec.Profile(profile.workload, [*profile.workers, far])
    job, laws = profile.workload, ec.delays.task_laws(profile)
    bound = lower_bound(laws, profile.speeds.link, job.critical, job.iterations, job.arrivals)
    plan = ec.schemes.any_k(ec.split_rows(profile, "theorem2").counts, job.critical)
    assert not plan.lanes[-1]
    for purge in (True, False):
        found = ec.predict_jobs(plan, profile, purge=purge)
        assert bound.service <= found.service_mean * (1 + 1e-9)
        assert bound.delay <= found.delay * (1 + 1e-9)
        assert not purge or paper_bound(profile.speeds, job.critical, job.iterations) > found.service_mean


def test_a_split_with_rows_to_spare_for_everybody_reaches_the_bound():
    laws, links = [Exponential(rate=1.0), Gamma(shape=3.0, scale=0.2)], np.array([0.3, 0.0])
    law = iteration_law(laws, links, np.array([9, 9]), 9)
    assert lower_bound(laws, links, 9, 5, Arrivals.poisson(0.01)).service == pytest.approx(5 * law.mean, rel=1e-8)


def test_without_poisson_arrivals_a_job_takes_its_service_at_least():
    laws = [Exponential(rate=1.0)]
    steady = lower_bound(laws, np.zeros(1), 2, 3, Arrivals(mean=7.0, second=50.0, poisson_process=False))
    assert steady.delay == steady.service == pytest.approx(6.0, rel=1e-8)
    assert lower_bound(laws, np.zeros(1), 2, 3, Arrivals(mean=5.0, second=26.0, poisson_process=False)).delay == np.inf
    assert lower_bound(laws, np.zeros(1), 2, 3, Arrivals.poisson(0.2)).delay == np.inf


def test_what_is_not_allowed_is_named():
    with pytest.raises(ArgumentError, match="links: 1 given; must be one per law, 2"):
        busy_law([Exponential(rate=1.0)] * 2, np.zeros(1), 1)
    with pytest.raises(ArgumentError, match="critical: 0 is not allowed"):
        busy_law([Exponential(rate=1.0)], np.zeros(1), 0)
    with pytest.raises(NoClosedForm, match="Pareto"):
        busy_law([Pareto(shape=3.0, scale=1.0)], np.zeros(1), 1)
