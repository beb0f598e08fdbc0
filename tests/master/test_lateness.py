"""Who is late by what the master has learnt: events in, actions out."""

from bench.chaos.invariants import Watcher
from echelon.master.actions import Assign, Deliver, Outcome, Purge, SetTimer
from echelon.master.events import Alarm, Joined, Lost, Planned, Received, Submitted
from echelon.master.machine import Master
from echelon.plan import Task
from echelon.schemes import any_k


def task(row):
    return Task(slot=0, row=row, cost=1.0)


def started(counts=(1, 1, 1), critical=3, silence=None, out=()):
    """Return a watched master that collects round 1 of job 0, and what it wanted at its start."""
    watcher = Watcher(Master(patience=None))
    for worker in range(len(counts)):
        watcher.handle(Joined(0.0, worker))
    watcher.handle(Submitted(0.0, 0))
    workers = tuple(worker if worker not in out else -1 - worker for worker in range(len(counts)))
    plan = any_k(list(counts), critical)
    return watcher, watcher.handle(Planned(0.0, 1, plan, workers, silence=silence, out=out))


def test_a_late_worker_s_rows_are_given_to_an_idle_one_after_one_and_a_half_task_times():
    watcher, actions = started(silence=2.0)
    assert actions[-1] == SetTimer(3.0, 1, 0)
    for worker in (0, 1):
        watcher.handle(Received(2.0, worker, 1, 0, worker))
    helped = watcher.handle(Alarm(3.0, 1, 0, {0: 2.0, 1: 2.0}, 2.0))
    assert helped == [Assign(0, 1, (task(2),)), SetTimer(6.0, 1, 1)]


def test_a_worker_that_speaks_is_not_late_however_long_its_lane_takes():
    watcher, _ = started(counts=(1, 3), critical=4, silence=1.0)
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    watcher.handle(Received(1.4, 1, 1, 0, 1))
    assert watcher.handle(Alarm(1.5, 1, 0, {0: 1.0, 1: 1.4}, 1.4)) == [SetTimer(1.4 + 1.5 * 1.4, 1, 0)]


def test_when_everybody_is_silent_nothing_is_given_out_until_messages_may_be_lost():
    watcher, _ = started(silence=2.0)
    assert watcher.handle(Alarm(3.0, 1, 0)) == [SetTimer(4.5, 1, 0)]
    assert watcher.handle(Alarm(4.5, 1, 0)) == [SetTimer(6.75, 1, 0)]
    again = watcher.handle(Alarm(30.0, 1, 0))
    assert sorted(task.row for action in again[:-1] for task in action.tasks) == [0, 1, 2]
    assert again[-1] == SetTimer(60.0, 1, 1)


def test_in_a_first_round_half_of_the_workers_show_what_it_takes():
    watcher, actions = started()
    assert actions[-1] == SetTimer(0.02, 1, 0)
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    (timer,) = watcher.handle(Alarm(1.2, 1, 0, {0: 1.0}, 1.0))  # one of three says little
    assert timer.at == 1.2 + 0.5 * 1.2
    watcher.handle(Received(1.3, 1, 1, 0, 1))
    assert watcher.handle(Alarm(2.0, 1, 0, {0: 1.0, 1: 1.3}, 1.0))[0] == Assign(0, 1, (task(2),))


def test_what_is_not_needed_is_not_given_out():
    watcher, _ = started(counts=(2, 2, 2), critical=4, silence=1.0)
    for worker, row in ((0, 0), (1, 2)):
        watcher.handle(Received(1.0, worker, 1, 0, row))
    actions = watcher.handle(Alarm(1.5, 1, 0, {0: 1.0, 1: 1.0}, 1.0))
    assert [type(action) for action in actions] == [SetTimer]


def test_a_worker_that_is_left_out_gets_nothing_and_its_lane_goes_to_others():
    watcher, actions = started(out=(1,))
    given = [(action.worker, task.row) for action in actions if isinstance(action, Assign) for task in action.tasks]
    assert given == [(0, 0), (2, 2), (0, 1)]
    assert watcher.handle(Lost(0.5, 2))[0] == Assign(0, 1, (task(2),))


def test_a_row_that_overruns_on_three_workers_fails_its_job_by_name():
    watcher, _ = started(counts=(1, 1, 1, 1), critical=4, silence=1.0)
    for worker in (0, 1):
        watcher.handle(Lost(60.0, worker, (1, 0, 3), overran=True))
    *_, purge, deliver = watcher.handle(Lost(60.0, 2, (1, 0, 3), overran=True))
    assert purge == Purge(1)
    assert isinstance(deliver, Deliver)
    assert deliver.outcome is Outcome.FAILED
    assert "row 3 of slot 0 took too long on 3 workers" in deliver.cause.what


def test_overruns_of_other_rows_and_rounds_fail_nothing():
    watcher, _ = started(counts=(1,) * 6, critical=6, silence=1.0)
    for worker, at in enumerate([(1, 0, 0), (1, 0, 1), (0, 0, 2), (0, 0, 2), (0, 0, 2)]):
        actions = watcher.handle(Lost(60.0, worker, at, overran=True))
        assert not any(isinstance(action, Deliver) for action in actions)
