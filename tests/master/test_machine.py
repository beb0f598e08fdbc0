"""Events in, list of actions out."""

import numpy as np
import pytest

from bench.chaos.invariants import BrokenPromise, Watcher
from echelon.cause import Cause
from echelon.codes import fractional_repetition, mds
from echelon.errors import ArgumentError, IllegalEvent
from echelon.master.actions import Assign, Deliver, Outcome, Purge, Recover, Replan, SetTimer, Starve, Update
from echelon.master.events import (
    Alarm,
    Cancelled,
    Failed,
    Joined,
    Lost,
    Planned,
    Received,
    Recovered,
    Refused,
    Submitted,
    Updated,
)
from echelon.master.machine import Master, Phase
from echelon.plan import Plan, Slot, Task
from echelon.schemes import any_k, pull


def task(row, slot=0):
    return Task(slot=slot, row=row)


def started(counts=(2, 1), critical=2, workers=None):
    """Return a watched master that collects round 1 of job 0."""
    watcher = Watcher(Master(patience=10.0))
    numbers = tuple(range(len(counts))) if workers is None else workers
    for worker in numbers:
        watcher.handle(Joined(0.0, worker))
    watcher.handle(Submitted(0.0, 0))
    watcher.handle(Planned(0.0, 1, any_k(counts, critical), numbers))
    return watcher


def test_a_job_is_planned_assigned_recovered_purged_and_delivered():
    watcher = Watcher(Master(patience=10.0))
    assert watcher.handle(Joined(0.0, 5)) == []
    assert watcher.handle(Joined(0.0, 6)) == []
    assert watcher.handle(Submitted(1.0, 0)) == [Replan(0, 1, (5, 6))]
    assert watcher.handle(Planned(1.0, 1, any_k([2, 1], 2), (5, 6))) == [
        Assign(5, 1, (task(0), task(1))),
        Assign(6, 1, (task(2),)),
        SetTimer(11.0, 1, 0),
    ]
    assert watcher.handle(Received(2.0, 6, 1, 0, 2)) == []
    assert watcher.handle(Received(3.0, 5, 1, 0, 0)) == [Recover(1, 0, (2, 0))]
    assert watcher.handle(Recovered(3.0, 1, 0)) == [Purge(1), Update(0, 1)]
    assert watcher.handle(Updated(3.0, 1, False)) == [Replan(0, 2, (5, 6))]
    watcher.handle(Planned(3.0, 2, any_k([1, 1], 1), (5, 6)))
    assert watcher.handle(Received(4.0, 6, 2, 0, 1)) == [Recover(2, 0, (1,))]
    assert watcher.handle(Recovered(4.0, 2, 0)) == [Purge(2), Update(0, 2)]
    assert watcher.handle(Updated(4.0, 2, True)) == [Deliver(0, Outcome.DONE)]
    assert watcher.master.phase is Phase.IDLE


def test_the_next_job_opens_at_once_and_in_order():
    watcher = started()
    assert watcher.handle(Submitted(1.0, 1)) == []
    assert watcher.handle(Submitted(1.5, 2)) == []
    watcher.handle(Received(2.0, 0, 1, 0, 0))
    watcher.handle(Received(2.0, 0, 1, 0, 1))
    watcher.handle(Recovered(2.0, 1, 0))
    assert watcher.handle(Updated(2.0, 1, True)) == [Deliver(0, Outcome.DONE), Replan(1, 2, (0, 1), 2)]
    assert list(watcher.master.queue) == [2]


@pytest.mark.parametrize(
    "late",
    [
        Received(3.0, 0, 1, 0, 0),  # repeated
        Received(3.0, 0, 0, 0, 1),  # an earlier round
        Received(3.0, 0, 9, 0, 1),  # no such round
        Received(3.0, 0, 1, 0, 77),  # no such row
        Received(3.0, 0, 1, 4, 0),  # no such slot
        Received(3.0, 0, 1, 0, -1),
        Failed(3.0, 0, Cause("of an earlier round")),
        Alarm(3.0, 0, 0),
        Updated(3.0, 1, True),
        Lost(3.0, 99),
        Cancelled(3.0, 99),
    ],
    ids=repr,
)
def test_late_repeated_and_unknown_news_change_nothing(late):
    watcher = started()
    watcher.handle(Received(2.0, 0, 1, 0, 0))
    assert watcher.handle(late) == []
    assert watcher.handle(Received(4.0, 1, 1, 0, 2)) == [Recover(1, 0, (0, 2))]


def test_late_message_after_purge_is_ignored():
    watcher = started()
    for row in (0, 1):
        watcher.handle(Received(2.0, 0, 1, 0, row))
    watcher.handle(Recovered(2.0, 1, 0))
    assert watcher.handle(Received(2.5, 1, 1, 0, 2)) == []


def test_rows_of_a_lost_worker_are_left_alone_while_the_others_have_enough():
    watcher = started(counts=(2, 1), critical=2)
    assert watcher.handle(Lost(1.0, 1)) == []


def test_rows_of_a_lost_worker_are_given_to_the_least_busy_where_they_are_needed():
    watcher = started(counts=(2, 2, 1), critical=4)
    assert watcher.handle(Lost(1.0, 0)) == [Assign(2, 1, (task(0),))]


def test_with_one_worker_left_the_job_still_finishes():
    watcher = started(counts=(2, 2), critical=3)
    assert watcher.handle(Lost(1.0, 0)) == [Assign(1, 1, (task(0),))]
    for row in (2, 3):
        assert watcher.handle(Received(2.0, 1, 1, 0, row)) == []
    assert watcher.handle(Received(2.0, 1, 1, 0, 0)) == [Recover(1, 0, (2, 3, 0))]


def test_with_no_worker_left_it_says_so_and_waits_for_one_to_join():
    watcher = started(counts=(2, 1), critical=2)
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    assert watcher.handle(Lost(1.0, 0)) == []
    assert watcher.handle(Lost(2.0, 1)) == [Starve(0, 1)]
    assert watcher.handle(Joined(3.0, 2)) == [Assign(2, 1, (task(1),)), SetTimer(13.0, 1, 0)]


def test_a_job_that_finds_no_worker_waits_for_one():
    watcher = Watcher(Master(patience=10.0))
    assert watcher.handle(Submitted(0.0, 0)) == [Starve(0, 1)]
    assert watcher.handle(Joined(1.0, 3)) == [Replan(0, 1, (3,))]


def test_a_worker_that_joins_in_mid_round_is_planned_for_in_the_next():
    watcher = started()
    assert watcher.handle(Joined(1.0, 8)) == []
    for row in (0, 1):
        watcher.handle(Received(2.0, 0, 1, 0, row))
    watcher.handle(Recovered(2.0, 1, 0))
    assert watcher.handle(Updated(2.0, 1, False)) == [Replan(0, 2, (0, 1, 8))]


def test_a_worker_lost_while_the_plan_is_made_gets_nothing():
    watcher = Watcher(Master(patience=10.0))
    watcher.handle(Joined(0.0, 0))
    watcher.handle(Joined(0.0, 1))
    watcher.handle(Submitted(0.0, 0))
    watcher.handle(Lost(0.0, 1))
    actions = watcher.handle(Planned(0.0, 1, any_k([1, 1], 2), (0, 1)))
    assert actions == [Assign(0, 1, (task(0),)), Assign(0, 1, (task(1),)), SetTimer(10.0, 1, 0)]


def test_a_task_that_raises_fails_its_job_alone():
    watcher = started()
    watcher.handle(Submitted(0.0, 1))
    assert watcher.handle(Failed(1.0, 1, Cause("Traceback …"))) == [
        Purge(1),
        Deliver(0, Outcome.FAILED, Cause("Traceback …")),
        Replan(1, 2, (0, 1)),
    ]
    assert watcher.handle(Received(1.5, 0, 1, 0, 0)) == []


def test_a_row_that_takes_twenty_workers_with_it_fails_its_job():
    watcher = started(counts=(1,), critical=1)
    for number in range(1, 20):
        watcher.handle(Joined(0.0, number))
    for number in range(19):
        assert watcher.handle(Lost(1.0, number, (1, 0, 0))) == [Assign(number + 1, 1, (task(0),))]
    last = watcher.handle(Lost(1.0, 19, (1, 0, 0)))
    assert last[:1] == [Purge(1)]
    assert last[1].outcome is Outcome.FAILED
    assert "row 0 of slot 0 was the work of 20 workers" in last[1].cause.what


def test_workers_that_die_at_other_work_fail_nothing():
    watcher = started(counts=(1,), critical=1)
    for number in range(1, 60):
        watcher.handle(Joined(0.0, number))
        at = None if number % 2 else (0, 0, 0)
        assert watcher.handle(Lost(1.0, number - 1, at)) == [Assign(number, 1, (task(0),))]


def test_a_queued_job_is_cancelled_at_once_and_the_one_in_service_is_purged():
    watcher = started()
    for job in (1, 2):
        watcher.handle(Submitted(0.0, job))
    assert watcher.handle(Cancelled(1.0, 1)) == [Deliver(1, Outcome.CANCELLED)]
    assert watcher.handle(Cancelled(1.0, 0)) == [Purge(1), Deliver(0, Outcome.CANCELLED), Replan(2, 2, (0, 1))]


def test_a_refused_recovery_waits_for_one_more_row():
    watcher = started(counts=(2, 1), critical=2)
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    watcher.handle(Received(1.0, 0, 1, 0, 1))
    assert watcher.handle(Refused(1.0, 1, 0)) == []
    assert watcher.handle(Received(2.0, 1, 1, 0, 2)) == [Recover(1, 0, (0, 1, 2))]
    failed = watcher.handle(Refused(2.0, 1, 0))
    assert failed[1].outcome is Outcome.FAILED
    assert "noisy" in failed[1].cause.what


def test_a_row_that_is_needed_after_a_refusal_is_given_out_again_when_its_worker_is_lost():
    watcher = started(counts=(2, 1), critical=2)
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    watcher.handle(Received(1.0, 0, 1, 0, 1))
    watcher.handle(Refused(1.0, 1, 0))
    assert watcher.handle(Lost(1.0, 1)) == [Assign(0, 1, (task(2),))]


def test_a_silent_round_is_given_out_again_with_growing_patience():
    watcher = started(counts=(1, 1), critical=2)
    first = watcher.handle(Alarm(10.0, 1, 0))
    assert first == [Assign(1, 1, (task(0),)), Assign(0, 1, (task(1),)), SetTimer(30.0, 1, 1)]
    assert watcher.handle(Alarm(10.0, 1, 0)) == []
    watcher.handle(Received(11.0, 0, 1, 0, 0))
    assert watcher.handle(Alarm(30.0, 1, 1)) == [SetTimer(50.0, 1, 1)]
    again = watcher.handle(Alarm(50.0, 1, 1))
    assert [action.tasks for action in again[:-1]] == [(task(1),)]


def test_slots_are_recovered_one_by_one_and_the_round_ends_with_the_last():
    plan = Plan([Slot(rows=1, threshold=1)] * 2, [[task(0)], [task(0, slot=1)]])
    watcher = Watcher(Master(patience=1.0))
    for worker in (0, 1):
        watcher.handle(Joined(0.0, worker))
    watcher.handle(Submitted(0.0, 0))
    watcher.handle(Planned(0.0, 1, plan, (0, 1)))
    assert watcher.handle(Received(1.0, 1, 1, 1, 0)) == [Recover(1, 1, (0,))]
    assert watcher.handle(Recovered(1.0, 1, 1)) == []
    assert watcher.handle(Received(2.0, 0, 1, 0, 0)) == [Recover(1, 0, (0,))]
    assert watcher.handle(Recovered(2.0, 1, 0)) == [Purge(1), Update(0, 1)]


def test_a_code_whose_rows_are_not_alike_is_tracked_by_what_they_span():
    code = fractional_repetition(rows=4, load=2)
    watcher = Watcher(Master(patience=1.0))
    watcher.handle(Joined(0.0, 0))
    watcher.handle(Submitted(0.0, 0))
    watcher.handle(Planned(0.0, 1, any_k([4], code.threshold), (0,), (code,)))
    assert watcher.handle(Received(1.0, 0, 1, 0, 0)) == []
    assert watcher.handle(Received(1.0, 0, 1, 0, 2)) == [Recover(1, 0, (0, 2))]


def test_illegal_events_raise_and_change_nothing():
    watcher = started()
    with pytest.raises(IllegalEvent, match="job numbers must grow"):
        watcher.master.handle(Submitted(1.0, 0))
    with pytest.raises(IllegalEvent, match="needs a new number"):
        watcher.master.handle(Joined(1.0, 0))
    other = Watcher(Master(patience=1.0))
    other.handle(Joined(0.0, 0))
    other.handle(Submitted(0.0, 0))
    with pytest.raises(IllegalEvent, match="2 lanes for 1 workers"):
        other.master.handle(Planned(0.0, 1, any_k([1, 1], 1), (0,)))
    assert other.handle(Planned(0.0, 1, any_k([1], 1), (0,)))[0] == Assign(0, 1, (task(0),))
    with pytest.raises(ArgumentError, match="patience: 0 is not allowed"):
        Master(patience=0)


def test_a_master_that_forgets_lost_rows_is_caught():
    watcher = started(counts=(2, 2), critical=4)
    watcher.master._mend = lambda collection: []
    with pytest.raises(BrokenPromise, match="can't end"):
        watcher.handle(Lost(1.0, 0))


def test_nothing_of_a_round_is_kept_after_it():
    watcher = started(counts=(1,), critical=1)
    number = 1
    for number in range(1, 2000):
        watcher.handle(Received(1.0, 0, number, 0, 0))
        watcher.handle(Recovered(1.0, number, 0))
        assert watcher.master.collection is None
        watcher.handle(Updated(1.0, number, False))
        watcher.handle(Planned(1.0, number + 1, any_k([1], 1), (0,)))
    assert len(watcher.master.collection.received) == 0
    assert np.isclose(watcher.master.round, 2000)


# rows that are handed out on demand


def pulling(workers=2, **asked):
    """Return a watched master that collects round 1 of job 0, whose rows are pulled."""
    watcher = Watcher(Master(patience=10.0))
    for worker in range(workers):
        watcher.handle(Joined(0.0, worker))
    watcher.handle(Submitted(0.0, 0))
    return watcher, watcher.handle(Planned(0.0, 1, pull(workers=workers, **asked), tuple(range(workers))))


def test_who_is_done_gets_the_next_batch():
    watcher, actions = pulling(parts=4)
    assert actions[:-1] == [Assign(0, 1, (task(0),)), Assign(1, 1, (task(1),))]
    assert watcher.handle(Received(1.0, 1, 1, 0, 1)) == [Assign(1, 1, (task(2),))]
    assert watcher.handle(Received(2.0, 1, 1, 0, 2)) == [Assign(1, 1, (task(3),))]
    assert watcher.handle(Received(3.0, 1, 1, 0, 3)) == []
    assert watcher.handle(Received(4.0, 0, 1, 0, 0)) == [Recover(1, 0, (1, 2, 3, 0))]


def test_a_batch_may_be_sent_ahead():
    watcher, actions = pulling(workers=1, parts=4, ahead=1)
    assert actions[:-1] == [Assign(0, 1, (task(0),)), Assign(0, 1, (task(1),))]
    assert watcher.handle(Received(1.0, 0, 1, 0, 0)) == [Assign(0, 1, (task(2),))]


def test_idle_workers_repeat_the_oldest_row_that_has_not_come():
    watcher, _ = pulling(workers=3, parts=3, copies=2)
    assert watcher.handle(Received(1.0, 2, 1, 0, 2)) == [Assign(2, 1, (task(0),))]
    assert watcher.handle(Received(2.0, 2, 1, 0, 0)) == [Assign(2, 1, (task(1),))]
    # its row came from another one: its own message of it makes it free again
    assert watcher.handle(Received(3.0, 0, 1, 0, 0)) == []
    assert watcher.handle(Received(4.0, 2, 1, 0, 1)) == [Recover(1, 0, (2, 0, 1))]


def test_what_a_lost_worker_had_is_done_by_others_and_the_pool_goes_on():
    watcher, _ = pulling(parts=4)
    assert watcher.handle(Lost(1.0, 0, None)) == [Assign(1, 1, (task(0),))]
    assert watcher.handle(Received(2.0, 1, 1, 0, 1)) == []  # it has one more to send
    assert watcher.handle(Received(3.0, 1, 1, 0, 0)) == [Assign(1, 1, (task(2),))]


def test_a_copy_in_the_pool_is_taken_at_once_when_its_holder_is_lost():
    watcher, _ = pulling(parts=2, copies=2)
    assert watcher.handle(Received(1.0, 1, 1, 0, 1)) == [Assign(1, 1, (task(0),))]
    watcher, _ = pulling(workers=1, parts=1, copies=1)
    assert watcher.handle(Joined(1.0, 7)) == []
    assert watcher.handle(Lost(2.0, 0, None)) == [Assign(7, 1, (task(0),))]


def test_a_newcomer_takes_part_in_the_round():
    watcher, _ = pulling(parts=4)
    assert watcher.handle(Joined(1.0, 5)) == [Assign(5, 1, (task(2),))]


def test_a_noisy_recovery_is_followed_by_more_rows():
    code = mds(parts=2, rows=4, rng=np.random.default_rng(1))
    watcher, _ = pulling(parts=4, code=code)
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    assert watcher.handle(Received(2.0, 1, 1, 0, 1)) == [Recover(1, 0, (0, 1))]
    assert watcher.handle(Refused(2.0, 1, 0)) == [Assign(1, 1, (task(3),))]


def test_an_alarm_gives_out_what_is_on_its_way_and_leaves_the_pool_as_it_is():
    watcher, _ = pulling(parts=8)
    actions = watcher.handle(Alarm(10.0, 1, 0))
    given = [task for action in actions if isinstance(action, Assign) for task in action.tasks]
    assert sorted(task.row for task in given) == [0, 1]
    assert len(watcher.master.collection.pool) == 6


def test_the_last_worker_s_loss_is_told_even_if_the_pool_has_copies():
    watcher, _ = pulling(parts=8, copies=2)
    watcher.handle(Lost(1.0, 0, None))
    assert watcher.handle(Lost(2.0, 1, None)) == [Starve(0, 1)]


def test_a_message_of_an_unknown_row_gets_its_sender_nothing():
    watcher, _ = pulling(parts=4)
    assert watcher.handle(Received(1.0, 0, 1, 0, 99)) == []
    assert watcher.handle(Received(2.0, 0, 1, 0, 0)) == [Assign(0, 1, (task(2),))]
