"""Rows that were chosen and died with their workers: the iteration is done again, in another round."""

import pytest

from bench.chaos.invariants import Watcher
from echelon.cause import Cause
from echelon.master.actions import Assign, Deliver, Outcome, Purge, Recover, Replan, SetTimer, Starve, Update
from echelon.master.events import (
    Cancelled,
    Failed,
    Joined,
    Lost,
    Planned,
    Received,
    Recovered,
    Rejected,
    Submitted,
    Unread,
    Updated,
)
from echelon.master.machine import Master, Phase
from echelon.schemes import any_k
from tests.master.test_machine import started, task


def updating():
    """Return a watched master that waits for the step of job 0, after round 1."""
    watcher = started(counts=(1, 1, 1), critical=2)
    for worker in (0, 1):
        watcher.handle(Received(1.0, worker, 1, 0, worker))
    assert watcher.handle(Recovered(1.0, 1, 0)) == [Purge(1), Update(0, 1)]
    return watcher


def test_an_unread_round_is_followed_by_another_of_the_same_job():
    watcher = updating()
    assert watcher.handle(Unread(2.0, 1)) == [Replan(0, 2, (0, 1, 2))]
    assert watcher.master.phase is Phase.PLANNING
    assert watcher.handle(Updated(2.0, 1, True)) == []  # of the round that was given up


def test_rows_that_can_still_be_read_need_not_come_again():
    watcher = updating()
    watcher.handle(Lost(1.5, 1))
    assert watcher.handle(Unread(2.0, 1)) == [Replan(0, 2, (0, 2))]
    plan = any_k([1, 1, 1], 2)
    assert watcher.handle(Planned(2.0, 2, plan, (0, -1, 2), came=((0, 0),))) == [
        Assign(2, 2, (task(2),)),
        SetTimer(12.0, 2, 0),
    ]
    assert watcher.handle(Received(3.0, 2, 2, 0, 2)) == [Recover(2, 0, (0, 2))]
    assert watcher.handle(Recovered(3.0, 2, 0)) == [Purge(2), Update(0, 2)]
    assert watcher.handle(Updated(3.0, 2, True)) == [Deliver(0, Outcome.DONE)]


def test_a_round_may_be_unread_time_after_time():
    watcher = updating()
    for round in (2, 3, 4):
        assert watcher.handle(Unread(2.0, round - 1)) == [Replan(0, round, (0, 1, 2))]
        watcher.handle(Planned(2.0, round, any_k([1, 1, 1], 2), (0, 1, 2)))
        for worker in (0, 2):
            watcher.handle(Received(3.0, worker, round, 0, worker))
        assert watcher.handle(Recovered(3.0, round, 0)) == [Purge(round), Update(0, round)]
    assert watcher.handle(Updated(3.0, 4, True)) == [Deliver(0, Outcome.DONE)]


def test_with_no_worker_left_the_next_round_waits_for_one():
    watcher = updating()
    for worker in (0, 1, 2):
        watcher.handle(Lost(1.5, worker))
    assert watcher.handle(Unread(2.0, 1)) == [Starve(0, 2)]
    assert watcher.handle(Joined(3.0, 7)) == [Replan(0, 2, (7,))]


@pytest.mark.parametrize("round", [0, 2, 9])
def test_news_of_another_round_changes_nothing(round):
    watcher = updating()
    assert watcher.handle(Unread(2.0, round)) == []
    assert watcher.handle(Updated(2.0, 1, False)) == [Replan(0, 2, (0, 1, 2))]


def test_it_is_ignored_in_every_phase_but_that_of_the_step():
    watcher = Watcher(Master(patience=10.0))
    assert watcher.handle(Unread(0.0, 0)) == []  # idle
    watcher.handle(Joined(0.0, 0))
    watcher.handle(Submitted(0.0, 0))
    assert watcher.handle(Unread(0.0, 1)) == []  # planning
    watcher.handle(Planned(0.0, 1, any_k([2], 2), (0,)))
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    assert watcher.handle(Unread(1.0, 1)) == []  # collecting
    assert watcher.handle(Received(2.0, 0, 1, 0, 1)) == [Recover(1, 0, (0, 1))]


@pytest.mark.parametrize(
    ("event", "outcome"),
    [(Cancelled(2.0, 0), Outcome.CANCELLED), (Failed(2.0, 1, Cause("its own code")), Outcome.FAILED)],
)
def test_a_job_that_ends_while_its_rows_are_added_up_is_not_done_again(event, outcome):
    watcher = updating()
    (delivered,) = watcher.handle(event)
    assert (delivered.job, delivered.outcome) == (0, outcome)
    assert watcher.handle(Unread(3.0, 1)) == []
    assert watcher.master.phase is Phase.IDLE


def test_a_row_lost_while_the_round_is_open_is_given_to_another_worker():
    watcher = started(counts=(1, 1), critical=2)
    watcher.handle(Received(1.0, 1, 1, 0, 1))
    assert watcher.handle(Rejected(1.5, 1, 0, ((1, 1),))) == [Assign(0, 1, (task(1),))]
    assert watcher.handle(Lost(1.5, 1)) == []
    watcher.handle(Received(2.0, 0, 1, 0, 0))
    assert watcher.handle(Received(3.0, 0, 1, 0, 1)) == [Recover(1, 0, (0, 1))]
