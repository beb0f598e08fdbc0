import pytest

import echelon as ec


def test_workers_are_added_until_the_queue_is_stable(example2):
    weak = ec.Profile(example2.workload, example2.workers[3:4])
    seen = ec.search.add_until_stable(weak, [*example2.workers[:3], ec.Worker("far", rate=1e9, link=1e4)])
    assert seen.stable
    assert seen.added
    assert "far" in seen.useless
    assert "w2" in seen.added  # the fastest
    assert seen.prediction.service_mean < 100
    # one fewer would not do
    fewer = ec.Profile(example2.workload, seen.profile.workers[:-1])
    plan = ec.schemes.any_k(ec.split_rows(fewer).counts, 50)
    assert not ec.predict_jobs(plan, fewer).stable


def test_a_stable_queue_needs_nobody(example2):
    assert ec.search.add_until_stable(example2, [ec.Worker("x", rate=1e9)]).added == ()


def test_a_pool_that_cannot_help_is_said_to_be_so(example2):
    weak = ec.Profile(example2.workload, example2.workers[3:4])
    seen = ec.search.add_until_stable(weak, [ec.Worker("far", rate=1e9, link=500.0), ec.Worker("weak", rate=1e3)])
    assert not seen.stable
    assert seen.useless == ("far",)


def test_an_empty_pool_and_double_names(example2):
    weak = ec.Profile(example2.workload, example2.workers[3:4])
    assert ec.search.add_until_stable(weak, []).added == ()
    with pytest.raises(ec.errors.ArgumentError, match="names must differ"):
        ec.search.add_until_stable(weak, [ec.Worker("w4", rate=1.0)])


def test_the_pool_is_judged_with_the_tasks_and_the_laws_that_the_plan_will_have():
    job = ec.Workload(critical=20, redundancy=1.0, iterations=1, arrivals=ec.Arrivals.poisson(0.87))
    even = [ec.Worker(name, mean=0.1, std=0.01) for name in "abc"]
    profile = ec.Profile(job, even[:2])
    assert ec.search.add_until_stable(profile, even[2:]).added == ()
    spread = profile.with_law("exponential")
    assert ec.search.add_until_stable(spread, spread.workers[:0]).added == ()
    assert ec.search.add_until_stable(spread, [ec.Worker("c", mean=0.1, std=0.01, law="exponential")]).added == ("c",)
    assert ec.search.add_until_stable(profile, even[2:], tasks=40, purge=False).added == ("c",)
