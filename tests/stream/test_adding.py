"""Rows that are only announced: the driver has them added up where they lie, and does without those that are lost."""

import numpy as np
import pytest

import echelon as ec
from bench.chaos.invariants import Watcher
from echelon import trees
from echelon.clusters import Message, Unread, Up, VirtualCluster
from echelon.clusters.base import Added, Total
from echelon.clusters.faults import Crash, Faults
from echelon.clusters.pace import Pace
from echelon.codes import Decoder, uncoded
from echelon.delays import Deterministic
from echelon.jobs import SumJob
from echelon.master import events
from echelon.master.machine import Master
from echelon.profile import Costs
from echelon.stream.driver import Driver
from echelon.stream.kept import Store
from echelon.stream.observer import Observer, Observers, Running
from echelon.stream.pacing import Pacing
from tests.stream.jobs import sum_job, sum_result
from tests.stream.test_driver import Echo

FORM = trees.flatten(np.ones(4))[0]


class Far(Echo):
    """A cluster of two workers that announce rows at once, and add up nothing until the test does."""

    workers = 2

    def __init__(self):
        super().__init__()
        self.reports = [Up(0, 0), Up(1, 1)]
        self.given, self.asked, self.released = [], [], []

    def assign(self, worker, round, tasks):
        for task in tasks:
            self.given.append((worker, round, task.row))
            token = len(self.given)
            self.reports.append(Message(worker, round, task.slot, task.row, 1e-3, FORM, [], token))

    def add(self, round, sums):
        self.asked.append((round, sums))

    def release(self, message):
        self.released.append(message.token)

    def combine(self, weights, messages):
        raise AssertionError("nothing lies here")


class Steps(Observer):
    def __init__(self):
        self.states, self.ended, self.messages = [], [], []

    def stepped(self, running, seen, finished):
        self.states.append(running.state)
        self.messages.append((seen.came, seen.received, seen.nbytes))

    def delivered(self, time_s, running, outcome, error):
        self.ended.append(outcome.value)


class Desk:
    """A driver that runs one job of one iteration, over four parts, on a cluster that only announces."""

    def __init__(self):
        self.cluster, self.steps = Far(), Steps()
        self.driver = Driver(
            self.cluster, Watcher(Master(patience=60.0)).handle, Pacing(2, "uniform", None), Observers(self.steps)
        )
        self.code = uncoded(parts=4)
        job = SumJob(partial=len, update=lambda state, total: total, state=None, chunks=[0] * 4, iterations=1)
        running = Running(0, "far", job, (self.code,), (Decoder(self.code),), None, 0.0, Store())
        self.turn()
        self.driver.order(lambda: self.driver.submit(running))
        self.turn(3)

    def turn(self, times=1):
        for _ in range(times):
            self.driver.turn(0.0)

    def hear(self, *reports):
        self.cluster.reports += reports
        self.turn(3)

    def total(self, value):
        """Return the answer to the last sum that was asked for."""
        round, (wanted,) = self.cluster.asked[-1]
        sizes = np.ones((1, len(wanted.messages)))
        return Added(round, (Total([np.full(4, value)], (abs(value),), sizes),))


def test_what_was_announced_is_added_up_elsewhere_and_given_back():
    desk = Desk()
    ((round, (wanted,)),) = desk.cluster.asked
    assert round == 1
    assert wanted.weights.tolist() == [1.0] * 4
    assert sorted(message.row for message in wanted.messages) == [0, 1, 2, 3]
    assert desk.steps.states == []  # it waits
    desk.hear(desk.total(7.0))
    assert desk.steps.states[0].tolist() == [7.0] * 4
    assert desk.steps.ended == ["done"]
    assert sorted(desk.cluster.released) == [1, 2, 3, 4]
    assert desk.steps.messages == [(0, 4, 4 * 32)]


def test_a_row_lost_while_it_is_added_up_is_computed_in_another_round_and_the_others_are_not():
    desk = Desk()
    messages = desk.cluster.asked[0][1][0].messages
    before = len(desk.cluster.given)
    desk.hear(Unread((messages[2],)))
    # in a new round one row is given out, and all four are added up
    assert [(round, row) for _, round, row in desk.cluster.given[before:]] == [(2, messages[2].row)]
    (_, _), (round, (wanted,)) = desk.cluster.asked
    assert round == 2
    assert {message.token for message in wanted.messages} == {m.token for m in messages} - {messages[2].token} | {5}
    desk.hear(desk.total(3.0))
    assert desk.steps.states[0].tolist() == [3.0] * 4
    assert sorted(desk.cluster.released) == [1, 2, 3, 4, 5]
    assert desk.steps.messages == [(3, 4, 4 * 32)]


def test_the_total_of_a_round_that_is_done_again_is_not_used():
    desk = Desk()
    late = desk.total(99.0)
    desk.hear(Unread((desk.cluster.asked[0][1][0].messages[0],)))
    desk.hear(late)
    assert desk.steps.states == []
    desk.hear(desk.total(3.0))
    assert desk.steps.states[0].tolist() == [3.0] * 4


def test_a_loss_that_comes_twice_or_is_of_no_message_changes_nothing():
    desk = Desk()
    messages = desk.cluster.asked[0][1][0].messages
    desk.hear(Unread((messages[0]._replace(round=0),)))  # not the one that is held
    assert len(desk.cluster.asked) == 1
    desk.hear(Unread((messages[0],)), Unread((messages[0],)))
    assert len(desk.cluster.asked) == 2
    assert desk.cluster.released.count(messages[0].token) == 1


def test_all_rows_may_be_lost():
    desk = Desk()
    desk.hear(Unread(tuple(desk.cluster.asked[0][1][0].messages)))
    assert sorted(row for _, round, row in desk.cluster.given if round == 2) == [0, 1, 2, 3]
    desk.hear(desk.total(3.0))
    assert desk.steps.ended == ["done"]
    assert sorted(desk.cluster.released) == list(range(1, 9))


def test_a_job_that_is_cancelled_while_its_rows_are_added_up_gives_them_back():
    desk = Desk()
    late = desk.total(1.0)
    desk.driver.order(lambda: desk.driver.tell(events.Cancelled(desk.driver.now(), 0)))
    desk.turn()
    assert desk.steps.ended == ["cancelled"]
    assert sorted(desk.cluster.released) == [1, 2, 3, 4]
    desk.hear(late, Unread((desk.cluster.asked[0][1][0].messages[0],)))
    assert desk.steps.states == []
    assert len(desk.cluster.released) == 4


class Slow(Far):
    """Announces what is assigned only when the test says so."""

    def assign(self, worker, round, tasks):
        kept, self.reports = self.reports, []
        super().assign(worker, round, tasks)
        self.waiting = [*getattr(self, "waiting", []), *self.reports]
        self.reports = kept


def test_a_row_lost_while_the_round_is_open_is_given_to_another_worker(monkeypatch):
    monkeypatch.setattr("tests.stream.test_adding.Far", Slow)
    desk = Desk()
    first = desk.cluster.waiting.pop(0)
    desk.hear(first)
    before = len(desk.cluster.given)
    desk.hear(Unread((first,)))
    ((worker, round, row),) = desk.cluster.given[before:]
    assert (round, row) == (1, first.row)
    assert worker != first.worker
    assert desk.cluster.released == [first.token]
    desk.hear(*desk.cluster.waiting)
    assert len(desk.cluster.asked) == 1
    desk.hear(desk.total(2.0))
    assert desk.steps.ended == ["done"]


# whole streams in virtual time


@pytest.mark.parametrize("redundancy", [1.0, 1.5])
@pytest.mark.parametrize("overlap", [False, True])
def test_results_are_those_of_a_plain_loop(redundancy, overlap):
    cluster = VirtualCluster(4, stay_bytes=1, faults=Faults(np.random.default_rng(1)))
    with ec.Stream(cluster, redundancy=redundancy, overlap=overlap, progress=False) as stream:
        handles = [stream.submit(sum_job(seed)) for seed in range(3)]
        for seed, handle in enumerate(handles):
            np.testing.assert_allclose(handle.result(), sum_result(seed), rtol=1e-9)
    assert not cluster.lent


@pytest.mark.parametrize("notice", [0.0, 30.0])
def test_workers_that_die_while_rows_are_added_up_cost_rounds_and_no_results(notice):
    class Times(Observer):
        rounds = 0

        def opened(self, seen):
            self.rounds += 1

    incidents = [Crash(2.2 + 3.0 * i, i % 3, notice=notice, restart=1.0) for i in range(3)]
    trouble = Faults(np.random.default_rng(1), incidents=tuple(incidents))
    paces = [Pace(Deterministic(time=0.5), 0.0, None) for _ in range(3)]
    cluster = VirtualCluster(paces=paces, stay_bytes=1, faults=trouble, costs=Costs(combining=0.01))
    seen = Times()
    with ec.Stream(cluster, redundancy=1.0, observers=[seen], progress=False) as stream:
        handle = stream.submit(sum_job(0))
        np.testing.assert_allclose(handle.result(), sum_result(0), rtol=1e-9)
        assert seen.rounds > handle.delivery().iterations
    assert not cluster.lent
