"""Workers that a round has nothing more for begin the next job: events in, list of actions out."""

import numpy as np
import pytest

from bench.chaos.invariants import Watcher
from echelon.cause import Cause
from echelon.codes import cyclic, mds
from echelon.master.actions import Assign, Deliver, Outcome, Recover, Replan, SetTimer, Stop
from echelon.master.events import (
    Alarm,
    Cancelled,
    Failed,
    Joined,
    Lost,
    Planned,
    PlannedAhead,
    Received,
    Recovered,
    Refused,
    Submitted,
    Updated,
)
from echelon.master.machine import Master
from echelon.plan import AHEAD, Task
from echelon.schemes import any_k, coded_rows, pull

HEAD = any_k([1, 1, 2], 4)


def task(row, slot=0, cost=1.0):
    return Task(slot=slot, row=row, cost=cost)


def planned_ahead(plan=None, came=(), codes=()):
    return PlannedAhead(1, any_k([2, 1, 1], 4) if plan is None else plan, (0, 1, 2), codes, came)


def started(next_job=None, head=HEAD):
    """Return a watched master that collects round 1 of job 0 while job 1 waits, with the first actions."""
    watcher = Watcher(Master(patience=10.0))
    for worker in range(3):
        watcher.handle(Joined(0.0, worker))
    watcher.handle(Submitted(0.0, 0))
    watcher.handle(Submitted(0.0, 1))
    actions = watcher.handle(Planned(0.0, 1, head, (0, 1, 2), ahead=planned_ahead() if next_job is None else next_job))
    return watcher, actions


def test_who_has_nothing_more_to_do_gets_a_row_of_the_next_job():
    watcher, actions = started()
    assert [type(action) for action in actions] == [Assign, Assign, Assign, SetTimer]
    # its slots are numbered from AHEAD on; of workers alike, the own lane comes first
    assert watcher.handle(Received(1.0, 1, 1, 0, 1)) == [Assign(1, 1, (task(2, slot=AHEAD),))]
    assert watcher.handle(Received(1.0, 1, 1, AHEAD, 2)) == [Assign(1, 1, (task(1, slot=AHEAD),))], (
        "the lane with most left"
    )
    assert watcher.handle(Received(2.0, 2, 1, 0, 2)) == [], "it has a row of the round left"


def test_who_has_no_lane_begins_at_once():
    _, actions = started(head=any_k([1, 0, 1], 2))
    assert Assign(1, 1, (task(2, slot=AHEAD),)) in actions


def test_the_next_round_of_the_job_in_service_is_told_who_waits():
    watcher, _ = started()
    for worker, row in ((0, 0), (1, 1), (2, 2), (2, 3)):
        watcher.handle(Received(1.0, worker, 1, 0, row))
    watcher.handle(Recovered(1.0, 1, 0))
    assert watcher.handle(Updated(1.0, 1, False)) == [Replan(0, 2, (0, 1, 2), 1)]


def test_rows_that_came_need_not_come_again_when_the_turn_comes():
    watcher, _ = started()
    for worker, row in ((0, 0), (1, 1), (2, 2), (2, 3)):
        watcher.handle(Received(1.0, worker, 1, 0, row))
    watcher.handle(Recovered(1.0, 1, 0))
    watcher.handle(Updated(1.0, 1, True))
    actions = watcher.handle(Planned(1.0, 2, any_k([2, 1, 1], 4), (0, 1, 2), came=((0, 1), (0, 3))))
    assert actions[:-1] == [Assign(0, 2, (task(0),)), Assign(1, 2, (task(2),))]
    watcher.handle(Received(2.0, 0, 2, 0, 0))
    assert watcher.handle(Received(2.0, 1, 2, 0, 2)) == [Recover(2, 0, (1, 3, 0, 2))]


def test_a_round_of_which_all_came_is_recovered_at_once():
    watcher, _ = started()
    watcher.handle(Failed(1.0, 1, Cause("for the test")))
    actions = watcher.handle(Planned(1.0, 2, any_k([2, 1, 1], 2), (0, 1, 2), came=((0, 1), (0, 3))))
    assert actions == [SetTimer(11.0, 2, 0), Recover(2, 0, (1, 3))]
    # too noisy: then the rest is needed after all, and not one row after the other
    assert watcher.handle(Refused(1.0, 2, 0)) == [Assign(0, 2, (task(0),)), Assign(1, 2, (task(2),))]


def test_what_is_left_of_a_lane_costs_what_its_first_row_then_costs():
    code = cyclic(rows=6, load=3, rng=np.random.default_rng(1))
    plan = coded_rows(code, [3, 3, 0])
    watcher, _ = started()
    watcher.handle(Failed(1.0, 1, Cause("for the test")))
    actions = watcher.handle(Planned(1.0, 2, plan, (0, 1, 2), (code,), came=((0, 0),)))
    assert [[each.cost for each in action.tasks] for action in actions[:2]] == [[3.0, 1.0], [3.0, 1.0, 1.0]]


def test_lanes_whose_rows_share_parts_are_begun_whole_and_by_their_owners():
    code = cyclic(rows=6, load=3, rng=np.random.default_rng(1))
    watcher, _ = started(planned_ahead(coded_rows(code, [2, 2, 2]), codes=(code,)))
    assert watcher.handle(Received(1.0, 1, 1, 0, 1)) == [
        Assign(1, 1, (task(2, slot=AHEAD, cost=3.0), task(3, slot=AHEAD, cost=1.0)))
    ]
    watcher.handle(Received(2.0, 1, 1, AHEAD, 2))
    assert watcher.handle(Received(2.0, 1, 1, AHEAD, 3)) == [], "others do their own"


def test_a_pool_is_pulled_from_and_nothing_is_begun_that_is_enough_already():
    watcher, _ = started(
        planned_ahead(pull(workers=3, parts=5, code=mds(parts=4, rows=5, rng=np.random.default_rng(1))))
    )
    assert watcher.handle(Received(1.0, 1, 1, 0, 1)) == [Assign(1, 1, (task(1, slot=AHEAD),))]
    for row, following in ((1, 0), (0, 2), (2, 3)):
        assert watcher.handle(Received(1.0, 1, 1, AHEAD, row)) == [Assign(1, 1, (task(following, slot=AHEAD),))]
    assert watcher.handle(Received(1.0, 1, 1, AHEAD, 3)) == [], "four are enough"
    watcher, _ = started(planned_ahead(any_k([2, 1, 1], 2), came=((0, 0), (0, 3))))
    assert watcher.handle(Received(1.0, 1, 1, 0, 1)) == []


def test_a_round_that_needs_hands_gets_them():
    watcher, _ = started()
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    watcher.handle(Received(1.0, 1, 1, 0, 1))  # both are at the next job now
    actions = watcher.handle(Lost(2.0, 2))
    assert actions == [Stop(1, AHEAD), Assign(0, 1, (task(2),)), Assign(1, 1, (task(3),))]
    assert watcher.handle(Received(3.0, 0, 1, AHEAD, 0)) == [], "and a message of it changes nothing"
    assert watcher.master.ahead is None


def test_a_silent_round_ends_what_is_done_for_the_next_job():
    watcher, _ = started()
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    watcher.handle(Alarm(10.0, 1, 0))
    actions = watcher.handle(Alarm(20.0, 1, 0))
    assert actions[0] == Stop(1, AHEAD)
    assert watcher.master.ahead is None


def test_a_loss_that_the_round_can_do_without_leaves_the_others_at_it():
    watcher, _ = started(head=any_k([1, 1, 2], 2))
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    assert watcher.handle(Lost(1.0, 2)) == []
    assert watcher.master.ahead is not None


@pytest.mark.parametrize("at", [(1, AHEAD, 0), None], ids=["it is known where", "it is not known where"])
def test_a_job_that_kills_a_worker_before_its_turn_is_left_alone_until_then(at):
    watcher, _ = started(head=any_k([1, 1, 2], 3))
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    assert watcher.handle(Lost(1.0, 0, at)) == [Stop(1, AHEAD)]
    assert watcher.handle(Received(1.0, 1, 1, 0, 1)) == [], "nobody else is to die of it"
    watcher.handle(Received(1.0, 2, 1, 0, 2))
    watcher.handle(Recovered(1.0, 1, 0))
    assert watcher.handle(Updated(1.0, 1, False)) == [Replan(0, 2, (1, 2))]
    watcher.handle(Cancelled(1.0, 1))
    assert not watcher.master.barred


def test_a_job_that_is_cancelled_before_its_turn_is_dropped():
    watcher, _ = started()
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    assert watcher.handle(Cancelled(1.0, 1)) == [Stop(1, AHEAD), Deliver(1, Outcome.CANCELLED)]
    assert watcher.handle(Received(1.0, 1, 1, 0, 1)) == []


@pytest.mark.parametrize("slot", [1, AHEAD, AHEAD + 1])
def test_rows_that_nobody_knows_change_nothing(slot):
    watcher, _ = started()
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    assert watcher.handle(Received(1.0, 0, 1, slot, 17)) == []
