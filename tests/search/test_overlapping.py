"""Whether idle workers should begin the next job: offered where it lowers the mean delay, and only there."""

import numpy as np
import pytest

from echelon import advise, simulate_jobs
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.search import overlapping
from tests.search.clusters import named

SUFFIX = ", jobs overlapping"


def busy(rate, iterations=2, workers=3, std=0.5):
    job = Workload(critical=12, redundancy=1.0, iterations=iterations, arrivals=Arrivals.poisson(rate))
    return Profile(job, [Worker(f"w{p}", mean=1.0, std=std) for p in range(workers)])


def test_it_is_offered_where_jobs_wait_and_the_stream_has_another_use_for_idle_workers_than_copies():
    advice = advise(busy(0.09))
    best = advice.best
    assert best.strategy.overlap
    assert best.name.endswith(SUFFIX)
    alone = named(advice)[best.name.removesuffix(SUFFIX)]
    assert best.delay < alone.delay
    assert best.iteration == alone.iteration
    assert f"lowers the mean delay from {alone.delay:.4g} to {best.delay:.4g} s" in advice.why
    assert best.delay < 0.99 * min(one.delay for one in advice.ranked if not one.strategy.overlap)


def test_what_it_saves_is_what_a_simulation_of_its_own_says():
    """Delays of 400 seeds whose draws have nothing to do with those of the advice, at 99 % and the advice's own 40."""
    profile, jobs = busy(0.09), 300
    advice = named(advise(profile))
    overlapped = next(one for one in advice.values() if one.strategy.overlap and one.strategy.family == "uncoded")
    plan = overlapped.strategy.plan()
    seen = [
        simulate_jobs(plan, profile, jobs=jobs, seeds=400, seed=9, overlap=overlap).delay for overlap in (True, False)
    ]
    share = overlapped.delay / advice[overlapped.name.removesuffix(SUFFIX)].delay
    assert share == pytest.approx(seen[0].mean / seen[1].mean, rel=0.1)


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (busy(1e-4), "nobody waits"),
        (busy(0.09, std=0.0), "nobody is idle"),
        (busy(10.0), "jobs come faster than they are served"),
        (busy(0.05, workers=1), "there is one worker"),
        (busy(0.0005, iterations=400), "jobs are long, and little can be saved"),
    ],
)
def test_it_is_not_offered_where(profile, why):
    assert not any(one.strategy.overlap for one in advise(profile).ranked), why


def test_the_best_stays_first_where_overlapping_is_better_by_less_than_a_hundredth(monkeypatch):
    monkeypatch.setattr(overlapping, "_share", lambda *arguments: 0.98)
    advice = advise(busy(0.05, std=1.0))
    assert not advice.best.strategy.overlap
    delays = [one.delay for one in advice.ranked[1:]]
    np.testing.assert_array_equal(delays, sorted(delays))
    assert any(one.strategy.overlap for one in advice.ranked)


@pytest.mark.parametrize("iterations", [1, 4])
def test_no_stream_that_overlaps_is_quicker_than_one_whose_first_iterations_are_free(iterations):
    """By how much simulated streams are quicker, against the bound by which strategies are left out; 100 seeds."""
    profile = busy(0.18 / iterations, iterations=iterations)
    alone = named(advise(profile))["uncoded, uniform"]
    plan = alone.strategy.plan()
    seen = [
        simulate_jobs(plan, profile, jobs=100, seeds=100, seed=3, overlap=overlap).delay for overlap in (True, False)
    ]
    bound = overlapping._at_best(alone, profile.workload) / alone.delay
    assert bound < seen[0].mean / seen[1].mean < 1


def test_it_is_not_tried_where_it_cant_win():
    profile = busy(0.002, iterations=50)
    advice = advise(profile)
    assert not any(one.strategy.overlap for one in advice.ranked)
    plain = min(overlapping._at_best(one, profile.workload) for one in advice.ranked if "copies" not in one.name)
    assert plain > 0.99 * advice.best.delay
