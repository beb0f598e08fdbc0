"""The exact law of an iteration against closed forms, brute force and direct summation."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import echelon as ec
from echelon.delays import Deterministic, Exponential, Gamma, ShiftedExponential, Straggler
from echelon.theory import iteration_cdf, iteration_law
from tests.strategies import random_profile


def summed_directly(means, links, counts, critical, time):
    """P(iteration <= time) for exponential tasks, summed over all combinations of results."""
    pmfs = []
    for mean, link, count in zip(means, links, counts, strict=True):
        load = max(time - link, 0) / mean
        pmf = stats.poisson.pmf(np.arange(count + 1), load)
        pmf[-1] = stats.poisson.sf(count - 1, load) if count else 1.0
        pmfs.append(pmf)
    chance = 0.0
    for held in product(*(range(count + 1) for count in counts)):
        if sum(held) >= critical:
            chance += np.prod([pmf[k] for pmf, k in zip(pmfs, held, strict=True)])
    return chance


@pytest.mark.parametrize("seed", range(12))
def test_the_cdf_agrees_with_a_sum_over_all_combinations(seed):
    rng = np.random.default_rng(seed)
    workers = int(rng.integers(1, 5))
    means, links = rng.uniform(0.1, 2, workers), rng.uniform(0, 1, workers)
    counts = rng.integers(0, 5, workers)
    counts[0] += 1
    critical = int(rng.integers(1, counts.sum() + 1))
    times = np.array([0.05, 0.4, 1.0, 2.5, 6.0])
    ours = iteration_cdf([Exponential(rate=1 / m) for m in means], links, counts, critical, times)
    direct = [summed_directly(means, links, counts, critical, time) for time in times]
    np.testing.assert_allclose(ours, direct, atol=3e-12)


def test_the_first_of_many_exponentials_and_the_last():
    """min and max of n unit exponentials: means 1/n and 1 + 1/2 + ... + 1/n."""
    laws, counts = [Exponential(rate=1.0)] * 20, np.ones(20, dtype=int)
    first = iteration_law(laws, np.zeros(20), counts, 1)
    last = iteration_law(laws, np.zeros(20), counts, 20)
    assert first.mean == pytest.approx(1 / 20, rel=1e-9)
    assert first.second == pytest.approx(2 / 400, rel=1e-8)
    assert last.mean == pytest.approx(sum(1 / i for i in range(1, 21)), rel=1e-10)


@pytest.mark.parametrize("critical", [1, 30, 90, 100])
def test_order_statistics_of_a_hundred_workers(critical):
    """The K-th of n unit exponentials is a sum of independent ones with rates n, n-1, …, n-K+1."""
    law = iteration_law([Exponential(rate=1.0)] * 100, np.zeros(100), np.ones(100, dtype=int), critical)
    means = 1 / np.arange(100, 100 - critical, -1)
    assert law.mean == pytest.approx(means.sum(), rel=1e-9)
    assert law.second == pytest.approx(means.sum() ** 2 + np.square(means).sum(), rel=1e-9)


def test_one_worker_is_a_shifted_gamma():
    law = iteration_law([Exponential(rate=2.0)], np.array([0.7]), np.array([9]), 6)
    assert law.mean == pytest.approx(0.7 + 6 / 2, rel=1e-10)
    assert law.second == pytest.approx(3.7**2 + 6 / 4, rel=1e-9)


def test_without_purging_the_law_is_the_product_of_shifted_gammas():
    """Mean of the maximum by scipy's quadrature over a product of CDFs."""
    from scipy.integrate import quad

    counts, means, links = np.array([3, 5, 2]), np.array([1.0, 0.5, 2.0]), np.array([0.2, 0.0, 1.0])

    def late(t):
        return 1 - np.prod(stats.gamma.cdf(t - links, counts, scale=means))

    law = iteration_law([Exponential(rate=1 / m) for m in means], links, counts, int(counts.sum()))
    assert law.mean == pytest.approx(quad(late, 0, 80, limit=400, epsabs=1e-11)[0], rel=1e-8)
    assert law.second == pytest.approx(quad(lambda t: 2 * t * late(t), 0, 80, limit=400, epsabs=1e-11)[0], rel=1e-8)


def test_constant_tasks_give_a_constant_iteration():
    laws = [Deterministic(time=1.0), Deterministic(time=0.4)]
    law = iteration_law(laws, np.array([0.0, 0.3]), np.array([3, 4]), 5)
    arrivals = np.sort([1.0, 2.0, 3.0, 0.7, 1.1, 1.5, 1.9])
    assert law.mean == pytest.approx(arrivals[4], abs=1e-9)
    assert law.second == pytest.approx(arrivals[4] ** 2, abs=1e-8)
    drawn = law.sample(100, np.random.default_rng(1))
    np.testing.assert_allclose(drawn, arrivals[4], atol=1e-9)


@pytest.mark.parametrize(
    "laws",
    [
        [Gamma(shape=0.4, scale=1.0), Exponential(rate=1.5), Gamma(shape=6.0, scale=0.2)],
        [ShiftedExponential(shift=0.5, rate=2.0), Deterministic(time=0.9), Exponential(rate=1.0)],
        [Straggler(base=Deterministic(time=0.5), probability=0.2, slowdown=4.0), Exponential(rate=1.0)],
    ],
)
def test_mixed_laws_agree_with_simulated_rounds(laws):
    """Mean at 99.9 %, and the whole distribution by a Kolmogorov bound at 99.9 %, over 40 000 rounds."""
    counts, critical = np.array([5, 4, 3][: len(laws)]), 7
    links = np.array([0.1, 0.0, 0.8])[: len(laws)]
    law = iteration_law(laws, links, counts, critical)
    sampler = ec.simulation.RoundSampler(ec.schemes.any_k(counts, critical), laws, links)
    rng = np.random.default_rng(17)
    times = sampler.draw(sampler.begin(1, rng), 1, 40_000, rng)[0].times[0]
    assert abs(times.mean() - law.mean) < 3.29 * times.std() / 200
    grid = np.quantile(times, np.linspace(0.01, 0.99, 60))
    seen = np.searchsorted(np.sort(times), grid * (1 + 1e-12), side="right") / len(times)
    exact = iteration_cdf(laws, links, counts, critical, grid * (1 + 1e-12))
    assert np.abs(seen - exact).max() < np.sqrt(np.log(2 / 0.001) / 2 / len(times))


def test_workers_without_rows_pay_no_link_and_do_not_matter():
    laws = [Exponential(rate=1.0)] * 3
    with_idle = iteration_law(laws, np.array([0.0, 99.0, 0.2]), np.array([2, 0, 2]), 3)
    without = iteration_law(laws[:2], np.array([0.0, 0.2]), np.array([2, 2]), 3)
    assert with_idle.mean == pytest.approx(without.mean, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_unit_of_time_does_not_matter(scale):
    counts, links = np.array([4, 3]), np.array([0.1, 0.5])
    base = iteration_law([Exponential(rate=1.0)] * 2, links, counts, 5)
    other = iteration_law([Exponential(rate=1 / scale)] * 2, links * scale, counts, 5)
    assert other.mean == pytest.approx(base.mean * scale, rel=1e-9)
    assert other.second == pytest.approx(base.second * scale**2, rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_stated_error_of_the_mean_covers_the_true_one(seed):
    """Truth: the integral of 1 - F by scipy's adaptive quadrature over our CDF, split at the links."""
    from scipy.integrate import quad

    profile = random_profile(seed)
    laws, link = ec.delays.task_laws(profile), profile.speeds.link
    counts = ec.split_rows(profile).counts
    law = iteration_law(laws, link, counts, profile.workload.critical)

    def late(t):
        return 1 - iteration_cdf(laws, link, counts, profile.workload.critical, np.array([t]))[0]

    low, high = law.support
    cuts = sorted({low, high, *[c for c in link if low < c < high]})
    pieces = [quad(late, a, b, epsabs=1e-11, epsrel=1e-11, limit=200) for a, b in pairwise(cuts)]
    truth, doubt = (sum(column) for column in zip(*pieces, strict=True))
    assert abs(low + truth - law.mean) <= law.error + doubt
    assert law.error < 1e-8 * law.mean


@pytest.mark.parametrize(
    ("counts", "critical", "said"),
    [([1, 1], 3, "they sum to 2; must reach critical"), ([1, -1], 1, "counts: -1"), ([1], 1, "counts: 1 given")],
)
def test_counts_that_make_no_iteration_are_refused(counts, critical, said):
    with pytest.raises(ValueError, match=said):
        iteration_law([Exponential(rate=1.0)] * 2, np.zeros(2), np.array(counts), critical)


def test_a_quick_bump_far_below_a_slow_end_is_not_lost():
    """One task, slowed 5000-fold in one round of 5000: mean 1 + 2e-4 * 4999."""
    law = Straggler(base=Gamma(shape=4.0, scale=0.25), probability=2e-4, slowdown=5e3)
    found = iteration_law([law], np.zeros(1), np.array([1]), 1)
    assert found.mean == pytest.approx(1 + 2e-4 * 4999, rel=1e-6)
    assert abs(found.mean - (1 + 2e-4 * 4999)) <= found.error


def test_workers_of_very_different_speed():
    """The fast one alone ends the iteration: ten tasks of mean 1."""
    laws = [Exponential(rate=1.0), Exponential(rate=1 / 3e8)]
    assert iteration_law(laws, np.zeros(2), np.array([10, 10]), 10).mean == pytest.approx(10.0, rel=1e-6)


@pytest.mark.parametrize("x", [0.8448965977318212, 0.25, 1.0, 3.14159])
def test_a_nearly_constant_worker_beside_an_exponential_one(x):
    """E max(x, T) = x + exp(-x) for a unit exponential T and a worker that takes x almost surely."""
    laws = [Exponential(rate=1.0), Gamma(shape=1e14, scale=x * 1e-14)]
    law = iteration_law(laws, np.zeros(2), np.array([1, 1]), 2)
    assert law.mean == pytest.approx(x + np.exp(-x), abs=1e-7)


@pytest.mark.parametrize("std", [3.0, 30.0, 300.0, 1e5, 1e6])
def test_the_stated_errors_cover_what_the_far_tail_holds(std):
    """One gamma task of mean 1: the mean is 1 and the second moment 1 + std^2, whatever the table missed of it."""
    law = iteration_law([Gamma.fit(1.0, std)], np.zeros(1), np.array([1]), 1)
    assert abs(law.mean - 1) <= law.error
    assert abs(law.second - (1 + std**2)) <= law.second_error
    if std <= 30:
        assert law.second_error < 1e-4 * (1 + std**2)


@pytest.mark.parametrize("critical", [2, 3])
def test_kinks_are_cut_at(critical):
    """Three workers with a task each, against adaptive integration between the kinks."""
    law = Straggler(base=ShiftedExponential(shift=1.0, rate=1.0), probability=0.1, slowdown=5.0)

    def survival(time):
        healthy, slow = (-np.expm1(-max(t - 1.0, 0.0)) for t in (time, time / 5))
        return stats.binom.cdf(critical - 1, 3, 0.9 * healthy + 0.1 * slow)

    cuts = [0.0, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0, 20.0, 40.0, 80.0, 160.0, 400.0]
    wanted = sum(quad(survival, a, b, epsabs=1e-14, epsrel=1e-13, limit=300)[0] for a, b in pairwise(cuts))
    found = iteration_law([law] * 3, np.zeros(3), np.ones(3, dtype=int), critical)
    assert abs(found.mean - wanted) < 2e-11
