"""Streams in virtual time against the vectorised simulator, and under faults."""

import numpy as np
import pytest

from echelon.clusters import VirtualCluster
from echelon.clusters.faults import Crash, Faults, MasterCrash, MasterKilled, Partition, Raise
from echelon.errors import ClusterError, JobFailed
from echelon.jobs import HollowJob
from echelon.master.actions import Outcome
from echelon.plan import Plan, Slot, Task
from echelon.schemes import any_k, pull
from echelon.simulation import RoundSampler
from tests.simulation.in_virtual_time import Log, WatchedStream, coded, every_second, run, scripted
from tests.simulation.scripted import Scripted
from tests.simulation.test_slots import parts

PLANS = {
    "any K": any_k([4, 0, 6, 3], 9),
    "all": any_k([2, 2, 2, 2], 8),
    "rows in several lanes": Plan(
        [Slot(rows=3, threshold=2), Slot(rows=2, threshold=1)],
        [
            [Task(slot=0, row=0), Task(slot=0, row=1, cost=2.5)],
            [Task(slot=0, row=1), Task(slot=1, row=0)],
            [Task(slot=0, row=2, cost=3.0), Task(slot=1, row=1), Task(slot=0, row=0)],
            [Task(slot=1, row=0, cost=0.5)],
        ],
    ),
    "pulled": pull(workers=4, parts=11),
    "pulled by twos, ahead": pull(workers=4, parts=11, batch=2, ahead=1),
    "pulled, with copies": pull(workers=4, parts=9, copies=3),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_virtual_time_and_the_vectorised_simulator_agree_on_the_same_draws(plan):
    rng = np.random.default_rng(1)
    jobs, iterations = 6, 10
    rounds = jobs * iterations
    links = rng.uniform(0, 0.5, 4)
    pooled = len({task.row for task in plan.pooled})
    most = [parts(lane) if plan.pool is None else max(plan.counts) + pooled for lane in plan.lanes]
    times = [rng.exponential(1 + p, (1, rounds, tasks)) for p, tasks in enumerate(most)]
    sampler = RoundSampler(plan, [Scripted(drawn) for drawn in times], links)
    expected = sampler.draw(sampler.begin(1, rng), 1, rounds, rng)[0].times[0]
    arrivals = np.cumsum(rng.exponential(60.0, jobs))

    paces = scripted(lambda place, round, i: times[place][0, round - 1, i], links.tolist())
    log = run(plan, paces, arrivals, iterations)
    np.testing.assert_allclose(log.durations, expected, rtol=1e-11)

    free = 0.0
    for job in range(jobs):
        free = max(free, arrivals[job]) + expected[job * iterations : (job + 1) * iterations].sum()
        assert log.departures[job] == pytest.approx(free, rel=1e-12)


def happens(*incidents):
    return Faults(np.random.default_rng(1), incidents=incidents)


def test_a_crash_without_spare_rows_delays_the_round_by_what_the_others_must_do_again():
    faults = happens(Crash(time=0.5, place=1, notice=0.1, restart=100.0))
    assert run(any_k([1, 1], 2), every_second(2), [0.0], 1, faults=faults).departures == [2.0]


def test_a_silent_partition_is_overcome_by_the_timer():
    faults = happens(Partition(time=0.5, place=1, length=50.0, reported=False))
    log = run(any_k([1, 1], 2), every_second(2), [0.0], 1, faults=faults, patience_s=3.0)
    # the first message, at 1, comes within the patience that began at 0: it is silent from 3 to 6
    assert log.departures == [7.0]


def test_a_partition_that_is_reported_is_a_loss():
    faults = happens(Partition(time=0.5, place=1, length=50.0, reported=True))
    assert run(any_k([1, 1], 2), every_second(2), [0.0], 1, faults=faults).departures == [2.0]


def test_a_task_that_raises_fails_its_job_and_the_stream_goes_on():
    log, plan = Log(), coded(any_k([1], 1))
    faults = happens(Raise(time=0.5, place=0))
    with WatchedStream(every_second(1), faults=faults, observers=[log]) as stream:
        first = stream.submit(HollowJob(plan, iterations=3))
        stream.sleep(0.1)
        stream.submit(HollowJob(plan, iterations=2))
        with pytest.raises(JobFailed, match="raised on purpose"):
            first.result()
    assert log.ended == [(0, Outcome.FAILED, 0.5), (1, Outcome.DONE, 2.5)]


def killed(path, calls, jobs):
    """Run jobs of three iterations of a second on one worker whose master dies at 2.5, or some calls later.

    Returns what had ended and what rounds there were before it died, and the same of who goes on with the journal.
    """
    before, after, plan = Log(), Log(), coded(any_k([1], 1))
    faults = happens(MasterCrash(time=2.5, calls=calls))
    stream = WatchedStream(every_second(1), faults=faults, journal=path, observers=[before])
    for _ in range(jobs):
        stream.submit(HollowJob(plan, iterations=3))
    with pytest.raises(MasterKilled):
        stream.sleep(100.0)
    stream.close(wait=False)
    with WatchedStream(every_second(1), journal=path, observers=[after]) as stream:
        delivered = [delivery.number for delivery in stream]
    return before, after, delivered


def test_a_master_that_is_killed_between_any_two_calls_is_followed_by_one_that_does_the_rest(tmp_path):
    """No iteration that the journal has is done again, and both jobs are delivered, in order."""
    for calls in range(40):
        before, after, delivered = killed(tmp_path / f"{calls}.journal", calls, jobs=2)
        assert delivered == [1, 2]
        assert len(before.rounds) + len(after.rounds) == 6


def test_a_master_that_is_killed_at_once_leaves_one_iteration_of_three_to_the_next(tmp_path):
    before, after, _ = killed(tmp_path / "journal", 0, jobs=2)
    assert before.ended == []
    assert [(job, start) for job, _, start, _ in after.rounds] == [(1, 0.0), (2, 1.0), (2, 2.0), (2, 3.0)]


class Undecided(HollowJob):
    """A job that never says whether it goes on."""

    def advance(self, state, iteration, collected, decide):
        return None, None


def test_a_stream_that_waits_for_what_never_happens_says_so(monkeypatch):
    monkeypatch.setattr(VirtualCluster, "stuck_s", 0.0)
    stream = WatchedStream(every_second(1))
    handle = stream.submit(Undecided(coded(any_k([1], 1)), iterations=1))
    with pytest.raises(ClusterError, match="nothing more can happen after 1 virtual seconds"):
        handle.result()
    stream.close(wait=False)


def test_without_workers_nothing_can_happen(monkeypatch):
    monkeypatch.setattr(VirtualCluster, "stuck_s", 0.0)
    with pytest.raises(ClusterError, match="no worker is left or on its way"):
        VirtualCluster(paces=[]).poll(None)
