"""Streams that choose: the plan of a job is what advice finds best for the workers, as they are."""

import dataclasses

import numpy as np
import pytest

import echelon as ec
from echelon import search
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.search import advise
from echelon.stream import read_record
from echelon.stream.pacing import Pacing
from echelon.stream.strategist import Strategist
from tests.stream.jobs import linear_job, linear_result, sum_job, sum_result

LIMIT_S = 60.0
JOB = Workload(critical=12, redundancy=1.0, iterations=8, arrivals=Arrivals.poisson(1e-3))
STEADY = Profile(JOB, [Worker("quick", mean=1e-3, std=0.0), Worker("slow", mean=2e-3, std=0.0)])
VARIED = Profile(JOB, [Worker(f"w{p}", mean=1e-3, std=1e-3) for p in range(4)])


@pytest.fixture
def asked(monkeypatch):
    """Give the list of profiles that advice was asked for."""
    profiles = []

    def noted(profile, **more):
        profiles.append(profile)
        return advise(profile, **more)

    monkeypatch.setattr(search, "advise", noted)
    return profiles


def test_jobs_run_by_the_plan_that_wins(tmp_path):
    path = tmp_path / "record"
    with ec.Stream("threads", profile=STEADY, emulate=STEADY, strategy="auto", record=path) as stream:
        found = stream.submit(sum_job()).result(LIMIT_S)
    np.testing.assert_allclose(found, sum_result(), rtol=1e-9)
    assert advise(STEADY).best.name == "uncoded, by speed"
    assert all(
        {place: len(rows) for place, rows in seen.rows.items()} == {0: 8, 1: 4} for seen in read_record(path).rounds
    )


@pytest.mark.parametrize("cluster", ["threads", "processes"])
def test_results_are_those_of_one_process_whatever_wins(cluster):
    with ec.Stream(cluster, profile=VARIED, emulate=VARIED, strategy="auto") as stream:
        sums = [stream.submit(sum_job(seed)) for seed in range(3)]
        linear = stream.submit(linear_job())
        for seed, handle in enumerate(sums):
            np.testing.assert_allclose(handle.result(LIMIT_S), sum_result(seed), rtol=1e-9)
        np.testing.assert_allclose(linear.result(LIMIT_S), linear_result(), rtol=1e-6)


def test_without_a_profile_the_first_job_shows_the_speeds(asked):
    with ec.Stream("threads", workers=3, emulate=Profile(JOB, VARIED.workers[:3]), strategy="auto") as stream:
        assert stream.submit(sum_job()).result(LIMIT_S) == pytest.approx(sum_result())
        assert not asked
        for _ in range(2):
            assert stream.submit(sum_job()).result(LIMIT_S) == pytest.approx(sum_result())
    assert asked
    assert len(asked[0].workers) == 3
    assert asked[0].workload.critical == 12


def test_advice_is_asked_for_once_and_again_when_workers_have_changed(asked):
    pacing = Pacing(2, "theorem2", STEADY.speeds)
    chooser = Strategist(STEADY, pacing, seed=1)
    first = chooser.plan(sum_job())
    assert [len(lane) for lane in first.lanes] == [8, 4]
    chooser.plan(sum_job(2))
    assert len(asked) == 1
    pacing._mean = np.array([5e-3, 1e-2])  # other work, and the same workers
    assert chooser.plan(sum_job()) is first
    assert len(asked) == 1
    pacing._mean = np.array([1e-3, 1e-3])
    assert [len(lane) for lane in chooser.plan(sum_job()).lanes] == [6, 6]
    assert len(asked) == 2
    chooser.plan(linear_job(parts=6))
    assert len(asked) == 3


def test_costs_of_the_profile_are_kept_when_speeds_have_changed(asked):
    costs = ec.Costs(message=1e-5, round=1e-4)
    pacing = Pacing(2, "theorem2", STEADY.speeds)
    chooser = Strategist(dataclasses.replace(STEADY, costs=costs), pacing, seed=1)
    pacing._mean = np.array([1e-3, 1e-3])
    chooser.plan(sum_job())
    assert asked[0].costs == costs


def test_bytes_that_are_known_before_a_job_runs_are_advised_with(monkeypatch):
    told = []

    def noted(profile, **more):
        told.append((more["bytes_per_message"], more["bytes_of_state"]))
        return advise(profile, **more)

    monkeypatch.setattr(search, "advise", noted)
    chooser = Strategist(STEADY, Pacing(2, "theorem2", STEADY.speeds), seed=1)
    job = ec.LinearJob(
        matrix=np.ones((24, 5), dtype=np.float32), update=lambda old, new: new, state=np.ones(5), parts=6, iterations=1
    )
    chooser.plan(job)
    chooser.plan(sum_job())
    state = getattr(sum_job().state, "nbytes", 0)
    assert told == [(4 * 4, 5 * 8), (0, state)]  # four numbers of four bytes a block, and a state of five of eight


def test_plans_that_a_job_can_not_run_are_passed_over(monkeypatch):
    def blocks_first(profile, **more):
        advice = advise(profile, **more)
        first = next(one for one in advice.ranked if one.name == "block coordinates")
        return dataclasses.replace(advice, ranked=(first, *advice.ranked))

    monkeypatch.setattr(search, "advise", blocks_first)
    plan = Strategist(VARIED, Pacing(4, "theorem2", VARIED.speeds), seed=1).plan(sum_job())
    assert not isinstance(plan, ec.schemes.BlockPlan)


def test_a_job_kept_before_speeds_were_known_runs_by_advice_later(asked):
    job = sum_job(iterations=1)
    with ec.Stream("threads", emulate=VARIED, strategy="auto") as stream, stream.keep(job) as kept:
        first = kept.run(job.state)
        assert not asked
        for _ in range(3):
            assert kept.run(job.state) == pytest.approx(first)
        assert asked


def test_speeds_seen_in_rounds_with_a_pool_are_those_of_the_workers():
    """Tasks that the end of a round cuts short count, or those that are quick would be all that is seen."""
    plan = ec.schemes.pull(workers=4, parts=12, copies=2)
    with ec.Stream("threads", emulate=VARIED, seed=3) as stream:
        stream.submit(sum_job(iterations=300, plan=plan)).result(LIMIT_S)
        means = stream._driver.pacing.means
    # what was seen last counts most: that of one worker is known to a quarter or so, that of all four to half as much
    assert means.mean() > 0.85e-3


def test_a_job_s_own_plan_stays():
    own = ec.schemes.pull(workers=2, parts=12)
    chooser = Strategist(STEADY, Pacing(2, "theorem2", STEADY.speeds), seed=1)
    assert chooser.plan(sum_job(plan=own)) is own


def test_a_kept_job_runs_by_the_plan_that_wins():
    matrix = np.random.default_rng(1).normal(size=(24, 5))
    job = ec.LinearJob(matrix=matrix, update=lambda state, found: found, state=None, parts=12, iterations=1)
    with ec.Stream("threads", profile=VARIED, emulate=VARIED, strategy="auto") as stream, stream.keep(job) as kept:
        for seed in range(4):
            vector = np.random.default_rng(seed).normal(size=5)
            np.testing.assert_allclose(kept.run(vector), matrix @ vector, rtol=1e-9)


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ec.errors.ArgumentError, match="strategy: 'best'"):
        ec.Stream("threads", workers=2, strategy="best")


def test_jobs_overlap_where_advice_says_so_unless_the_user_says_otherwise(monkeypatch):
    job = Workload(critical=12, redundancy=1.0, iterations=2, arrivals=Arrivals.poisson(90.0))
    crowded = Profile(job, [Worker(f"w{p}", mean=1e-3, std=5e-4) for p in range(3)])
    advice, asked = advise(crowded), []
    assert advice.best.strategy.overlap
    monkeypatch.setattr(search, "advise", lambda profile, **more: asked.append(profile) or advice)
    for said, done in ((None, True), (False, False), (True, True)):
        with ec.Stream("threads", profile=crowded, emulate=crowded, strategy="auto", overlap=said) as stream:
            handles = [stream.submit(sum_job(seed, iterations=2)) for seed in range(4)]
            for seed, handle in enumerate(handles):
                np.testing.assert_allclose(handle.result(LIMIT_S), sum_result(seed, iterations=2), rtol=1e-9)
            assert stream._driver.overlap is done
    assert [profile.workload for profile in asked] == [job] * 3
