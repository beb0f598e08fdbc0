"""Rows that do not count as a worker sent them are computed by others."""

import numpy as np

from bench.chaos.invariants import Watcher
from echelon.codes import mds, uncoded
from echelon.master.actions import Assign, Purge, Recover, Update
from echelon.master.events import Alarm, Joined, Lost, Planned, Received, Recovered, Refused, Rejected, Submitted
from echelon.master.machine import Master
from echelon.plan import Task
from echelon.schemes import coded_rows
from echelon.schemes.twice import twice


def task(row):
    return Task(slot=0, row=row)


def started(plan):
    """Return a watched master that collects round 1 of job 0, on as many workers as the plan has lanes."""
    watcher, workers = Watcher(Master(patience=10.0)), tuple(range(len(plan.lanes)))
    for worker in workers:
        watcher.handle(Joined(0.0, worker))
    watcher.handle(Submitted(0.0, 0))
    watcher.handle(Planned(0.0, 1, plan, workers, plan.codes))
    return watcher


def spare(counts=(2, 2)):
    return started(coded_rows(mds(parts=2, rows=4, rng=np.random.default_rng(1)), counts))


def test_where_enough_rows_are_left_the_slot_is_recovered_from_these():
    watcher = spare()
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    assert watcher.handle(Received(1.0, 0, 1, 0, 1)) == [Recover(1, 0, (0, 1))]
    assert watcher.handle(Refused(1.0, 1, 0)) == []
    assert watcher.handle(Received(2.0, 1, 1, 0, 2)) == [Recover(1, 0, (0, 1, 2))]
    assert watcher.handle(Rejected(2.0, 1, 0, ((1, 0),))) == [Recover(1, 0, (0, 2))]
    assert watcher.handle(Recovered(2.0, 1, 0)) == [Purge(1), Update(0, 1)]


def test_what_is_then_missing_is_given_to_another_worker_and_not_to_the_same():
    watcher = started(coded_rows(uncoded(parts=3), (1, 1, 1)))
    for row in range(3):
        actions = watcher.handle(Received(1.0 + row, row, 1, 0, row))
    assert actions == [Recover(1, 0, (0, 1, 2))]
    assert watcher.handle(Rejected(3.0, 1, 0, ((0, 0),))) == [Assign(1, 1, (task(0),))]
    assert watcher.handle(Lost(4.0, 1)) == [Assign(2, 1, (task(0),))]
    assert watcher.handle(Received(5.0, 2, 1, 0, 0)) == [Recover(1, 0, (1, 2, 0))]


def test_a_row_that_another_worker_holds_is_waited_for():
    watcher = started(twice(coded_rows(uncoded(parts=3), (1, 1, 1))))
    assert watcher.handle(Rejected(1.0, 1, 0, ((0, 0),))) == []
    held = next(worker for worker in (1, 2) if (0, 0) in watcher.master.collection.pending[worker])
    assert watcher.handle(Rejected(2.0, 1, 0, ((0, held),))) == [Assign(3 - held, 1, (task(0),))]


def test_where_all_are_barred_a_newcomer_gets_the_row_or_all_do_after_a_silence():
    watcher = started(twice(coded_rows(uncoded(parts=1), (1, 0))))
    assert watcher.handle(Rejected(1.0, 1, 0, ((0, 0),))) == []
    assert watcher.handle(Rejected(2.0, 1, 0, ((0, 1),))) == []
    again = watcher.handle(Alarm(10.0, 1, 0))
    assert [action.worker for action in again if isinstance(action, Assign)] == [0]
    watcher = started(twice(coded_rows(uncoded(parts=1), (1, 0))))
    watcher.handle(Rejected(1.0, 1, 0, ((0, 0), (0, 1))))
    assert watcher.handle(Joined(2.0, 7)) == [Assign(7, 1, (task(0),))]


def test_late_news_of_a_rejection_changes_nothing():
    watcher = spare()
    assert watcher.handle(Rejected(1.0, 0, 0, ((0, 0),))) == []
    watcher.handle(Received(1.0, 0, 1, 0, 0))
    watcher.handle(Received(1.0, 0, 1, 0, 1))
    watcher.handle(Recovered(1.0, 1, 0))
    assert watcher.handle(Rejected(2.0, 1, 0, ((0, 0),))) == []
