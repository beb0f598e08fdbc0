"""Ranks that die or hang while rows are added up: run by test_mpi.py under ``mpiexec --with-ft ulfm``, with eight."""

import os
import signal

import numpy as np
import pytest

import echelon as ec
from echelon.clusters import Added, Down, Message, MpiCluster, Sum, Unread, mpi, mpi_ranks
from tests.clusters.added import Vectors, announced, pids, total_of
from tests.clusters.desk import Desk, tasks

LIMIT_S = 60.0
SIZE = 1 << 20


@pytest.fixture
def cluster(monkeypatch):
    """Return a cluster that soon asks for ranks that are silent."""
    monkeypatch.setattr(mpi_ranks, "_STALL_S", 0.2)
    monkeypatch.setattr(mpi, "SILENCE_S", 0.5)
    made = MpiCluster()
    yield made
    made.close()


@pytest.fixture
def desk(cluster):
    return Desk(cluster)


def right(work, total, messages, state=0.0):
    expected = sum(work.row_of(message.row, state) for message in messages)
    np.testing.assert_allclose(total.segments[0], expected, rtol=1e-12, atol=1e-12)


def test_a_rank_killed_after_its_row_was_chosen_is_reported_and_the_others_rows_stay(cluster, desk):
    workers = desk.start(cluster.workers)
    process, work = pids(cluster, desk, workers, 1), Vectors(SIZE)
    messages = announced(cluster, desk, workers, work, 2)
    os.kill(process[workers[0]], signal.SIGKILL)
    cluster.add(2, (Sum(np.ones(len(messages)), messages),))
    found = desk.wait(Unread)[0].messages
    desk.wait(Down)
    assert [message.worker for message in found] == [workers[0]]
    assert found[0] is messages[0]
    right(work, total_of(cluster, desk, 3, np.ones(len(messages) - 1), messages[1:]), messages[1:])
    assert [report.round for report in desk.reports if isinstance(report, Added)] == [3]


def test_what_an_adder_that_is_killed_has_not_added_is_added_by_others(cluster, desk):
    """It holds no row, and is stopped first, so that it dies in the middle."""
    workers = desk.start(cluster.workers)
    process, work = pids(cluster, desk, workers, 1), Vectors(SIZE)
    messages = announced(cluster, desk, workers[1:], work, 2)
    os.kill(process[workers[0]], signal.SIGSTOP)
    cluster.add(2, (Sum(np.ones(len(messages)), messages),))
    assert len(cluster._sums._running.given) == len(workers)
    os.kill(process[workers[0]], signal.SIGKILL)
    right(work, desk.wait(Added)[0].totals[0], messages)
    assert not [report for report in desk.reports if isinstance(report, Unread)]


def test_an_adder_that_hangs_is_replaced_and_what_it_sends_later_is_not_taken_for_another_sum(cluster, desk):
    workers = desk.start(cluster.workers)
    process, work = pids(cluster, desk, workers, 1), Vectors(SIZE)
    messages = announced(cluster, desk, workers[1:], work, 2)
    os.kill(process[workers[0]], signal.SIGSTOP)
    right(work, total_of(cluster, desk, 2, np.ones(len(messages)), messages), messages)
    os.kill(process[workers[0]], signal.SIGCONT)
    for round in range(3, 6):
        twice = total_of(cluster, desk, round, np.full(len(messages), 2.0), messages)
        twice.segments[0][:] /= 2.0
        right(work, twice, messages)
    assert not [report for report in desk.reports if isinstance(report, Unread)]
    # it takes part again
    other = announced(cluster, desk, workers, work, 6)
    right(work, total_of(cluster, desk, 6, np.ones(len(other)), other), other)


def test_a_row_of_a_rank_that_hangs_is_reported_and_the_rank_can_come_back(cluster, desk):
    workers = desk.start(cluster.workers)
    process, work = pids(cluster, desk, workers, 1), Vectors(SIZE)
    messages = announced(cluster, desk, workers, work, 2)
    os.kill(process[workers[1]], signal.SIGSTOP)
    cluster.add(2, (Sum(np.ones(len(messages)), messages),))
    (unread,) = desk.wait(Unread)
    assert [message.worker for message in unread.messages] == [workers[1]]
    left = [message for message in messages if message.worker != workers[1]]
    right(work, total_of(cluster, desk, 3, np.ones(len(left)), left), left)
    os.kill(process[workers[1]], signal.SIGCONT)
    other = announced(cluster, desk, workers, work, 4)
    right(work, total_of(cluster, desk, 4, np.ones(len(other)), other), other)


@pytest.mark.parametrize("end", [signal.SIGSTOP, signal.SIGKILL])
def test_a_state_arrives_although_a_relay_dies_or_hangs(cluster, desk, end):
    workers = desk.start(cluster.workers)
    process, work, state = pids(cluster, desk, workers, 1), Vectors(SIZE), np.linspace(0.0, 1.0, SIZE)
    cluster.load(2, work)
    os.kill(process[workers[0]], signal.SIGSTOP)
    cluster.broadcast(2, 2, state)
    os.kill(process[workers[0]], end)
    for worker in workers:
        cluster.assign(worker, 2, tasks(worker))
    messages = desk.wait(Message, len(workers) - 1, lambda message: message.round == 2)
    right(work, total_of(cluster, desk, 2, np.ones(len(messages)), messages), messages, state)
    cluster.purge(2)
    if end == signal.SIGKILL:
        desk.wait(Down)
        return
    # the next state does not wait for it either; it gets its own when it is back
    cluster.broadcast(3, 2, state)
    for worker in workers:
        cluster.assign(worker, 3, tasks(worker))
    desk.wait(Message, len(workers) - 1, lambda message: message.round == 3)
    os.kill(process[workers[0]], signal.SIGCONT)
    messages = desk.wait(Message, len(workers), lambda message: message.round == 3)
    right(work, total_of(cluster, desk, 3, np.ones(len(messages)), messages), messages, state)


class Fatal:
    """Kills its rank in the third iteration, if it is this one."""

    def __init__(self, rank):
        self.rank = rank

    def __call__(self, state, chunk):
        if state[0] > 50.0 and os.environ["OMPI_COMM_WORLD_RANK"] == self.rank:
            os.kill(os.getpid(), signal.SIGKILL)
        return state * chunk


def test_a_job_with_large_rows_is_right_although_a_rank_dies():
    chunks = [1.0 + i / 10 for i in range(8)]
    job = ec.SumJob(
        partial=Fatal("8"), update=lambda state, total: total, state=np.ones(SIZE), chunks=chunks, iterations=5
    )
    with ec.Stream("mpi", redundancy=1.5) as stream:
        found = stream.submit(job).result(LIMIT_S)
    np.testing.assert_allclose(found, np.full(SIZE, sum(chunks) ** 5), rtol=1e-9)
