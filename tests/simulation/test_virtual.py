"""The master in virtual time against the vectorised simulator, and under faults."""

import numpy as np
import pytest

from bench.chaos import run_schedule, run_schedules
from echelon.master import Master, Outcome
from echelon.master.invariants import BrokenPromise
from echelon.plan import Plan, Slot, Task
from echelon.schemes import any_k, pull
from echelon.simulation import NeverEnds, RoundSampler, VirtualCluster
from echelon.simulation.faults import Crash, Faults, MasterCrash, Partition, Raise
from tests.simulation.scripted import Scripted

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
    most = [len(lane) if plan.pool is None else max(plan.counts) + len(plan.pooled) for lane in plan.lanes]
    times = [rng.exponential(1 + p, (1, rounds, tasks)) for p, tasks in enumerate(most)]
    sampler = RoundSampler(plan, [Scripted(drawn) for drawn in times], links)
    expected = sampler.draw(sampler.begin(1, rng), 1, rounds, rng)[0].times[0]
    arrivals = np.cumsum(rng.exponential(60.0, jobs))

    asked = {}

    def next_time(place, number):
        at = asked.get((place, number), 0)
        asked[place, number] = at + 1
        return float(times[place][0, number - 1, at])

    result = VirtualCluster(lambda job, workers: plan, next_time, links.tolist()).run(arrivals, [iterations] * jobs)
    durations = np.array([end - start for _, _, start, end in result.rounds])
    np.testing.assert_allclose(durations, expected, rtol=1e-11)

    free = 0.0
    for job in range(jobs):
        free = max(free, arrivals[job]) + expected[job * iterations : (job + 1) * iterations].sum()
        assert result.ended[job].job == job
        assert result.ended[job].time == pytest.approx(free, rel=1e-12)


@pytest.mark.parametrize("block", range(20))
def test_a_thousand_schedules_with_faults_keep_every_promise(block):
    """20 000 schedules in all; a failure names its seed, and the command that replays it."""
    for seed in range(block * 1000, (block + 1) * 1000):
        try:
            run_schedule(seed)
        except Exception as error:
            raise AssertionError(f"replay by: python -m bench.chaos --seed {seed}") from error


@pytest.mark.parametrize(
    ("method", "broken"),
    [
        ("_mend", lambda self, collection: []),
        ("_alarm", lambda self, event: []),
        ("_joined", lambda self, event: self.workers.setdefault(event.worker) or []),
    ],
)
def test_a_broken_master_is_caught_within_a_few_schedules(monkeypatch, method, broken):
    monkeypatch.setattr(Master, method, broken)
    with pytest.raises((BrokenPromise, NeverEnds, KeyError)):
        run_schedules(0, 200)


def test_a_crash_without_spare_rows_delays_the_round_by_what_the_others_must_do_again():
    faults = Faults(np.random.default_rng(1), incidents=(Crash(time=0.5, place=1, notice=0.1, restart=100.0),))
    cluster = VirtualCluster(
        lambda job, workers: any_k([1, 1], 2), lambda place, number: 1.0, [0.0, 0.0], faults=faults
    )
    assert cluster.run([0.0], [1]).ended[0].time == 2.0


def test_a_silent_partition_is_overcome_by_the_timer():
    faults = Faults(np.random.default_rng(1), incidents=(Partition(time=0.5, place=1, length=50.0, reported=False),))
    cluster = VirtualCluster(
        lambda job, workers: any_k([1, 1], 2), lambda place, number: 1.0, [0.0, 0.0], faults=faults, patience=3.0
    )
    # the first message, at 1, comes within the patience that began at 0: it is silent from 3 to 6
    assert cluster.run([0.0], [1]).ended[0].time == 7.0


def test_a_task_that_raises_fails_its_job_and_the_stream_goes_on():
    faults = Faults(np.random.default_rng(1), incidents=(Raise(time=0.5, place=0),))
    cluster = VirtualCluster(lambda job, workers: any_k([1], 1), lambda place, number: 1.0, [0.0], faults=faults)
    result = cluster.run([0.0, 0.1], [3, 2])
    assert [(end.job, end.outcome, end.time) for end in result.ended] == [
        (0, Outcome.FAILED, 0.5),
        (1, Outcome.DONE, 2.5),
    ]


def one_worker(actions, jobs):
    """Jobs of three iterations of one second on one worker; the master dies at 2.5 or a few actions later."""
    faults = Faults(np.random.default_rng(1), incidents=(MasterCrash(time=2.5, actions=actions, down=1.0),))
    cluster = VirtualCluster(lambda job, workers: any_k([1], 1), lambda place, number: 1.0, [0.0], faults=faults)
    result = cluster.run([0.0] * jobs, [3] * jobs)
    assert result.crashes == 1
    return [(end.job, end.outcome, end.time) for end in result.ended], result.rounds


# what follows the third message, at 3: Recover, Purge, Update, Deliver; then the next job's Replan
@pytest.mark.parametrize(("actions", "left_at_3"), [(0, 1), (1, 1), (2, 1), (3, 0)])
def test_a_master_that_crashes_goes_on_with_the_iterations_that_are_left(actions, left_at_3):
    ended, rounds = one_worker(actions, jobs=2)
    first = 4.0 + left_at_3
    assert ended == [(0, Outcome.DONE, first), (1, Outcome.DONE, first + 3)]
    assert [(job, start) for job, _, start, _ in rounds][2] == (0, 4.0 if left_at_3 else 2.0)
    assert len(rounds) == 6


def test_a_job_that_was_delivered_before_the_crash_is_not_delivered_again():
    ended, rounds = one_worker(4, jobs=2)
    assert ended == [(0, Outcome.DONE, 3.0), (1, Outcome.DONE, 7.0)]
    assert len(rounds) == 6


def test_a_job_that_comes_while_the_master_is_dead_waits_for_the_next_one():
    faults = Faults(np.random.default_rng(1), incidents=(MasterCrash(time=0.0, actions=0, down=5.0),))
    cluster = VirtualCluster(lambda job, workers: any_k([1], 1), lambda place, number: 1.0, [0.0], faults=faults)
    assert [end.time for end in cluster.run([1.0, 2.0], [1, 1]).ended] == [7.0, 8.0]


def test_schedules_crash_the_master_and_a_journal_that_forgets_is_caught(monkeypatch):
    resume = VirtualCluster._resume

    def forgetful(self):
        self._entered.clear()
        resume(self)

    monkeypatch.setattr(VirtualCluster, "_resume", forgetful)
    with pytest.raises(NeverEnds):
        run_schedules(0, 200)


def test_a_run_without_workers_says_that_nothing_more_happens():
    cluster = VirtualCluster(lambda job, workers: any_k([1], 1), lambda place, number: 1.0, [])
    with pytest.raises(NeverEnds, match="nothing more happens"):
        cluster.run([0.0], [1])
