"""Rounds that end by a rule of their own: events in, list of actions out."""

import pytest

from bench.chaos.invariants import Watcher
from echelon.endings import TIES, Due, Fastest
from echelon.errors import ArgumentError
from echelon.master.actions import Assign, Deliver, Outcome, Purge, Recover, Replan, SetTimer, Starve, Update
from echelon.master.events import Alarm, Joined, Lost, Planned, Received, Recovered, Refused, Submitted, Updated
from echelon.master.machine import Master
from echelon.plan import Plan, Slot, Task
from echelon.schemes import Window, diagonal_interleaved

END = [Purge(1), Update(0, 1)]


def waited(start, time):
    """Return the end of a wait: what comes at its very moment counts."""
    return start + time * (1 + TIES)


def task(slot, row, cost=1.0):
    return Task(slot=slot, row=row, cost=cost)


def plan(ending, lanes, thresholds=(3, 2), rows=9, known=()):
    slots = [Slot(rows=rows, threshold=threshold, known=known) for threshold in thresholds]
    return Plan(slots, [[task(slot, row) for slot, row in lane] for lane in lanes], ending=ending)


def started(made, *, start=0.0):
    """Return a watched master that collects round 1 of job 0 by this plan, one worker a lane."""
    watcher = Watcher(Master(patience=10.0))
    numbers = tuple(range(len(made.lanes)))
    for worker in numbers:
        watcher.handle(Joined(0.0, worker))
    watcher.handle(Submitted(0.0, 0))
    watcher.handle(Planned(start, 1, made, numbers))
    return watcher


# two products, the newer first; two workers have one task of each
TWO = (((0, 0), (1, 0)), ((0, 1), (1, 1)))


def got(watcher, time, worker, *rows):
    """Hand over messages of a worker; return what the last of them led to."""
    actions = []
    for slot, row in rows:
        actions = watcher.handle(Received(time, worker, 1, slot, row))
    return actions


def test_without_anything_due_a_round_ends_when_the_first_lane_is_done():
    watcher = started(plan(Due(), TWO))
    assert got(watcher, 1.0, 0, (0, 0)) == []
    assert got(watcher, 2.0, 0, (1, 0)) == [SetTimer(2.0, 1, 0)]
    assert watcher.handle(Alarm(2.0, 1, 0)) == END


def test_what_comes_at_the_same_moment_counts_too():
    """The clock ends the round, after all messages of that moment; here they recover a slot that is not due."""
    watcher = started(plan(Due(), TWO))
    got(watcher, 2.0, 0, *TWO[0])
    assert got(watcher, 2.0, 1, (0, 1)) == []
    assert got(watcher, 2.0, 1, (1, 1)) == [Recover(1, 1, (0, 1))]
    assert watcher.handle(Recovered(2.0, 1, 1)) == END  # nothing is left to wait for
    assert watcher.handle(Alarm(2.0, 1, 0)) == []


def test_a_round_waits_for_a_slot_that_is_due_however_long_ago_a_lane_was_done():
    watcher = started(plan(Due(due=(1,)), TWO))
    assert got(watcher, 1.0, 0, *TWO[0]) == []
    assert got(watcher, 6.0, 1, (0, 1)) == []
    assert got(watcher, 7.0, 1, (1, 1)) == [Recover(1, 1, (0, 1))]
    assert watcher.handle(Recovered(7.0, 1, 1)) == END


def test_a_due_slot_that_is_there_ends_the_round_by_the_clock_while_others_work():
    lanes = (((0, 0), (1, 0), (1, 1)), ((0, 1), (1, 2), (1, 3)))
    watcher = started(plan(Due(due=(1,)), lanes))
    assert got(watcher, 3.0, 0, (0, 0), (1, 0)) == []
    assert got(watcher, 3.0, 0, (1, 1)) == [Recover(1, 1, (0, 1))]
    assert watcher.handle(Recovered(3.0, 1, 1)) == [SetTimer(3.0, 1, 0)]
    assert watcher.handle(Alarm(3.0, 1, 0)) == END


def test_a_lane_is_done_when_what_it_lacks_belongs_to_a_slot_that_is_recovered():
    """Worker 0 lacks a row of slot 1, which worker 1 recovers: the lane of worker 0 is done with it."""
    lanes = (((0, 0), (1, 0)), ((1, 1), (1, 2), (0, 1)))
    watcher = started(plan(Due(), lanes))
    got(watcher, 1.0, 0, (0, 0))
    assert got(watcher, 2.0, 1, (1, 1), (1, 2)) == [Recover(1, 1, (1, 2))]
    assert watcher.handle(Recovered(2.0, 1, 1)) == [SetTimer(2.0, 1, 0)]


def test_at_most_so_many_lanes_of_a_set_may_be_left_undone():
    lanes = tuple(((0, worker),) for worker in range(4))
    watcher = started(plan(Due(limits=(((0, 1, 2), 1), ((3,), 0))), lanes, thresholds=(9,)))
    assert got(watcher, 1.0, 0, (0, 0)) == []
    assert got(watcher, 2.0, 1, (0, 1)) == []  # worker 2 may be left, worker 3 may not
    assert got(watcher, 9.0, 3, (0, 3)) == [SetTimer(9.0, 1, 0)]
    assert watcher.handle(Alarm(9.0, 1, 0)) == END


def test_the_others_are_waited_for_until_1_plus_mu_times_what_the_first_lane_took():
    watcher = started(plan(Due(tolerance=0.25), TWO), start=100.0)
    assert got(watcher, 104.0, 0, *TWO[0]) == [SetTimer(waited(100.0, 5.0), 1, 0)]
    assert got(watcher, 104.5, 1, (0, 1)) == []
    assert watcher.handle(Alarm(waited(100.0, 5.0), 1, 0)) == END
    assert got(watcher, 105.5, 1, (1, 1)) == []


def test_the_wait_ends_early_when_all_lanes_are_done():
    watcher = started(plan(Due(tolerance=5.0), TWO, thresholds=(9, 9)))
    assert got(watcher, 1.0, 0, *TWO[0]) == [SetTimer(waited(0.0, 6.0), 1, 0)]
    assert got(watcher, 2.0, 1, (0, 1)) == []
    assert got(watcher, 2.0, 1, (1, 1)) == END


def test_a_due_slot_that_comes_after_the_wait_ends_the_round_at_once():
    """The wait was over at 1.25: the clock is set for now, and not for the past."""
    lanes = (((0, 0), (1, 0)), ((0, 1), (1, 1)), ((0, 2), (1, 2)))
    watcher = started(plan(Due(due=(1,), tolerance=0.25), lanes))
    assert got(watcher, 1.0, 0, *lanes[0]) == []
    got(watcher, 4.0, 1, (0, 1))
    assert got(watcher, 5.0, 1, (1, 1)) == [Recover(1, 1, (0, 1))]
    assert watcher.handle(Recovered(5.0, 1, 1)) == [SetTimer(5.0, 1, 0)]
    assert watcher.handle(Alarm(5.0, 1, 0)) == END


def test_a_lost_worker_ends_a_round_that_only_waits_for_it():
    watcher = started(plan(Due(tolerance=9.0), TWO))
    got(watcher, 1.0, 0, *TWO[0])
    assert watcher.handle(Lost(2.0, 1)) == END


def test_a_lost_worker_is_not_mourned_where_nothing_of_it_is_due():
    watcher = started(plan(Due(), TWO))
    assert watcher.handle(Lost(0.5, 1)) == []
    assert got(watcher, 1.0, 0, (0, 0)) == []
    assert got(watcher, 2.0, 0, (1, 0)) == END  # nobody else is at work


def test_what_a_lost_worker_owes_a_due_slot_is_given_to_others():
    """A row that nobody was given yet is tried before those of the lost worker."""
    watcher = started(plan(Due(due=(1,)), TWO))
    assert watcher.handle(Lost(0.5, 1)) == [Assign(0, 1, (task(1, 2),))]
    got(watcher, 1.0, 0, (0, 0), (1, 0))
    assert got(watcher, 2.0, 0, (1, 2)) == [Recover(1, 1, (0, 2))]


def test_rows_that_came_in_rounds_before_are_not_asked_for_again():
    """They would be counted, and tell nothing new."""
    watcher = started(plan(Due(due=(1,)), TWO, known=(2, 3, 5)))
    assert watcher.handle(Lost(0.5, 1)) == [Assign(0, 1, (task(1, 4),))]


def test_a_lost_worker_of_a_chain_is_replaced_by_rows_that_are_new_to_the_product():
    window = Window(diagonal_interleaved(2, x=1, y=5, delay=1, spread=2))
    window.open(0)
    window.close([(0, 0)], [])
    watcher = started(window.open(1))
    ((worker, number, tasks),) = [
        (action.worker, action.round, action.tasks) for action in watcher.handle(Lost(1.0, 0))
    ]  # fmt: skip
    assert (worker, number) == (1, 1)
    assert all(task.slot == 1 and task.row != 0 for task in tasks)


def test_the_lane_of_a_lost_worker_that_may_not_straggle_is_given_to_others():
    lanes = tuple(((0, worker), (1, worker)) for worker in range(3))
    watcher = started(plan(Due(limits=(((0, 1, 2), 1),)), lanes, thresholds=(9, 9)))
    assert watcher.handle(Lost(1.0, 0)) == []  # one may be left undone
    assert watcher.handle(Lost(1.0, 1)) == [Assign(2, 1, (task(0, 0), task(1, 0)))]
    got(watcher, 2.0, 2, *lanes[2])
    assert got(watcher, 3.0, 2, (0, 0)) == []
    assert got(watcher, 3.0, 2, (1, 0)) == END


def test_with_nobody_left_a_round_ends_that_has_all_it_must_have():
    watcher = started(plan(Due(), TWO))
    assert watcher.handle(Lost(1.0, 0)) == []
    assert watcher.handle(Lost(2.0, 1)) == END
    assert watcher.handle(Updated(2.0, 1, False)) == [Starve(0, 2)]
    assert watcher.handle(Joined(3.0, 7)) == [Replan(0, 2, (7,))]


def test_with_nobody_left_and_a_slot_due_the_next_to_join_does_it():
    watcher = started(plan(Due(due=(1,)), TWO))
    got(watcher, 0.5, 0, (0, 0), (1, 0))
    assert watcher.handle(Lost(1.0, 1)) == [Assign(0, 1, (task(1, 2),))]
    assert watcher.handle(Lost(2.0, 0)) == [Starve(0, 1)]
    assert watcher.handle(Alarm(10.0, 1, 0)) == []
    assert watcher.handle(Joined(11.0, 7)) == [Assign(7, 1, (task(1, 3),)), SetTimer(21.0, 1, 0)]
    assert got(watcher, 12.0, 7, (1, 3)) == [Recover(1, 1, (0, 3))]
    assert watcher.handle(Recovered(12.0, 1, 1)) == END


def test_workers_lost_while_the_plan_was_made_do_not_stall_a_round_without_due_slots():
    """Nobody holds a lane: the next to join gets one, so that the round can end."""
    watcher = Watcher(Master(patience=10.0))
    watcher.handle(Joined(0.0, 0))
    watcher.handle(Submitted(0.0, 0))
    watcher.handle(Lost(0.0, 0))
    assert watcher.handle(Planned(0.0, 1, plan(Due(), TWO), (0, -2))) == [Starve(0, 1), SetTimer(10.0, 1, 0)]
    assert watcher.handle(Joined(1.0, 5)) == [Assign(5, 1, (task(0, 0), task(1, 0))), SetTimer(11.0, 1, 0)]
    got(watcher, 2.0, 5, (0, 0))
    assert got(watcher, 3.0, 5, (1, 0)) == END


def test_places_without_a_worker_leave_their_lanes_to_others_where_need_be():
    made = plan(Due(due=(1,)), TWO)
    watcher = Watcher(Master(patience=10.0))
    watcher.handle(Joined(0.0, 3))
    watcher.handle(Submitted(0.0, 0))
    assert watcher.handle(Planned(0.0, 1, made, (-1, 3))) == [
        Assign(3, 1, (task(0, 1), task(1, 1))),
        Assign(3, 1, (task(1, 0),)),
        SetTimer(10.0, 1, 0),
    ]


def test_a_due_slot_that_is_refused_as_too_noisy_gets_one_more_row():
    watcher = started(plan(Due(due=(1,)), TWO))
    got(watcher, 1.0, 0, *TWO[0])
    got(watcher, 1.0, 1, (0, 1))
    assert got(watcher, 2.0, 1, (1, 1)) == [Recover(1, 1, (0, 1))]
    assert watcher.handle(Refused(2.0, 1, 1)) == [Assign(0, 1, (task(1, 2),))]
    assert got(watcher, 3.0, 0, (1, 2)) == [Recover(1, 1, (0, 1, 2))]
    assert watcher.handle(Recovered(3.0, 1, 1)) == END


def test_a_refused_due_slot_waits_for_a_row_that_is_on_its_way():
    lanes = (*TWO, ((0, 2), (1, 2)))
    watcher = started(plan(Due(due=(1,)), lanes, thresholds=(9, 2)))
    got(watcher, 1.0, 0, *lanes[0])
    got(watcher, 1.0, 1, *lanes[1])
    assert watcher.handle(Refused(1.0, 1, 1)) == []
    got(watcher, 2.0, 2, (0, 2))
    assert got(watcher, 2.0, 2, (1, 2)) == [Recover(1, 1, (0, 1, 2))]


def test_a_due_slot_with_no_row_left_to_try_fails_the_job():
    watcher = started(plan(Due(due=(1,)), TWO, rows=3, known=(2,)))
    got(watcher, 1.0, 0, *TWO[0])
    got(watcher, 1.0, 1, *TWO[1])
    purge, deliver = watcher.handle(Refused(1.0, 1, 1))
    assert purge == Purge(1)
    assert isinstance(deliver, Deliver)
    assert deliver.outcome is Outcome.FAILED
    assert "all rows arrived" in deliver.cause.what


def test_a_refused_slot_that_is_not_due_goes_on_in_the_next_round():
    """It asks for nothing, and the round ends as it would have."""
    lanes = (*TWO, ((0, 2), (1, 2)))
    watcher = started(plan(Due(), lanes, thresholds=(9, 2)))
    got(watcher, 1.0, 0, (0, 0))
    got(watcher, 1.0, 1, (0, 1), (1, 1))
    assert watcher.master.ripe == 1.0
    assert got(watcher, 1.0, 0, (1, 0)) == [Recover(1, 1, (1, 0))]
    assert watcher.handle(Refused(1.0, 1, 1)) == []
    assert watcher.handle(Alarm(1.0, 1, 0)) == END


def test_a_refused_slot_that_is_not_due_lets_the_last_lane_end_the_round():
    watcher = started(plan(Due(tolerance=9.0), TWO))
    got(watcher, 1.0, 0, *TWO[0])
    got(watcher, 1.0, 1, (0, 1))
    assert got(watcher, 2.0, 1, (1, 1)) == [Recover(1, 1, (0, 1))]
    assert watcher.handle(Refused(2.0, 1, 1)) == END


def test_silence_has_a_due_slot_given_out_again_and_a_lane_where_none_was_done():
    watcher = started(plan(Due(due=(1,)), TWO))
    got(watcher, 1.0, 0, *TWO[0])
    assert watcher.handle(Alarm(10.0, 1, 0)) == [SetTimer(20.0, 1, 0)]  # something came since
    assert watcher.handle(Alarm(20.0, 1, 0)) == [Assign(0, 1, (task(1, 2),)), SetTimer(40.0, 1, 1)]
    watcher = started(plan(Due(), TWO))
    assert watcher.handle(Alarm(10.0, 1, 0)) == [Assign(1, 1, (task(0, 0), task(1, 0))), SetTimer(30.0, 1, 1)]


def test_a_timer_that_was_set_before_does_not_cut_the_wait_short():
    """Patience is over at 10, between the first lane and 1.25 times what it took."""
    watcher = started(plan(Due(tolerance=0.25), TWO))
    assert got(watcher, 9.0, 0, *TWO[0]) == [SetTimer(waited(0.0, 11.25), 1, 0)]
    assert watcher.handle(Alarm(10.0, 1, 0)) == []
    assert watcher.handle(Alarm(waited(0.0, 11.25), 1, 0)) == END


def test_late_and_repeated_messages_change_nothing():
    watcher = started(plan(Due(), TWO))
    got(watcher, 1.0, 0, (0, 0))
    assert got(watcher, 2.0, 0, (0, 0)) == []
    assert watcher.handle(Received(2.0, 0, 0, 1, 0)) == []
    assert watcher.handle(Received(2.0, 0, 1, 7, 0)) == []
    assert got(watcher, 3.0, 0, (1, 0)) == [SetTimer(3.0, 1, 0)]
    watcher.handle(Alarm(3.0, 1, 0))
    assert got(watcher, 4.0, 1, (1, 1)) == []


# the paper's rule: the fastest worker returns all its rows first


def test_the_fastest_worker_returns_all_its_rows_though_some_are_needed_no_more():
    """Worker 0 lacks a row of slot 1, which is recovered: by `Due` the round would end at 3."""
    lanes = (((0, 0), (1, 0), (1, 1)), ((0, 1), (1, 2), (1, 3)))
    for ending, actions in ((Due(due=(1,)), END), (Fastest(due=(1,)), [])):
        watcher = started(plan(ending, lanes))
        got(watcher, 3.0, 0, (0, 0), (1, 0))
        got(watcher, 3.0, 1, (0, 1))
        assert got(watcher, 3.0, 1, (1, 2)) == [Recover(1, 1, (0, 2))]
        assert watcher.handle(Recovered(3.0, 1, 1)) == actions
    assert got(watcher, 4.0, 1, (1, 3)) == [SetTimer(4.0, 1, 0)]
    assert watcher.handle(Alarm(4.0, 1, 0)) == END


def test_a_round_lasts_1_plus_mu_times_the_fastest_though_everybody_is_done():
    """Section 2.1: "each round will thus have a duration of at least (1 + mu) tau"."""
    watcher = started(plan(Fastest(tolerance=0.25), TWO, thresholds=(9, 9)))
    assert got(watcher, 4.0, 0, *TWO[0]) == [SetTimer(waited(0.0, 5.0), 1, 0)]
    assert got(watcher, 4.5, 1, *TWO[1]) == []
    assert watcher.handle(Alarm(waited(0.0, 5.0), 1, 0)) == END


def test_workers_are_not_stopped_while_their_rows_are_waited_for():
    """One slot, recovered by the first two of four rows."""
    lanes = (((0, 0), (0, 1)), ((0, 2), (0, 3)))
    for ending, actions in ((Due(due=(0,)), END), (Fastest(due=(0,)), [])):
        watcher = started(plan(ending, lanes, thresholds=(2,)))
        got(watcher, 1.0, 0, (0, 0))
        assert got(watcher, 1.0, 1, (0, 2)) == [Recover(1, 0, (0, 2))]
        assert watcher.handle(Recovered(1.0, 1, 0)) == actions
    assert got(watcher, 2.0, 0, (0, 1)) == [SetTimer(2.0, 1, 0)]


def test_rows_of_a_recovered_slot_are_not_given_out_again_and_the_round_ends_without():
    lanes = (((0, 0), (0, 1)), ((0, 2), (0, 3)))
    watcher = started(plan(Fastest(due=(0,)), lanes, thresholds=(2,)))
    got(watcher, 1.0, 0, (0, 0))
    got(watcher, 1.0, 1, (0, 2))
    assert watcher.handle(Recovered(1.0, 1, 0)) == []
    assert watcher.handle(Lost(1.5, 0)) == []
    assert watcher.handle(Lost(1.6, 1)) == END


def test_silence_ends_a_round_that_can_do_without_what_is_lost():
    """Both messages that a lane still lacks are lost on their way; nothing is left to give out again."""
    lanes = (((0, 0), (0, 1)), ((0, 2), (0, 3)))
    watcher = started(plan(Fastest(due=(0,)), lanes, thresholds=(2,)))
    got(watcher, 1.0, 0, (0, 0))
    got(watcher, 1.0, 1, (0, 2))
    watcher.handle(Recovered(1.0, 1, 0))
    assert watcher.handle(Alarm(10.0, 1, 0)) == [SetTimer(20.0, 1, 0)]  # something came since
    assert watcher.handle(Alarm(20.0, 1, 0)) == END


def test_who_straggled_is_told_by_what_is_needed_by_both_rules():
    """Worker 1 lacks a row of slot 1 only, which is recovered: it is done, as far as a limit of none undone goes."""
    lanes = (((0, 0), (1, 0), (1, 2)), ((0, 1), (1, 1)))
    for ending in (Due(limits=(((0, 1), 0),)), Fastest(limits=(((0, 1), 0),))):
        watcher = started(plan(ending, lanes, thresholds=(9, 2)))
        got(watcher, 1.0, 1, (0, 1))
        got(watcher, 2.0, 0, (0, 0), (1, 0))
        assert got(watcher, 3.0, 0, (1, 2)) == [Recover(1, 1, (0, 2))]
        ends = END if isinstance(ending, Due) else [SetTimer(3.0, 1, 0)]
        assert watcher.handle(Recovered(3.0, 1, 1)) == ends


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Due(tolerance=-1.0), "tolerance: -1.0 is not allowed"),
        (lambda: Due(tolerance=float("nan")), "tolerance: nan is not allowed"),
        (lambda: Due(limits=(((0,), -1),)), "limits: -1 is not allowed"),
        (lambda: Due(limits=(((-1,), 0),)), "limits: -1 is not allowed"),
        (lambda: plan(Due(due=(2,)), TWO), "ending: due: 2 is not allowed"),
        (lambda: plan(Due(limits=(((2,), 0),)), TWO), "ending: limits: 2 is not allowed"),
        (lambda: plan(Due(due=(0,)), TWO), r"slots\[0\]: 2 planned rows are not allowed; must reach threshold 3"),
    ],
)
def test_endings_that_make_no_sense_are_refused(make, said):
    with pytest.raises(ArgumentError, match=said):
        make()


def test_a_plan_without_an_ending_needs_all_its_slots():
    with pytest.raises(ArgumentError, match=r"slots\[0\]: 2 planned rows"):
        plan(None, TWO)
    assert plan(Due(), TWO).ending == Due()
