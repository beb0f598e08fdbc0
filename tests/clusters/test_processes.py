"""What is particular to worker processes: no orphan, no descriptor and no memory is left behind, ever."""

import contextlib
import gc
import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter

import numpy as np
import pytest

from echelon.clusters import Down, Message, ProcessCluster, Trouble, Up, cuda, frames, memory
from echelon.errors import ClusterError
from echelon.plan import Task
from echelon.profile import Arrivals, Profile, Worker, Workload
from tests.clusters import works
from tests.clusters.desk import LIMIT_S, Desk, tasks

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="worker processes need Linux")


def descriptors():
    """Return what is open, without what earlier tests left to the garbage collector."""
    gc.collect()
    found = Counter()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the listing itself, or one that a thread has closed
            about = os.stat(f"/proc/self/fd/{name}")
            found[about.st_dev, about.st_ino, os.readlink(f"/proc/self/fd/{name}")] += 1
    return found


def opened(before):
    """Return what is open that was not; what an earlier test's threads close in the meantime does not count."""
    return list((descriptors() - before).elements())


def alive(pid):
    """Return whether a process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid):
    """Return a descriptor that becomes readable when a process ends."""
    return os.pidfd_open(pid)


def test_closing_leaves_no_process_and_no_descriptor():
    before = descriptors()
    for _ in range(3):
        cluster = ProcessCluster(3)
        Desk(cluster).start()
        cluster.load(1, works.Scaled(10_000))
        pids = [*cluster.pids().values(), cluster._crew.parent.process.pid]
        cluster.close()
        assert not any(map(alive, pids))
    assert not opened(before)


def test_closing_does_not_wait_for_a_task_that_never_ends(tmp_path):
    gate = works.Gate(tmp_path)
    cluster = ProcessCluster(1)
    desk = Desk(cluster)
    (worker,) = desk.start(1)
    (pid,) = cluster.pids().values()
    cluster.load(1, works.Scaled(gate=gate))
    cluster.broadcast(1, 1, 0.0)
    cluster.assign(worker, 1, tasks(0))
    cluster.close()
    gate.close()
    assert not alive(pid)


def test_the_workers_parent_ends_by_itself_when_the_cluster_is_closed():
    cluster = ProcessCluster(1)
    Desk(cluster).start(1)
    cluster.close()
    assert cluster._crew.parent.process.returncode == 0


@pytest.mark.parametrize("forks", [0, 1], ids=["alone", "while a fork of it keeps its sockets open"])
def test_killing_the_master_leaves_no_orphan(forks):
    script = textwrap.dedent(
        """
        from echelon.clusters import ProcessCluster, Up
        cluster = ProcessCluster(3)
        up = 0
        while up < 3:
            up += sum(isinstance(report, Up) for report in cluster.poll(None))
        import os, signal, sys
        forks = []
        for _ in range(int(sys.argv[1])):
            forks.append(os.fork())
            if not forks[-1]:
                signal.pause()
        print(*cluster.pids().values(), cluster._crew.parent.process.pid, *forks, flush=True)
        cluster.poll(None)
        """
    )
    master = subprocess.Popen([sys.executable, "-c", script, str(forks)], stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in master.stdout.readline().split()]
    assert len(pids) == 4 + forks
    watched = [ends(pid) for pid in pids[:4]]
    assert all(map(alive, pids))
    master.kill()
    master.wait()
    master.stdout.close()
    try:
        for descriptor in watched:
            assert select.select([descriptor], [], [], LIMIT_S)[0], "a process outlived its master"
            os.close(descriptor)
        assert all(map(alive, pids[4:]))
    finally:
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)


def test_when_their_parent_dies_all_workers_are_replaced():
    cluster = ProcessCluster(2)
    try:
        desk = Desk(cluster)
        workers = desk.start(2)
        cluster._crew.parent.process.kill()
        assert {down.worker for down in desk.wait(Down, 2)} == set(workers)
        new = desk.wait(Up, 4)[2:]
        cluster.load(1, works.Scaled())
        cluster.broadcast(1, 1, 0.0)
        cluster.assign(new[0].worker, 1, tasks(0))
        assert desk.wait(Message)[0].worker == new[0].worker
    finally:
        cluster.close()


def test_a_parent_that_cant_start_is_an_error(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    cluster = ProcessCluster(1)
    try:
        with pytest.raises(ClusterError, match="no worker process could be started"):
            Desk(cluster).wait(Up)
    finally:
        cluster.close()


def test_many_kills_in_a_row_leave_no_descriptor_behind():
    cluster = ProcessCluster(2)
    try:
        desk = Desk(cluster)
        desk.start(2)
        cluster.load(1, works.Scaled())
        most = None
        for round in range(1, 16):
            cluster.broadcast(round, 1, 0.0)
            worker = max(cluster.pids())
            cluster.assign(worker, round, tasks(0))
            desk.wait(Message, 1, lambda message, round=round: message.round == round)
            cluster.kill(worker)
            desk.wait(Down, round)
            desk.wait(Up, 2 + round)
            if round == 5:
                most = sum(descriptors().values())
            # the thread that reads what workers print closes the pipe of one that is gone
            end = time.monotonic() + LIMIT_S
            while most is not None and sum(descriptors().values()) > most:
                assert time.monotonic() < end, "descriptors are left behind"
                time.sleep(0.001)
    finally:
        cluster.close()


def test_a_stopped_worker_does_not_hold_up_the_master():
    """Its socket fills up; lanes of rounds that are over are dropped, and it takes the newest when it goes on."""
    cluster = ProcessCluster(2)
    try:
        desk = Desk(cluster)
        quick, stopped = desk.start(2)
        pid = cluster.pids()[stopped]
        cluster.load(1, works.Scaled())
        os.kill(pid, signal.SIGSTOP)
        rounds = 3000
        for round in range(1, rounds + 1):
            cluster.broadcast(round, 1, np.zeros(3000))
            for worker in (stopped, quick):
                cluster.assign(worker, round, tasks(0))
            end = time.monotonic() + LIMIT_S
            while not any(isinstance(report, Message) and report.round == round for report in cluster.poll(1.0)):
                assert time.monotonic() < end
            if round < rounds:
                cluster.purge(round)
        os.kill(pid, signal.SIGCONT)
        desk.wait(Message, 1, lambda message: message.worker == stopped and message.round == rounds)
        assert not cluster._crew.numbers[stopped].outbox
    finally:
        cluster.close()


def test_memory_of_results_and_states_is_used_again():
    cluster = ProcessCluster(1)
    try:
        desk = Desk(cluster)
        (worker,) = desk.start(1)
        cluster.load(1, works.Scaled(100_000))
        arena = cluster._crew.numbers[worker].arena
        sizes = set()
        for round in range(1, 60):
            cluster.broadcast(round, 1, np.zeros(100_000))
            cluster.assign(worker, round, tasks(0, 1))
            found = desk.wait(Message, 2, lambda message, round=round: message.round == round)
            sizes |= {message.token[1] for message in found}
            for message in found:
                cluster.release(message)
            desk.reports.clear()
            cluster.purge(round)
        assert len(sizes) <= 3
        assert len(cluster._states._blocks) <= 2
        assert arena is cluster._crew.numbers[worker].arena
        cluster.unload(1)
    finally:
        cluster.close()


def test_a_message_can_not_be_released_twice():
    cluster = ProcessCluster(1)
    try:
        desk = Desk(cluster)
        (worker,) = desk.start(1)
        cluster.load(1, works.Scaled(100_000))
        cluster.broadcast(1, 1, 0.0)
        cluster.assign(worker, 1, tasks(0))
        (message,) = desk.wait(Message)
        cluster.release(message)
        with pytest.raises(ClusterError, match="is not in use"):
            cluster.release(message)
    finally:
        cluster.close()


def test_memory_of_a_gpu_that_went_with_its_worker_is_a_loss_and_no_trouble(monkeypatch):
    def refused(arena, ticket):
        raise cuda.NotShared("cuIpcOpenMemHandle failed with CUDA error 201")

    def received():
        reports, ticket = [], handle.arena.take(cuda.PAYLOAD)
        frame = frames.pack_result(1, 0, 0, 0.1, b'["f",100000]', ticket | frames.DEVICE)
        cluster._result(handle, frame, reports)
        assert not handle.arena.in_use(ticket)
        return [type(report) for report in reports]

    monkeypatch.setattr(memory.Arena, "device_memory", refused)
    cluster = ProcessCluster(1)
    try:
        Desk(cluster).start(1)
        (handle,) = cluster._crew.numbers.values()
        assert received() == [Trouble]
        os.kill(handle.pid, signal.SIGKILL)
        assert handle.ended(LIMIT_S)
        assert received() == []
    finally:
        cluster.close()


@pytest.mark.parametrize("parts", [1, 2], ids=["copied", "combined"])
def test_a_message_that_is_not_wanted_when_it_is_due_gives_its_memory_back(bell, gate, parts):
    """It would be due after five minutes, but its round is purged; one of the third round is due at once."""
    workers = [Worker("slow", mean=300.0, std=0.0, law="deterministic")]
    profile = Profile(Workload(critical=1, redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(1.0)), workers)
    cluster = ProcessCluster(emulate=profile)
    try:
        desk = Desk(cluster)
        (worker,) = desk.start(1)
        cluster.load(1, works.Reader(bell, gate, 100_000, parts))
        gate.let_through(3 * parts)
        for round, cost in ((1, 1.0), (2, 1.0), (3, 1e-6)):
            cluster.broadcast(round, 1, np.array([round]))
            cluster.assign(worker, round, [Task(slot=0, row=0, cost=cost)])
            for _ in range(parts):
                bell.wait_for_one()
            if round < 3:
                cluster.purge(round)
        (report,) = desk.wait((Message, Down))
        assert isinstance(report, Message), report
        assert report.token[1] == FIRST_BLOCK
        assert report.segments[0][-1] == 3.0 * parts
        cluster.release(report)
    finally:
        cluster.close()


FIRST_BLOCK = 64  # offset of the first block in a worker's memory


def test_a_state_is_not_overwritten_while_a_worker_reads_it(bell, gate):
    """Its round is over, and the next one has another state, but the worker is still at a part of it."""
    cluster = ProcessCluster(2)
    try:
        desk = Desk(cluster)
        slow, quick = desk.start(2)
        cluster.load(1, works.Reader(bell, gate))
        cluster.load(2, works.Scaled())
        cluster.broadcast(1, 1, np.full(10_000, 1.0))
        cluster.assign(slow, 1, tasks(0))
        bell.wait_for_one()
        cluster.purge(1)
        cluster.broadcast(2, 2, np.full(10_000, 7.0))
        cluster.assign(quick, 2, tasks(0))
        desk.wait(Message)
        gate.let_through(1)
        (message,) = desk.wait(Message, 1, lambda message: message.worker == slow)
        assert message.segments[0].tolist() == [10_000.0]
    finally:
        cluster.close()


def test_what_a_worker_said_on_the_board_goes_with_it(bell, gate):
    """Else nobody would use the memory of its state again, and its successor would seem to have died at its row."""
    cluster = ProcessCluster(1)
    try:
        desk = Desk(cluster)
        (worker,) = desk.start(1)
        cluster.load(1, works.Reader(bell, gate))
        cluster.broadcast(1, 1, np.zeros(10_000))
        cluster.assign(worker, 1, tasks(7))
        bell.wait_for_one()
        cluster.kill(worker)
        assert desk.wait(Down)[0].at == (1, 0, 7)
        assert cluster._board.worked(0) is None
        cluster.purge(1)
        cluster.broadcast(2, 1, np.zeros(10_000))  # before the successor is there, and could say anything itself
        assert len(cluster._states._blocks) == 1
        cluster.kill(desk.wait(Up, 2)[-1].worker)
        assert desk.wait(Down, 2)[-1].at != (1, 0, 7)
    finally:
        cluster.close()


def test_lanes_longer_than_a_frame_arrive_whole():
    cluster = ProcessCluster(1)
    try:
        desk = Desk(cluster)
        (worker,) = desk.start(1)
        cluster.load(1, works.Plain(works.tree))
        cluster.broadcast(1, 1, {"names": ["x" * 100] * 1000})
        cluster.assign(worker, 1, [Task(slot=0, row=row) for row in range(3000)])
        assert [message.row for message in desk.wait(Message, 3000)] == list(range(3000))
    finally:
        cluster.close()


def test_workers_use_one_thread_for_linear_algebra_and_ignore_control_c():
    cluster = ProcessCluster(1)
    try:
        desk = Desk(cluster)
        (worker,) = desk.start(1)
        cluster.load(1, works.Plain(_environment))
        cluster.broadcast(1, 1, None)
        cluster.assign(worker, 1, tasks(0))
        assert desk.wait(Message)[0].segments[0].tolist() == [1.0, 1.0]
    finally:
        cluster.close()


def _environment(state, part):
    return np.array([float(os.environ["OPENBLAS_NUM_THREADS"]), signal.getsignal(signal.SIGINT) is signal.SIG_IGN])


def test_work_that_kills_its_worker_while_it_is_unpickled_is_known_to_be_at_its_row():
    cluster = ProcessCluster(1)
    try:
        desk = Desk(cluster)
        (worker,) = desk.start(1)
        cluster.load(1, works.Deadly())
        cluster.broadcast(1, 1, 0.0)
        cluster.assign(worker, 1, tasks(7))
        assert desk.wait(Down)[0].at == (1, 0, 7)
    finally:
        cluster.close()


def test_a_pace_of_any_size_reaches_its_worker():
    times = np.random.default_rng(1).uniform(0.001, 0.002, 30_000).tolist()
    workers = [Worker("long", mean=0.0015, std=0.001, law="trace", parameters={"times": times})]
    profile = Profile(Workload(critical=1, redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(1.0)), workers)
    cluster = ProcessCluster(emulate=profile)
    try:
        Desk(cluster).start(1)
    finally:
        cluster.close()


def test_room_in_a_full_socket_is_watched_for_only_as_long_as_it_is_full():
    cluster = ProcessCluster(1)
    try:
        desk = Desk(cluster)
        (worker,) = desk.start(1)
        cluster.load(1, works.Scaled())
        pid = cluster.pids()[worker]
        os.kill(pid, signal.SIGSTOP)
        handle = cluster._crew.numbers[worker]
        round = 0
        while not handle.full:
            round += 1
            cluster.broadcast(round, 1, np.zeros(3000))
            cluster.assign(worker, round, tasks(0))
        os.kill(pid, signal.SIGCONT)
        desk.wait(Message, 1, lambda message: message.round == round)
        assert not handle.full
        assert cluster.poll(0.05) == []
    finally:
        cluster.close()
