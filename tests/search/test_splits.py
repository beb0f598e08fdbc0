from itertools import product

import numpy as np
import pytest

import echelon as ec
from tests.strategies import random_profile


def all_splits(workers: int, tasks: int):
    for head in product(range(tasks + 1), repeat=workers - 1):
        if sum(head) <= tasks:
            yield np.array([*head, tasks - sum(head)])


def delay(profile, counts, purge):
    return ec.predict_jobs(ec.schemes.any_k(counts, profile.workload.critical), profile, purge=purge).delay


@pytest.mark.parametrize("purge", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_search_finds_the_best_of_all_splits(seed, purge):
    profile = random_profile(seed, workers=3).with_workload(critical=6, redundancy=4 / 3)
    service = ec.predict_jobs(ec.schemes.any_k(ec.split_rows(profile).counts, 6), profile, purge=False).service_mean
    profile = profile.with_workload(arrivals=ec.Arrivals.poisson(0.5 / service))
    found = ec.split_rows(profile, "best", purge=purge)
    least = min(delay(profile, counts, purge) for counts in all_splits(3, 8))
    assert delay(profile, found.counts, purge) == pytest.approx(least, rel=1e-9)


def test_example_2_with_fifty_tasks_beats_theorem_2_as_asked(example2):
    theirs = ec.split_rows(example2, "theorem2", tasks=50)
    ours = ec.split_rows(example2, "best", tasks=50)
    assert delay(example2, theirs.counts, True) == pytest.approx(69.52, abs=0.005)
    assert delay(example2, ours.counts, True) <= 64.4
    assert ours.tasks == 50


@pytest.mark.parametrize("seed", range(10, 16))
def test_the_search_is_never_worse_than_theorem_2(seed):
    profile = random_profile(seed, spread="gamma")
    theirs, ours = (ec.split_rows(profile, rule) for rule in ("theorem2", "best"))
    assert delay(profile, ours.counts, True) <= delay(profile, theirs.counts, True) * (1 + 1e-9)


def test_an_unstable_queue_is_made_as_fast_as_can_be(example2):
    busy = example2.with_workload(arrivals=ec.Arrivals.poisson(1.0))
    found = ec.split_rows(busy, "best", tasks=50)
    plans = [ec.schemes.any_k(counts, 50) for counts in (ec.split_rows(busy, tasks=50).counts, found.counts)]
    slow, quick = (ec.predict_jobs(plan, busy) for plan in plans)
    assert not quick.stable
    assert quick.service_mean < slow.service_mean


def test_laws_without_closed_sums_are_refused_with_advice(example2):
    laws = [ec.delays.Trace(times=[1.0, 2.0])] * 5
    with pytest.raises(ec.errors.NoClosedForm, match="use theorem2"):
        ec.split_rows(example2, "best", laws=laws)


@pytest.mark.parametrize("rate", [0.01, 1.0])
@pytest.mark.parametrize("stds", [(0.1, 10.0), (0.1, 5.0), (0.1, 30.0), (0.0, 0.0)])
def test_very_uneven_and_constant_workers_stable_or_not(stds, rate):
    """The best of all splits of four rows over two workers; by the mean iteration where the queue is unstable."""
    workers = [ec.Worker("a", mean=1.0, std=stds[0]), ec.Worker("b", mean=1.1, std=stds[1])]
    job = ec.Workload(critical=4, redundancy=1.0, iterations=1, arrivals=ec.Arrivals.poisson(rate))
    profile = ec.Profile(job, workers)

    def score(counts):
        seen = ec.predict_jobs(ec.schemes.any_k(counts, 4), profile)
        return seen.delay if rate < 0.1 else seen.iteration_mean

    found = ec.split_rows(profile, "best")
    assert score(found.counts) == pytest.approx(min(score(counts) for counts in all_splits(2, 4)), rel=1e-9)


def test_one_worker_gets_everything(example2):
    alone = ec.Profile(example2.workload, example2.workers[:1])
    assert ec.split_rows(alone, "best").counts.tolist() == [55]
