"""Rounds of several slots: stopped one by one, idle workers lent. Events in, list of actions out."""

import numpy as np
import pytest

from bench.chaos.invariants import Watcher
from echelon.master.actions import Assign, Purge, Recover, Stop, Update
from echelon.master.events import Joined, Lost, Planned, Received, Recovered, Submitted
from echelon.master.machine import Master
from echelon.plan import Plan, Slot, Task
from echelon.schemes import fractional_repetition, multi_message, uncoded_multi_message
from tests.simulation.in_virtual_time import run, scripted


def tasks(slot, *rows, cost=1.0):
    return [Task(slot=slot, row=row, cost=cost) for row in rows]


def collecting(plan, *, lend=False, workers=None):
    """Return a watched master that collects round 1 of a plan, from time 0 on."""
    watcher = Watcher(Master(patience=100.0))
    numbers = tuple(range(len(plan.lanes))) if workers is None else workers
    for worker in numbers:
        if worker >= 0:
            watcher.handle(Joined(0.0, worker))
    watcher.handle(Submitted(0.0, 0))
    actions = watcher.handle(Planned(0.0, 1, plan, numbers, lend=lend))
    return watcher, [action for action in actions if isinstance(action, Assign)]


TWO_CLUSTERS = Plan(
    [Slot(rows=3, threshold=1)] * 2,
    [tasks(0, 0, 1), tasks(0, 2), tasks(1, 0, 1, 2)],
)


def test_a_slot_that_is_recovered_first_is_stopped():
    watcher, _ = collecting(TWO_CLUSTERS)
    assert watcher.handle(Received(1.0, 0, 1, 0, 0)) == [Recover(1, 0, (0,))]
    assert watcher.handle(Recovered(1.0, 1, 0)) == [Stop(1, 0)]
    assert watcher.handle(Received(1.5, 1, 1, 0, 2)) == []  # it was on its way
    assert watcher.handle(Received(2.0, 2, 1, 1, 0)) == [Recover(1, 1, (0,))]
    assert watcher.handle(Recovered(2.0, 1, 1)) == [Purge(1), Update(0, 1)]


def test_a_slot_of_which_every_row_has_come_needs_no_stop():
    plan = Plan([Slot(rows=1, threshold=1)] * 2, [tasks(0, 0), tasks(1, 0)])
    watcher, _ = collecting(plan)
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    assert watcher.handle(Recovered(1.0, 1, 0)) == []


def test_a_lane_of_several_slots_goes_on_as_it_was_planned():
    plan = Plan([Slot(rows=2, threshold=1)] * 2, [[*tasks(0, 0), *tasks(1, 0)], [*tasks(0, 1), *tasks(1, 1)]])
    watcher, _ = collecting(plan)
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    assert watcher.handle(Recovered(1.0, 1, 0)) == []


def test_the_rows_of_a_lane_without_a_worker_are_shared_out_where_they_are_needed():
    plan = Plan([Slot(rows=2, threshold=2)], [tasks(0, 0), tasks(0, 1, cost=3.0)])
    _, assigned = collecting(plan, workers=(7, -2))
    assert assigned == [Assign(7, 1, (Task(slot=0, row=0),)), Assign(7, 1, (Task(slot=0, row=1, cost=3.0),))]


def lent(plan, *received):
    """Return what is assigned when the last of these messages recovers a slot."""
    watcher, _ = collecting(plan, lend=True)
    actions = []
    for time, worker, slot, row in received:
        for action in watcher.handle(Received(time, worker, 1, slot, row)):
            assert isinstance(action, Recover)
            actions = watcher.handle(Recovered(time, 1, slot))
    return [action for action in actions if isinstance(action, Assign)]


def test_an_idle_worker_repeats_the_slowest_lane_of_the_other_slot_from_its_end():
    """Worker 0 takes 1 a part; worker 2 has been silent for 1 and is taken to need 2 a part: 6 for its last row."""
    plan = Plan([Slot(rows=1, threshold=1), Slot(rows=3, threshold=3)], [tasks(0, 0), tasks(1, 0, 1, 2)])
    assert lent(plan, (1.0, 0, 0, 0)) == [Assign(0, 1, tuple(tasks(1, 2, 1, 0)))]


def test_nobody_is_lent_who_would_come_too_late():
    """Worker 1 has sent two of three rows, one a second; the third is likely at 3, and worker 0 needs 2 a part."""
    plan = Plan([Slot(rows=1, threshold=1), Slot(rows=3, threshold=3)], [tasks(0, 0), tasks(1, 0, 1, 2)])
    assert lent(plan, (1.0, 1, 1, 0), (2.0, 1, 1, 1), (2.0, 0, 0, 0)) == []


def test_nobody_is_lent_unless_that_is_allowed():
    plan = Plan([Slot(rows=1, threshold=1), Slot(rows=3, threshold=3)], [tasks(0, 0), tasks(1, 0, 1, 2)])
    watcher, _ = collecting(plan)
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    assert watcher.handle(Recovered(1.0, 1, 0)) == []


def test_a_helper_that_dies_leaves_the_round_as_it_was():
    plan = Plan([Slot(rows=1, threshold=1), Slot(rows=3, threshold=3)], [tasks(0, 0), tasks(1, 0, 1, 2)])
    watcher, _ = collecting(plan, lend=True)
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    assert len(watcher.handle(Recovered(1.0, 1, 0))) == 1
    assert watcher.handle(Lost(1.5, 0)) == []


def rounds(plan, paces, *, lend):
    workers = scripted(lambda place, round, i: paces[round, place], [0.0] * len(plan.lanes))
    return run(plan, workers, [0.0], len(paces) - 1, lend=lend).durations


@pytest.mark.parametrize(
    "plan",
    [
        multi_message(workers=12, load=4, clusters=3, order=2),
        multi_message(workers=12, load=4, clusters=3, orders=[2, 3, 4]),
        multi_message(workers=12, load=4, clusters=3, orders=[2, 4], hybrid=True),
        fractional_repetition(workers=12, load=4),
    ],
    ids=["correlated", "uncorrelated", "hybrid", "fractional repetition"],
)
def test_lending_never_makes_a_round_longer_and_most_often_shorter_where_one_cluster_lags(plan):
    """Virtual time: the first cluster is five times slower in every round."""
    paces = 0.01 + np.random.default_rng(1).exponential(0.05, (121, 12))
    paces[:, :4] *= 5
    alone, helped = rounds(plan, paces, lend=False), rounds(plan, paces, lend=True)
    assert (helped <= alone + 1e-12).all()
    assert (helped < alone - 1e-9).mean() > 0.5


def test_stopping_slots_changes_no_round_of_lanes_that_serve_several():
    """One slot a chunk: against the earliest copy of each chunk, from the same paces."""
    paces = 0.01 + np.random.default_rng(2).exponential(0.05, (61, 6))
    plan = uncoded_multi_message(workers=6, load=3)
    first = [
        [min(paces[number, (chunk - i) % 6] * (i + 1) for i in range(3)) for chunk in range(6)]
        for number in range(1, 61)
    ]
    np.testing.assert_allclose(rounds(plan, paces, lend=False), np.max(first, axis=1), rtol=1e-12)
