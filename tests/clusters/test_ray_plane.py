"""Rows that stay in Ray's object store: exact totals, what passes through the driver, and adders that stop or die."""

import os
import signal
import time
from itertools import count
from queue import Queue

import numpy as np
import pytest

from echelon import trees
from echelon.clusters import Added, Down, Message, Sum, Unread, Up
from echelon.clusters.adding import Rooms
from echelon.clusters.narrow import EPSILON
from echelon.clusters.ray import RayCluster
from echelon.clusters.ray_actor import RayActor
from echelon.clusters.ray_adder import Adder, Asked, Held, Summed
from echelon.clusters.ray_plane import Plane
from echelon.clusters.ray_worker import UNLOAD, RayWorker
from echelon.clusters.shelf import Shelf
from tests.clusters.desk import LIMIT_S, Desk, tasks

WORKERS, LENGTH = 4, 300_000
ROUNDS = count(1)


class Waves:
    """Row r is part r: an array, a tree of two types, or narrow numbers; its rows are only added up."""

    added = True

    def __init__(self, kind):
        self.kind, self.narrow = kind, kind == "narrow"

    def row(self, slot, row):
        return (row,), np.ones(1)

    def part(self, state, part):
        wave = np.sin(np.arange(LENGTH) * (part + 1.0) + state)
        if self.kind == "tree":
            return {"a": wave.astype(np.float32), "b": wave[: LENGTH // 2], "c": wave[:7]}
        return wave.astype(np.float32) if self.narrow else wave


class Table:
    """A cluster of which a test wants rows, and sums of them."""

    def __init__(self, cluster):
        self.cluster, self.desk = cluster, Desk(cluster)
        self.desk.start(WORKERS)

    def pids(self):
        return self.cluster.pids()

    def rows(self, work):
        """Have one row computed by every worker; return their messages in order of rows."""
        self.desk.reports.clear()
        self.round = key = next(ROUNDS)
        while len(self.pids()) < WORKERS:
            self.desk.wait(Up)
        self.cluster.load(key, work)
        self.cluster.broadcast(self.round, key, 0.5)
        for row, worker in enumerate(self.pids()):
            self.cluster.assign(worker, self.round, tasks(row))
        found = self.desk.wait(Message, WORKERS, lambda message: message.round == self.round)
        self.cluster.purge(self.round)
        self.cluster.unload(key)
        return sorted(found, key=lambda message: message.row)

    def total(self):
        added = self.desk.wait(Added, 1, lambda added: added.round == self.round)
        assert len(added) == 1
        return added[0].totals


@pytest.fixture(scope="module")
def opened(local_ray):
    cluster = RayCluster(WORKERS)
    yield Table(cluster)
    cluster.close()


@pytest.fixture
def table(opened):
    yield opened
    for pid in opened.pids().values():
        os.kill(pid, signal.SIGCONT)
    opened.cluster._plane.end()


WEIGHTS = np.array([1.5, -2.0, 0.25, 3.0])


def expected(work, weights=WEIGHTS):
    """Return the segments of the sum, computed here in float64."""
    rows = [[np.asarray(some, float) for some in trees.flatten(work.part(0.5, row))[1]] for row in range(len(weights))]
    return [np.tensordot(weights, some, 1) for some in zip(*rows, strict=True)]


def check(total, work, weights=WEIGHTS, epsilon=1e-15):
    for segment, right in zip(total.segments, expected(work, weights), strict=True):
        bound = 4 * np.abs(weights).sum() * max(epsilon, np.finfo(segment.dtype).eps)
        np.testing.assert_allclose(segment, right, rtol=0, atol=bound)


# totals


@pytest.mark.parametrize("kind", ["array", "tree", "narrow"])
def test_rows_stay_where_they_are_and_their_total_is_right(table, kind):
    work = Waves(kind)
    messages = table.rows(work)
    assert all(message.elsewhere for message in messages)
    table.cluster.add(table.round, [Sum(WEIGHTS, messages), Sum(np.ones(2), messages[1:3])])
    total, part = table.total()
    epsilon = EPSILON if kind == "narrow" else 1e-15
    check(total, work, epsilon=epsilon)
    check(part, work, np.array([0.0, 1.0, 1.0, 0.0]), epsilon)
    assert [segment.dtype for segment in total.segments] == [
        segment.dtype for segment in trees.flatten(work.part(0.5, 0))[1]
    ]
    np.testing.assert_allclose(total.largest, [np.abs(segment).max() for segment in total.segments])
    np.testing.assert_allclose(total.sizes, 1.0, rtol=2 * EPSILON)  # waves, which all come near 1


def test_rows_that_lie_here_are_added_to_those_that_do_not(table):
    work = Waves("tree")
    messages = table.rows(work)
    here = messages[2]._replace(segments=trees.flatten(work.part(0.5, 2))[1], token=None, sizes=())
    table.cluster.add(table.round, [Sum(WEIGHTS, [*messages[:2], here, messages[3]])])
    (total,) = table.total()
    check(total, work)
    np.testing.assert_allclose(total.sizes, 1.0, rtol=1e-3)


def test_what_is_not_finite_is_seen(table):
    messages = table.rows(Infinite("array"))
    table.cluster.add(table.round, [Sum(WEIGHTS, messages)])
    (total,) = table.total()
    assert not np.isfinite(total.largest[0])
    table.cluster.release(messages[0])


class Infinite(Waves):
    def part(self, state, part):
        wave = super().part(state, part)
        wave[LENGTH // 2] = np.inf
        return wave


# who dies, who stops


def test_a_worker_that_died_after_its_row_was_announced_is_not_missed(table):
    work = Waves("array")
    messages = table.rows(work)
    dead = messages[1].worker
    os.kill(table.pids()[dead], signal.SIGKILL)
    table.cluster.add(table.round, [Sum(WEIGHTS, messages)])
    check(table.total()[0], work)
    table.desk.wait(Down, 1, lambda down: down.worker == dead)
    assert len({message.worker for message in messages}) == WORKERS


def test_the_slice_of_an_adder_that_is_killed_in_the_middle_is_added_by_another(table):
    work = Waves("tree")
    messages = table.rows(work)
    worker, pid = next(iter(table.pids().items()))
    os.kill(pid, signal.SIGSTOP)  # so that it surely owes its slice when it is killed
    table.cluster.add(table.round, [Sum(WEIGHTS, messages)])
    assert worker in _owing(table)
    os.kill(pid, signal.SIGKILL)
    check(table.total()[0], work)


def test_the_slice_of_an_adder_that_is_stopped_is_added_by_another_and_comes_late_in_vain(table):
    work = Waves("array")
    messages = table.rows(work)
    worker, pid = next(iter(table.pids().items()))
    os.kill(pid, signal.SIGSTOP)
    for _ in range(2):
        table.cluster.add(table.round, [Sum(WEIGHTS, messages)])
        check(table.total()[0], work)
        table.desk.reports.clear()
    table.cluster.add(table.round, [Sum(WEIGHTS, messages)])
    assert worker not in _owing(table)  # it is asked last, as long as it does not answer
    os.kill(pid, signal.SIGCONT)
    check(table.total()[0], work)
    messages = table.rows(work)
    table.cluster.add(table.round, [Sum(WEIGHTS, messages)])
    check(table.total()[0], work)


def _owing(table):
    return {owed.given[-1] for owed in table.cluster._plane._owed.values()}


def test_where_no_worker_is_left_the_driver_adds(table, monkeypatch):
    work = Waves("narrow")
    messages = table.rows(work)
    monkeypatch.setattr(table.cluster._plane, "_workers", list)
    table.cluster.add(table.round, [Sum(WEIGHTS, messages)])
    check(table.total()[0], work, epsilon=EPSILON)


def test_rows_whose_slices_are_lost_are_reported_and_no_total_follows(table, lost):
    work = Waves("array")
    messages = table.rows(work)
    messages[2].token.references[1] = lost
    table.cluster.add(table.round, [Sum(WEIGHTS, messages)])
    (unread,) = table.desk.wait(Unread)
    assert unread.messages == (messages[2],)
    table.cluster.add(table.round, [Sum(WEIGHTS[:2], messages[:2])])
    check(table.total()[0], work, WEIGHTS[:2])


def test_releasing_a_message_ends_the_adding(table):
    work = Waves("array")
    messages = table.rows(work)
    for pid in table.pids().values():
        os.kill(pid, signal.SIGSTOP)
    table.cluster.add(table.round, [Sum(WEIGHTS, messages)])
    table.cluster.release(messages[0])
    assert table.cluster.poll(0) == []
    for pid in table.pids().values():
        os.kill(pid, signal.SIGCONT)
    table.cluster.add(table.round, [Sum(WEIGHTS[1:], messages[1:])])
    check(table.total()[0], work, np.array([0.0, *WEIGHTS[1:]]))


def test_rows_leave_the_object_store_when_they_are_released(table, local_ray):
    """One row that lies there is 2.4 MB; ten rounds are 96 MB."""

    def used():
        there, free = local_ray.cluster_resources(), local_ray.available_resources()
        return there["object_store_memory"] - free["object_store_memory"]

    def rounds(times):
        for _ in range(times):
            messages = table.rows(Waves("array"))
            table.cluster.add(table.round, [Sum(WEIGHTS, messages)])
            table.total()
            for message in messages:
                table.cluster.release(message)
            del messages
        table.desk.reports.clear()

    rounds(2)
    before = used()
    rounds(10)
    end = time.monotonic() + LIMIT_S
    while used() > before + 5e6:
        assert time.monotonic() < end, (before, used())


def test_an_adder_gives_its_memory_back_when_a_job_is_unloaded(table, local_ray):
    sums = Queue()
    adder = Adder(sums.put)
    rows = [local_ray.put([np.full(LENGTH, 1.0 + i)]) for i in range(2)]
    adder.ask(Asked(1, 0, 0, np.array([2.0, -1.0]), told=True), rows)
    summed = sums.get(timeout=LIMIT_S)
    assert not summed.pieces[0].any()
    assert len(adder._rooms) == 1
    worker = object.__new__(RayWorker)
    worker._adder, worker._shelf, worker._inbox, worker._going = adder, Shelf(), Queue(), lambda: True
    worker._shelf.put(1, object)
    worker._inbox.put((0.0, (UNLOAD, 1), []))
    worker.take(None)
    assert len(adder._rooms) == 0


# the driver's side alone: events in, orders out


class Fake(RayActor):
    """An actor that notes what it is told."""

    def __init__(self, number):
        self.number, self.cut, self.told = number, 0, []

    def tell(self, *order, references=()):
        self.told.append((order, references))


def _plane(numbers, cuts=()):
    actors = [Fake(number) for number in numbers]
    for actor in actors:
        actor.cut = 1 if actor.number in cuts else 0
    form = b'["d",4]'
    messages = [Message(i, 1, 0, i, 0.1, form, [], Held([f"{i}a", f"{i}b"]), (1.0,)) for i in range(2)]
    plane = Plane(Rooms(), lambda: actors)
    plane.add(1, [Sum(np.ones(2), messages)], now=0.0)
    return plane, actors, messages


def _summed(actor, values, told=0):
    (_, number, sum, at, *_), _ = actor.told[told]
    return Summed(number, sum, at, [np.array(values)], (max(values),))


def test_every_slice_goes_to_a_worker_of_its_own_and_the_total_comes_when_all_have_answered():
    plane, (one, two), _ = _plane([1, 2])
    assert [references for actor in (one, two) for _, references in actor.told] == [["0a", "1a"], ["0b", "1b"]]
    plane.take(1, _summed(one, [1.0, 2.0]), now=0.1)
    assert plane.look(0.1) == []
    plane.take(2, _summed(two, [3.0, 4.0]), now=0.2)
    (added,) = plane.look(0.2)
    assert added.totals[0].segments[0].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert added.totals[0].largest == (4.0,)
    assert plane.due is None


def test_a_slice_that_comes_twice_is_used_once():
    plane, (one, two), _ = _plane([1, 2])
    plane.take(1, _summed(one, [1.0, 2.0]), now=0.1)
    plane.look(5.0)
    assert one.told[1][1] == ["0b", "1b"]  # the second worker is late
    plane.take(2, _summed(two, [3.0, 4.0]), now=5.1)
    (added,) = plane.look(5.1)
    kept = added.totals[0].segments[0].tolist()
    plane.take(1, _summed(one, [7.0, 8.0], told=1), now=5.2)
    assert plane.look(5.2) == []
    assert added.totals[0].segments[0].tolist() == kept == [1.0, 2.0, 3.0, 4.0]


def test_workers_in_the_middle_of_a_part_add_only_where_few_are_idle():
    _, actors, _ = _plane([1, 2, 3], cuts={1})
    assert [len(actor.told) for actor in actors] == [0, 1, 1]
    _, actors, _ = _plane([1, 2], cuts={1})
    assert [len(actor.told) for actor in actors] == [0, 2]
