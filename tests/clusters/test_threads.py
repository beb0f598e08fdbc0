"""What is particular to threads: they can't be killed, so they are left alone, and waited for together."""

import threading

import pytest

from echelon.clusters import Down, Message, ThreadCluster, Up
from echelon.clusters import threads as module
from echelon.errors import ClusterError
from tests.clusters import works
from tests.clusters.desk import Desk, tasks

REAL_START = threading.Thread.start


def hang(cluster, bell, gate):
    """Let all workers of a cluster wait at the gate."""
    workers = Desk(cluster).start(cluster.workers)
    cluster.load(1, works.Reader(bell, gate))
    cluster.broadcast(1, 1, 0.0)
    for worker in workers:
        cluster.assign(worker, 1, tasks(0))
        bell.wait_for_one()


def watch_joins(cluster, waits):
    """Note how long each thread of a cluster is waited for."""
    for worker in cluster._threads.values():
        real = worker.thread.join
        worker.thread.join = lambda timeout=None, real=real: [waits.append(timeout), real(timeout)]


def test_closing_waits_for_all_threads_together_and_not_for_each_in_turn(bell, gate, monkeypatch):
    monkeypatch.setattr(module, "_GRACE_S", 0.2)
    cluster, waits = ThreadCluster(3), []
    hang(cluster, bell, gate)
    watch_joins(cluster, waits)
    cluster.close()
    gate.let_through(3)
    assert len(waits) == 3
    assert sum(waits) <= 0.2 + 1e-9


def test_control_c_while_closing_waits_is_heard_at_once_and_the_next_call_does_not_wait(bell, gate):
    cluster, calls = ThreadCluster(3), []
    hang(cluster, bell, gate)

    def interrupted(timeout=None):
        calls.append(timeout)
        raise KeyboardInterrupt

    for worker in cluster._threads.values():
        worker.thread.join = interrupted
    with pytest.raises(KeyboardInterrupt):
        cluster.close()
    cluster.close()
    gate.let_through(3)
    assert len(calls) == 1


def refuse(thread):
    raise RuntimeError("can't start new thread")


def test_a_cluster_whose_threads_cant_be_started_says_so_in_one_line(monkeypatch):
    calls = []
    monkeypatch.setattr(
        threading.Thread,
        "start",
        lambda thread: [calls.append(thread), (REAL_START if len(calls) < 3 else refuse)(thread)],
    )
    with pytest.raises(
        ClusterError, match=r"^3 worker threads can't be started: can't start new thread; ask for fewer$"
    ):
        ThreadCluster(3)
    assert not any(thread.is_alive() for thread in calls)


def test_a_successor_that_cant_be_started_now_comes_later(monkeypatch):
    cluster = ThreadCluster(1)
    try:
        desk = Desk(cluster)
        (worker,) = desk.start(1)
        cluster.load(1, works.Scaled())
        monkeypatch.setattr(threading.Thread, "start", refuse)
        cluster.kill(worker)
        assert desk.wait(Down)[0].reason == "killed"
        monkeypatch.setattr(threading.Thread, "start", REAL_START)
        new = desk.wait(Up, 2)[-1].worker
        cluster.broadcast(1, 1, 0.0)
        cluster.assign(new, 1, tasks(0))
        assert desk.wait(Message)[0].worker == new
    finally:
        cluster.close()
