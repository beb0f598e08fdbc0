"""Rounds that end with a quorum of their slots: events in, list of actions out."""

import pytest

from echelon.endings import Quorum
from echelon.errors import ArgumentError
from echelon.master.actions import Assign, Recover, SetTimer, Starve
from echelon.master.events import Alarm, Joined, Lost, Received, Recovered
from echelon.plan import Plan, Slot
from tests.master.test_ending import END, TWO, got, plan, started, task, waited


def of_workers(ending, count=4):
    """Return a plan with a slot for each worker."""
    return Plan([Slot(rows=1, threshold=1)] * count, [[task(worker, 0)] for worker in range(count)], ending=ending)


def send(watcher, time, worker, slot=None):
    """Hand over the row of a slot, the worker's own by default, and the news that it is recovered; return the end."""
    slot = worker if slot is None else slot
    assert watcher.handle(Received(time, worker, 1, slot, 0)) == [Recover(1, slot, (0,))]
    return watcher.handle(Recovered(time, 1, slot))


def test_a_round_ends_with_its_quorum():
    watcher = started(of_workers(Quorum(share=0.75)))
    assert send(watcher, 1.0, 2) == []
    assert send(watcher, 2.0, 0) == []
    assert send(watcher, 5.0, 3) == [SetTimer(5.0, 1, 0)]
    assert watcher.handle(Alarm(5.0, 1, 0)) == END
    assert watcher.handle(Received(6.0, 1, 1, 1, 0)) == []


def test_what_comes_within_the_grace_of_a_quorum_counts():
    watcher = started(of_workers(Quorum(least=2, grace=0.5), count=5), start=10.0)
    assert send(watcher, 11.0, 0) == []
    assert send(watcher, 12.0, 1) == [SetTimer(waited(10.0, 2.5), 1, 0)]
    assert send(watcher, 12.4, 2) == []
    assert watcher.handle(Alarm(12.45, 1, 0)) == []
    assert watcher.handle(Alarm(waited(10.0, 2.5), 1, 0)) == END


def test_a_grace_may_be_in_proportion_to_the_time_of_the_quorum():
    watcher = started(of_workers(Quorum(share=0.5, grace=0.25, stretch=0.5)), start=10.0)
    send(watcher, 11.0, 0)
    assert send(watcher, 12.0, 3) == [SetTimer(waited(10.0, 2.0 + 0.25 + 1.0), 1, 0)]


def test_a_round_with_a_grace_ends_at_once_when_all_have_come():
    watcher = started(of_workers(Quorum(share=0.5, grace=100.0)))
    for worker, time in ((3, 1.0), (1, 2.0), (0, 3.0)):
        send(watcher, time, worker)
    assert send(watcher, 4.0, 2) == END


def test_what_a_worker_owed_is_given_out_again_only_if_the_quorum_needs_it():
    watcher = started(of_workers(Quorum(least=3)))
    assert send(watcher, 1.0, 0) == []
    assert watcher.handle(Lost(2.0, 1)) == []  # three are left
    assert watcher.handle(Lost(3.0, 2)) == [Assign(0, 1, (task(1, 0),))]
    assert send(watcher, 4.0, 3) == []
    assert send(watcher, 5.0, 0, slot=1) == END  # nobody works on slot 2


def test_a_worker_lost_within_the_grace_ends_a_round_that_waits_for_it_alone():
    watcher = started(of_workers(Quorum(least=3, grace=100.0)))
    for worker, time in ((0, 1.0), (1, 2.0), (2, 3.0)):
        send(watcher, time, worker)
    assert watcher.handle(Lost(4.0, 3)) == END


def test_with_nobody_left_the_next_to_join_makes_the_quorum():
    watcher = started(of_workers(Quorum(least=2), count=3))
    send(watcher, 1.0, 0)
    assert watcher.handle(Lost(2.0, 0)) == []
    assert watcher.handle(Lost(2.0, 1)) == []
    assert watcher.handle(Lost(2.0, 2)) == [Starve(0, 1)]
    assert watcher.handle(Joined(3.0, 7)) == [Assign(7, 1, (task(1, 0),)), SetTimer(13.0, 1, 0)]
    assert send(watcher, 4.0, 7, slot=1) == END


def test_silence_has_as_many_slots_given_out_again_as_the_quorum_lacks():
    watcher = started(of_workers(Quorum(least=3)))
    send(watcher, 1.0, 0)
    assert watcher.handle(Alarm(10.0, 1, 0)) == [SetTimer(20.0, 1, 0)]  # something came since
    assert watcher.handle(Alarm(20.0, 1, 0)) == [Assign(0, 1, (task(1, 0), task(2, 0))), SetTimer(40.0, 1, 1)]


def test_slots_of_a_quorum_may_have_codes_and_the_ones_that_lack_least_are_mended():
    lanes = (((0, 0), (0, 1)), ((0, 2), (0, 3), (1, 0)), ((1, 1),))
    for least, again in ((1, {(1, 2)}), (2, {(1, 2), (0, 4), (0, 5)})):
        watcher = started(plan(Quorum(least=least), lanes, thresholds=(4, 2)))
        got(watcher, 1.0, 0, (0, 0), (0, 1))
        given = [task for action in watcher.handle(Lost(2.0, 1)) for task in action.tasks]
        assert {(task.slot, task.row) for task in given} == again


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Quorum(share=1.5), "share: 1.5 is not allowed"),
        (lambda: Quorum(least=-1), "least: -1 is not allowed"),
        (lambda: Quorum(grace=-1.0), "grace: -1.0 is not allowed"),
        (lambda: Quorum(stretch=float("inf")), "stretch: inf is not allowed"),
        (lambda: of_workers(Quorum(least=5)), "ending: least: 5 is not allowed; must be at most 4"),
        (lambda: plan(Quorum(least=2), TWO), "slots: 1 with enough planned rows are not allowed; must be 2"),
    ],
)
def test_a_quorum_that_can_t_be_meant_is_refused(make, said):
    with pytest.raises(ArgumentError, match=said):
        make()
