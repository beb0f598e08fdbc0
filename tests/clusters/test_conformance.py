"""Every cluster in the registry: the same answers, the same news of losses, the same clean end."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from echelon import trees
from echelon.clusters import CLUSTERS, AheadRequest, AheadState, Down, Message, Trouble, Up
from echelon.errors import ArgumentError
from echelon.plan import AHEAD, Task
from echelon.profile import Arrivals, Profile, Worker, Workload
from tests.clusters import works
from tests.clusters.desk import LIMIT_S, Desk, tasks
from tests.clusters.kinds import KINDS, NO_SUCCESSORS


def test_a_lane_may_be_longer_than_any_frame(cluster):
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(7, works.Plain(lambda state, part: np.array([part * state])))
    cluster.broadcast(1, 7, 2.0)
    cluster.assign(worker, 1, tasks(*range(10_000)))
    found = desk.wait(Message, 10_000)
    assert [message.segments[0][0] for message in found] == [2.0 * row for row in range(10_000)]
    for message in found:
        cluster.release(message)
    cluster.unload(7)


@pytest.mark.parametrize("size", [3, 20_000], ids=["small", "large"])
@pytest.mark.parametrize("state", [2.0, np.arange(4.0), np.ones(50_000)], ids=["number", "array", "large array"])
def test_rows_are_combined_from_parts_and_state(cluster, size, state):
    desk = Desk(cluster)
    workers = desk.start()
    work = works.Scaled(size)
    cluster.load(7, work)
    for round in (1, 2, 3):
        cluster.broadcast(round, 7, state)
        for i, worker in enumerate(workers):
            cluster.assign(worker, round, tasks(2 * i, 2 * i + 1))
        found = desk.wait(Message, 6, lambda message, round=round: message.round == round)
        assert sorted(message.row for message in found) == list(range(6))
        for message in found:
            assert message.seconds >= 0
            np.testing.assert_allclose(message.segments[0], work.expected(state, message.row), rtol=1e-12)
            cluster.release(message)
        cluster.purge(round)


def test_results_may_be_trees_of_arrays(cluster):
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Plain(works.tree))
    cluster.broadcast(1, 1, None)
    cluster.assign(worker, 1, tasks(5))
    (message,) = desk.wait(Message)
    found = trees.unflatten(message.form, message.segments)
    np.testing.assert_array_equal(found["sum"], np.full((2, 2), 5.0))
    assert found["more"][0].dtype == np.float32
    assert found["more"][1] == 3.0


@pytest.mark.parametrize("size", [3, 20_000], ids=["small", "large"])
def test_parts_may_be_written_into_the_same_memory_each_time(cluster, size):
    """No message is sent twice, and none is overwritten by the next."""
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Reused(size))
    for round in (1, 2):
        cluster.broadcast(round, 1, None)
        cluster.assign(worker, round, tasks(*range(8)))
        found = desk.wait(Message, 8, lambda message, round=round: message.round == round)
        for message in found:
            np.testing.assert_array_equal(message.segments[0], np.full(size, float(message.row)))
            cluster.release(message)
        cluster.purge(round)


def test_parts_that_neighbouring_rows_share_are_computed_once(cluster):
    """A lane of four rows with two parts each costs five parts, and not eight."""
    desk = Desk(cluster)
    worker = desk.start()[0]
    works.COUNTS.clear()
    cluster.load(1, _Shared())
    cluster.broadcast(1, 1, None)
    cluster.assign(worker, 1, tasks(0, 1, 2, 3))
    last = desk.wait(Message, 4)[-1]
    # row 3 is part 3 + 2 part 4, and these were the fourth and the fifth part that were computed
    assert last.segments[0].tolist() == [4.0 + 2 * 5.0]


class _Shared(works.Plain):
    def __init__(self):
        super().__init__(works.counted)

    def row(self, slot, row):
        return (row, row + 1), np.array([1.0, 2.0])


def counted(cluster, desk, round, rows):
    """Return what some rows of a round are, of {worker: rows}."""
    cluster.broadcast(round, 1, None)
    for worker, some in rows.items():
        cluster.assign(worker, round, tasks(*some))
    count = sum(map(len, rows.values()))
    found = desk.wait(Message, count, lambda message: message.round == round)
    cluster.purge(round)
    return {(message.worker, message.row): float(message.segments[0][0]) for message in found}


def test_a_worker_remembers_what_it_did_in_rounds_before_and_no_other_does(cluster):
    desk = Desk(cluster)
    first, second, _ = desk.start()
    cluster.load(1, works.Counting())
    assert counted(cluster, desk, 1, {first: [0], second: [1]}) == {(first, 0): 1.0, (second, 1): 1.0}
    assert counted(cluster, desk, 2, {first: [0, 1]}) == {(first, 0): 2.0, (first, 1): 1.0}
    assert counted(cluster, desk, 3, {first: [1], second: [1]}) == {(first, 1): 2.0, (second, 1): 2.0}
    cluster.unload(1)
    cluster.load(1, works.Counting())
    assert counted(cluster, desk, 4, {first: [0], second: [1]}) == {(first, 0): 1.0, (second, 1): 1.0}


@NO_SUCCESSORS
def test_what_a_killed_worker_remembered_is_lost_with_it(cluster):
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Counting())
    for round in (1, 2):
        assert counted(cluster, desk, round, {worker: [0]}) == {(worker, 0): float(round)}
    cluster.kill(worker)
    desk.wait(Down)
    new = desk.wait(Up, 4)[-1].worker
    assert counted(cluster, desk, 3, {new: [0]}) == {(new, 0): 1.0}


def test_slots_from_ahead_on_are_the_next_job_s(cluster):
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Scaled())
    cluster.load(2, works.Scaled(5))
    cluster.load(3, AheadRequest(np.arange(5.0)))
    for round in (1, 2):
        cluster.broadcast(round, 1, AheadState(2.0, 2, 3))
        cluster.assign(worker, round, tasks(0, 1))
        cluster.assign(worker, round, [Task(slot=AHEAD, row=1), Task(slot=AHEAD, row=2)])
        found = desk.wait(Message, 4, lambda message, round=round: message.round == round)
        assert [(message.slot, message.row) for message in found] == [(0, 0), (0, 1), (AHEAD, 1), (AHEAD, 2)]
        for message in found:
            work, state = (works.Scaled(), 2.0) if message.slot == 0 else (works.Scaled(5), np.arange(5.0))
            np.testing.assert_allclose(message.segments[0], work.expected(state, message.row), rtol=1e-12)
        cluster.purge(round)


def test_all_slots_of_the_next_job_are_stopped_together(cluster):
    """The order to stop comes first, so that nothing depends on who is quicker; another round is another matter."""
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Scaled())
    cluster.load(2, works.Scaled(5))
    cluster.load(3, AheadRequest(1.0))
    slots = [AHEAD, AHEAD + 1, 0, AHEAD + 5000, 1]
    for round, expected in ((1, [0, 1]), (2, slots)):
        cluster.broadcast(round, 1, AheadState(2.0, 2, 3))
        if round == 1:
            cluster.stop(round, AHEAD)
        cluster.assign(worker, round, [Task(slot=slot, row=0) for slot in slots])
        found = desk.wait(Message, len(expected), lambda message, round=round: message.round == round)
        assert [message.slot for message in found] == expected
        cluster.purge(round)
    assert not [report for report in desk.reports if isinstance(report, Trouble)]


def test_a_cluster_has_a_clock_that_never_goes_back(cluster):
    desk = Desk(cluster)
    before = cluster.now()
    desk.start()
    between = cluster.now()
    assert between >= before
    assert cluster.poll(0.05) == []
    assert cluster.now() >= between + 0.05 - 1e-3


def test_what_goes_wrong_with_the_next_job_is_left_to_its_own_turn(cluster):
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Scaled())
    cluster.load(2, works.Plain(works.raises))
    cluster.load(3, AheadRequest(None))
    for round, work in ((1, 2), (2, 8)):  # the first raises, the second was never loaded
        cluster.broadcast(round, 1, AheadState(2.0, work, 3))
        cluster.assign(worker, round, [Task(slot=AHEAD, row=2), Task(slot=0, row=1)])
        found = desk.wait(Message, 1, lambda message, round=round: message.round == round)
        assert [message.slot for message in found] == [0]
        cluster.purge(round)
    assert not [report for report in desk.reports if isinstance(report, Trouble)]


def test_a_lane_may_be_extended(cluster):
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Scaled())
    cluster.broadcast(1, 1, 0.0)
    cluster.assign(worker, 1, tasks(0))
    cluster.assign(worker, 1, tasks(4, 5))
    assert [message.row for message in desk.wait(Message, 3)] == [0, 4, 5]


def test_a_task_that_raises_is_reported_with_its_traceback_and_the_worker_goes_on(cluster):
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Plain(works.raises))
    cluster.broadcast(1, 1, None)
    cluster.assign(worker, 1, tasks(1, 2, 3))
    (trouble,) = desk.wait(Trouble)
    assert trouble.round == 1
    assert "in raises" in trouble.cause.traceback
    assert "RuntimeError: part two is no good" in trouble.cause.traceback
    cluster.purge(1)
    cluster.broadcast(2, 1, None)
    cluster.assign(worker, 2, tasks(1))
    assert desk.wait(Message, 1, lambda message: message.round == 2)[0].worker == worker


@pytest.mark.parametrize(
    ("make", "said"),
    [(works.uneven, "all parts must give results of one shape and type"), (works.text, "must be an array of numbers")],
)
def test_results_that_cant_be_combined_are_refused_with_the_reason(cluster, make, said):
    desk = Desk(cluster)
    worker = desk.start()[0]
    work = _Shared()
    work.make = make
    cluster.load(1, work)
    cluster.broadcast(1, 1, None)
    cluster.assign(worker, 1, tasks(0))
    assert said in desk.wait(Trouble)[0].cause.traceback


def test_a_purged_round_ends_after_one_part_at_most_and_its_late_messages_are_harmless(cluster, gate, kind):
    """The worker waits for its third part when the round is purged, and perhaps for its fourth when it hears of it."""
    desk = Desk(cluster)
    worker = desk.start()[0]
    work = works.Scaled(gate=gate)
    gate.let_through(2)
    cluster.load(1, work)
    cluster.broadcast(1, 1, 0.0)
    cluster.assign(worker, 1, tasks(*range(1000)))
    desk.wait(Message)
    cluster.purge(1)
    cluster.broadcast(2, 1, 1.0)
    cluster.assign(worker, 2, tasks(3))
    while not any(isinstance(report, Message) and report.round == 2 for report in desk.reports):
        gate.let_through(1)  # one at a time: an order may be on its way for as long as a part takes
        desk.reports += cluster.poll(0.1)
    (message,) = desk.wait(Message, 1, lambda message: message.round == 2)
    np.testing.assert_allclose(message.segments[0], work.expected(1.0, 3))
    # of a thousand tasks only the one before the purge, and what was under way then, were done; where a purge is an
    # order that travels, and not a store that is seen at once, a busy machine lets some more through before it comes
    most = 2 if kind in ("processes", "threads", "virtual") else 50
    assert sum(1 for report in desk.reports if isinstance(report, Message) and report.round == 1) <= most


def test_a_killed_worker_is_reported(cluster, gate):
    """It waits for its third part when it is killed; a thread has to get that, a rank sees the order after it."""
    desk = Desk(cluster)
    workers = desk.start()
    cluster.load(1, works.Scaled(gate=gate))
    gate.let_through(2)
    cluster.broadcast(1, 1, 0.0)
    cluster.assign(workers[1], 1, tasks(*range(1000)))
    desk.wait(Message)
    cluster.kill(workers[1])
    gate.let_through(1)
    (down,) = desk.wait(Down)
    (born,) = desk.wait(Up, 1, lambda up: up.worker == workers[1])
    assert (down.worker, down.place) == (born.worker, born.place)
    # the others go on, with work that was loaded and the state of the round that is open
    gate.let_through(100)  # a rank that is given up may still take some before it sees that
    cluster.assign(workers[2], 1, tasks(2))
    assert desk.wait(Message, 1, lambda message: message.worker == workers[2])[0].row == 2


@NO_SUCCESSORS
def test_a_killed_worker_is_replaced(cluster, gate):
    """It waits for its third part when it is killed; a thread has to get that, and two more are the newcomer's."""
    desk = Desk(cluster)
    workers = desk.start()
    cluster.load(1, works.Scaled(gate=gate))
    gate.let_through(2)
    cluster.broadcast(1, 1, 0.0)
    cluster.assign(workers[1], 1, tasks(*range(1000)))
    desk.wait(Message)
    cluster.kill(workers[1])
    gate.let_through(3)
    (down,) = desk.wait(Down)
    new = desk.wait(Up, 4)[-1]
    assert new.worker not in workers
    assert new.place == down.place
    # the newcomer knows the work that was loaded before it came, and the state of the round that is open
    cluster.assign(new.worker, 1, tasks(2))
    assert desk.wait(Message, 1, lambda message: message.worker == new.worker)[0].row == 2


def seen(cluster, desk, worker, found):
    """Return what a worker is seen to do, as soon as a condition holds for it."""
    end = time.monotonic() + LIMIT_S
    while True:
        known = {doing.worker: doing for doing in cluster.doing()}
        if worker in known and found(known[worker]):
            return known[worker]
        assert time.monotonic() < end, known
        desk.reports += cluster.poll(0.01)


def test_what_a_worker_does_and_since_when_is_known_without_its_help(cluster, gate, kind):
    desk = Desk(cluster)
    workers = desk.start()
    assert sorted(doing.worker for doing in cluster.doing()) == workers
    assert not any(doing.stopped for doing in cluster.doing())
    assert seen(cluster, desk, workers[1], lambda doing: doing.at is None).since is None
    cluster.load(1, works.Plain(works.counted) if kind == "virtual" else works.Scaled(gate=gate))
    before = cluster.now()
    cluster.broadcast(1, 1, 0.0)
    cluster.assign(workers[1], 1, tasks(5, 6))
    doing = seen(cluster, desk, workers[1], lambda doing: doing.at is not None)
    first = round_of(cluster, 1), 0, 5
    assert doing.at == first
    assert before <= doing.since <= cluster.now()
    gate.let_through(2)
    desk.wait(Message)
    later = seen(cluster, desk, workers[1], lambda doing: doing.at is not None and doing.at != first)
    assert later.at == (first[0], 0, 6)
    assert doing.since <= later.since <= cluster.now()
    gate.let_through(1)
    desk.wait(Message, 2)
    cluster.purge(1)
    assert seen(cluster, desk, workers[1], lambda doing: doing.at is None).since is None


def round_of(cluster, round):
    """Return the cluster's own number of a test's round."""
    return getattr(cluster, "first", 0) + round


@pytest.mark.parametrize("kind", sorted({*KINDS} & {"processes", "ray"}))
def test_a_worker_that_is_stopped_is_seen_so_and_killed_and_succeeded(cluster):
    desk = Desk(cluster)
    worker = desk.start()[0]
    os.kill(cluster.pids()[worker], signal.SIGSTOP)
    assert seen(cluster, desk, worker, lambda doing: doing.stopped).at is None
    cluster.kill(worker, "stopped for too long")
    (down,) = desk.wait(Down)
    assert (down.worker, down.reason) == (worker, "stopped for too long")
    assert desk.wait(Up, 4)[-1].place == down.place
    assert worker not in {doing.worker for doing in cluster.doing()}


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"virtual"}))
def test_a_worker_that_never_returns_is_ended_at_once_and_what_it_still_sends_is_dropped(cluster, gate, kind):
    """It waits at the gate, which opens only after its end; only a thread or a rank can still come through."""
    desk = Desk(cluster)
    worker, other, *_ = desk.start()
    cluster.load(1, works.Scaled(gate=gate))
    cluster.broadcast(1, 1, 0.0)
    cluster.assign(worker, 1, tasks(7))
    seen(cluster, desk, worker, lambda doing: doing.at is not None)
    cluster.kill(worker, "it never returned")
    (down,) = desk.wait(Down)
    assert (down.worker, down.reason, down.at) == (worker, "it never returned", (1, 0, 7))
    if kind != "mpi":
        assert desk.wait(Up, 4)[-1].place == down.place
    gate.let_through(2)  # for who waits there without a master
    cluster.assign(other, 1, tasks(8))
    gate.let_through(2)
    assert desk.wait(Message)[0].worker == other


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"virtual"}))
def test_closing_is_bounded_also_with_a_worker_that_never_returns(kind, gate, request, monkeypatch):
    if kind == "ray":
        request.getfixturevalue("local_ray")
    monkeypatch.setattr("echelon.clusters.threads._GRACE_S", 0.1)
    cluster = CLUSTERS[kind](3)
    desk = Desk(cluster)
    workers = desk.start()
    cluster.load(1, works.Scaled(gate=gate))
    cluster.broadcast(1, 1, 0.0)
    for worker in workers:
        cluster.assign(worker, 1, tasks(0))
    for worker in workers:
        seen(cluster, desk, worker, lambda doing: doing.at is not None)
    closing = threading.Thread(target=cluster.close, daemon=True)
    closing.start()
    closing.join(LIMIT_S)
    assert not closing.is_alive()
    gate.let_through(20)


def test_work_for_a_worker_that_is_gone_is_dropped(cluster):
    desk = Desk(cluster)
    workers = desk.start()
    cluster.load(1, works.Scaled())
    cluster.broadcast(1, 1, 0.0)
    cluster.kill(workers[0])
    desk.wait(Down)
    cluster.assign(workers[0], 1, tasks(1))
    cluster.assign(workers[1], 1, tasks(1))
    assert desk.wait(Message)[0].worker == workers[1]


def test_an_emulated_worker_takes_the_times_of_its_profile(kind):
    """The longest of three tasks of a known length decides, and a purge ends the wait of the slow one."""
    workers = [
        Worker("quick", mean=0.02, std=0.0, law="deterministic", link=0.05),
        Worker("slow", mean=300.0, std=0.0),
        Worker("idle", mean=1.0, std=0.0),
    ]
    profile = Profile(Workload(critical=1, redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(1.0)), workers)
    cluster = CLUSTERS[kind](emulate=profile)
    try:
        desk = Desk(cluster)
        quick, slow, _ = (up.worker for up in sorted(desk.wait(Up, 3), key=lambda up: up.place))
        cluster.load(1, works.Scaled())
        cluster.broadcast(1, 1, 0.0)
        began = cluster.now()
        cluster.assign(quick, 1, [Task(slot=0, row=0), Task(slot=0, row=1, cost=3.0)])
        cluster.assign(slow, 1, tasks(0))
        found = desk.wait(Message, 2)
        assert cluster.now() - began >= 0.05 + 4 * 0.02 - 1e-9
        assert [message.worker for message in found] == [quick, quick]
        assert [message.seconds for message in found] == pytest.approx([0.02, 0.06])
        cluster.purge(1)
        cluster.broadcast(2, 1, 0.0)
        cluster.assign(slow, 2, tasks(0))
    finally:
        cluster.close()


def test_closing_twice_is_fine_and_leaves_no_thread_behind(kind):
    before = set(threading.enumerate())
    cluster = CLUSTERS[kind](3)
    Desk(cluster).start(3)
    cluster.close()
    cluster.close()
    assert set(threading.enumerate()) <= before


def test_wake_ends_a_poll(cluster):
    desk = Desk(cluster)
    desk.start()
    threading.Timer(0.05, cluster.wake).start()
    assert cluster.poll(LIMIT_S) == []


@pytest.mark.parametrize("workers", [0, -1, 1.5, "two"])
def test_a_senseless_number_of_workers_is_refused(kind, workers):
    with pytest.raises(ArgumentError, match=r"workers: .* is not allowed"):
        CLUSTERS[kind](workers)


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_where_nothing_says_how_many_workers_there_is_one_on_each_processor(kind, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    cluster = CLUSTERS[kind]()
    assert cluster.workers == 2
    cluster.close()


def test_a_slot_that_is_stopped_is_not_worked_on(cluster):
    """The order to stop comes first, so that nothing depends on who is quicker; another round is another matter."""
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Plain(works.counted))
    for round, slots in ((1, [1, 2]), (2, [0, 1, 2])):
        cluster.broadcast(round, 1, None)
        if round == 1:
            cluster.stop(round, 0)
        cluster.assign(worker, round, [Task(slot=slot, row=row) for slot in (0, 1, 2) for row in (0, 1)])
        found = desk.wait(Message, 2 * len(slots), lambda message, round=round: message.round == round)
        assert [message.slot for message in found] == [slot for slot in slots for _ in (0, 1)]
        for message in found:
            cluster.release(message)
        cluster.purge(round)


def test_what_a_later_row_of_the_lane_needs_is_computed_once(cluster):
    """Rows 0, 1 and 2 are parts 0, 1 and 2; row 3 is the sum of all: four messages, three parts."""
    desk = Desk(cluster)
    worker = desk.start()[0]
    cluster.load(1, works.Hybrid())
    cluster.broadcast(1, 1, None)
    cluster.assign(worker, 1, tasks(0, 1, 2, 3))
    found = desk.wait(Message, 4)
    assert [float(message.segments[0][0]) for message in found] == [1.0, 2.0, 3.0, 6.0]
    for message in found:
        cluster.release(message)
