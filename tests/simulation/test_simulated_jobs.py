import tracemalloc

import numpy as np
import pytest
from scipy import stats

import echelon as ec
from echelon.delays import Deterministic
from echelon.papers.stream_workers import strong_five
from echelon.simulation import simulated_jobs
from echelon.simulation.simulated_jobs import _add_to_jobs


def small(**changes) -> tuple[ec.Plan, ec.Profile]:
    job = ec.Workload(critical=4, redundancy=1.5, iterations=3, arrivals=ec.Arrivals.poisson(0.1))
    profile = ec.Profile(job, [ec.Worker("a", mean=0.5, std=0.5), ec.Worker("b", mean=1.0, std=1.0, link=0.2)])
    profile = profile.with_workload(**changes)
    return ec.schemes.any_k(ec.split_rows(profile).counts, profile.workload.critical), profile


@pytest.mark.parametrize("rule", ["theorem2", "uniform"])
@pytest.mark.parametrize(("purge", "seeds"), [(True, 100), (False, 25)])
def test_example_2_agrees_with_its_prediction_within_its_own_interval(example2, rule, purge, seeds):
    """Streams of 1000 jobs from an empty queue, at 99 %; the unstable case by its service time."""
    plan = ec.schemes.any_k(ec.split_rows(example2, rule).counts, 50)
    exact = ec.predict_jobs(plan, example2, purge=purge)
    seen = ec.simulate_jobs(plan, example2, jobs=1000, seeds=seeds, seed=1, purge=purge)
    assert exact.service_mean in seen.service
    if exact.stable:
        assert exact.delay in seen.delay
    else:
        assert (rule, purge) == ("uniform", False)
        assert seen.delay.mean > 1000


def test_the_two_paths_have_one_law():
    """Kolmogorov-Smirnov over 20 000 iterations each at K = 1000, at 99 %; and their delays agree at 99 %."""
    profile = strong_five().with_workload(redundancy=1.06)
    plan = ec.schemes.any_k(ec.split_rows(profile).counts, 1000)
    law = ec.prediction.plan_law(plan, profile)
    sampler = ec.simulation.RoundSampler(plan, ec.delays.task_laws(profile), profile.speeds.link)
    rng = np.random.default_rng(2)
    times = sampler.draw(sampler.begin(1, rng), 1, 20_000, rng)[0].times[0]
    assert stats.ks_2samp(times, law.sample(20_000, rng)).pvalue > 0.01
    slow = ec.simulate_jobs(plan, profile, jobs=300, seeds=12, seed=1)
    quick = ec.simulation.simulate_law(law, profile, jobs=300, seeds=12, seed=2)
    assert slow.delay.low <= quick.delay.high
    assert quick.delay.low <= slow.delay.high


@pytest.fixture
def arrivals(monkeypatch):
    """Give the list of when jobs arrived in each simulation, an array of shape (seeds, jobs)."""
    noted, drawn = [], simulated_jobs._arrivals
    monkeypatch.setattr(simulated_jobs, "_arrivals", lambda *given: noted.append(drawn(*given)) or noted[-1])
    return noted


def test_the_same_seed_gives_the_same_stream_and_splits_share_arrivals(arrivals):
    plan, profile = small()
    one, two = (ec.simulate_jobs(plan, profile, jobs=30, seeds=3, seed=9) for _ in range(2))
    np.testing.assert_array_equal(one.delays, two.delays)
    assert not np.array_equal(one.delays, ec.simulate_jobs(plan, profile, jobs=30, seeds=3, seed=10).delays)
    uniform = ec.schemes.any_k([3, 3], 4)
    arrivals.clear()
    for some in (plan, uniform):
        ec.simulate_jobs(some, profile, jobs=5, seeds=2, seed=4)
    np.testing.assert_array_equal(*arrivals)


def test_constant_times_give_the_delays_one_can_compute_by_hand():
    """Rounds take 2 s, jobs 6 s; one arrives every 5 s: job j waits j seconds."""
    _plan, profile = small(arrivals=ec.Arrivals(mean=5.0, second=25.0))
    seen = ec.simulate_jobs(ec.schemes.any_k([4, 0], 4), profile, jobs=4, seeds=2, laws=Deterministic(time=0.5))
    np.testing.assert_allclose(seen.delays, [[6, 7, 8, 9]] * 2)
    np.testing.assert_allclose(seen.utilisation, [1.0, 0.0])
    np.testing.assert_allclose(seen.idle, [0.0, 24.0])
    assert seen.makespan == pytest.approx(24.0)
    assert seen.percentile(50) == pytest.approx(7.5)


def test_recorded_arrivals_are_repeated_in_order_from_a_random_place(arrivals):
    plan, profile = small(arrivals=ec.Arrivals.recorded([1.0, 2.0, 4.0]))
    starts = set()
    ec.simulate_jobs(plan, profile, jobs=7, seeds=20)
    for gaps in np.diff(arrivals[0], prepend=0.0):
        place = [1.0, 2.0, 4.0].index(gaps[0])
        starts.add(place)
        np.testing.assert_allclose(gaps, np.resize(np.roll([1.0, 2.0, 4.0], -place), 7))
    assert starts == {0, 1, 2}


@pytest.mark.parametrize("law", sorted(ec.delays.DELAYS))
def test_every_registered_law_can_be_simulated(law):
    plan, profile = small()
    needed = {"times": [0.4, 1.0, 2.0]} if law in ("trace", "recorded") else {}
    laws = [ec.delays.fit(law, mean, 0.95 * mean, **needed) for mean in profile.speeds.mean]
    seen = ec.simulate_jobs(plan, profile, jobs=20, seeds=4, laws=laws)
    assert np.isfinite(seen.delays).all()
    assert (seen.delays > 0).all()


def test_rounds_are_added_to_their_jobs_whatever_the_chunks():
    times = np.random.default_rng(1).random((2, 35))
    expected = times.reshape(2, 7, 5).sum(axis=2)
    for chunk in (1, 2, 3, 5, 7, 10, 34, 35):
        services = np.zeros((2, 7))
        for start in range(0, 35, chunk):
            _add_to_jobs(services, times[:, start : start + chunk], start, 5)
        np.testing.assert_allclose(services, expected)


def test_memory_does_not_grow_with_the_number_of_tasks():
    profile = strong_five()
    plan = ec.schemes.any_k(ec.split_rows(profile).counts, 1000)
    peaks = []
    for jobs in (20, 200):
        tracemalloc.start()
        ec.simulate_jobs(plan, profile, jobs=jobs, seeds=1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 200 * 10 * 1000 * 8 / 4  # a quarter of all task times at once


def test_progress_reaches_the_end():
    plan, profile = small()
    told = []
    ec.simulate_jobs(plan, profile, jobs=50, seeds=7, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (7 * 50 * 3, 7 * 50 * 3)


def test_one_seed_has_no_interval():
    plan, profile = small()
    assert np.isnan(ec.simulate_jobs(plan, profile, jobs=5, seeds=1).delay.low)


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"seeds": 0}, {"seed": -1}, {"warmup": -1}, {"jobs": 2.5}])
def test_sizes_that_make_no_stream_are_refused(wrong):
    plan, profile = small()
    name = next(iter(wrong))
    with pytest.raises(ValueError, match=f"{name}: .* is not allowed"):
        ec.simulate_jobs(plan, profile, **wrong)
