"""Worker processes where a task, the system or a user does its worst: a hang is seen, nothing is left behind."""

import contextlib
import ctypes
import errno
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from echelon.clusters import Down, Message, ProcessCluster, Up, crew, frames, memory
from echelon.clusters.mailbox import LOADS
from echelon.errors import ClusterError
from tests.clusters import works
from tests.clusters.desk import LIMIT_S, Desk, tasks
from tests.clusters.test_processes import alive, descriptors, opened

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="worker processes need Linux")


@pytest.fixture
def cluster():
    made = ProcessCluster(2)
    yield made
    made.close()


def does_one_round(cluster, desk, worker, round):
    cluster.load(7, works.Scaled())
    cluster.broadcast(round, 7, 1.0)
    cluster.assign(worker, round, tasks(3))
    (message,) = desk.wait(Message, 1, lambda message: message.round == round)
    np.testing.assert_allclose(message.segments[0], works.Scaled().expected(1.0, 3))
    cluster.purge(round)
    cluster.unload(7)


# deaths


class Helper(works.Plain):
    """A part forks a helper, which holds all descriptors until the gate opens, and dies."""

    def __init__(self, gate):
        self.gate = gate

    def part(self, state, part):
        if not os.fork():
            self.gate.pass_one()
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_helper_that_a_task_leaves_behind_does_not_hide_its_worker_s_death(cluster, gate):
    desk = Desk(cluster)
    worker, _ = desk.start(2)
    pid = cluster.pids()[worker]
    cluster.load(1, Helper(gate))
    cluster.broadcast(1, 1, 0.0)
    cluster.assign(worker, 1, tasks(4))
    (down,) = desk.wait(Down)
    gate.let_through(1)
    assert down == Down(worker, 0, f"process {pid} was killed by SIGKILL", (1, 0, 4))
    cluster.purge(1)
    does_one_round(cluster, desk, desk.wait(Up, 3)[-1].worker, 2)


def test_the_reason_of_a_loss_names_the_exit_code(cluster):
    desk = Desk(cluster)
    worker, _ = desk.start(2)
    pid = cluster.pids()[worker]
    cluster.load(1, works.Plain(lambda state, part: os._exit(3)))
    cluster.broadcast(1, 1, 0.0)
    cluster.assign(worker, 1, tasks(0))
    assert desk.wait(Down)[0].reason == f"process {pid} ended with exit code 3"


def test_workers_that_die_while_their_parent_is_stopped_are_succeeded_and_it_too_with_one_warning(cluster, caplog):
    desk = Desk(cluster)
    desk.start(2)
    parent = cluster._crew.parent.process.pid
    os.kill(parent, signal.SIGSTOP)
    with caplog.at_level(logging.WARNING, "echelon.clusters"):
        for pid in cluster.pids().values():
            os.kill(pid, signal.SIGKILL)
        desk.wait(Down, 2)
        new = desk.wait(Up, 4)[-1]
    assert not alive(parent)
    assert caplog.messages == [f"the workers' parent, process {parent}, is stopped: it and all workers are succeeded"]
    does_one_round(cluster, desk, new.worker, 1)


def test_a_parent_that_is_stopped_before_it_forked_a_successor_is_succeeded_too(cluster, caplog):
    desk = Desk(cluster)
    worker, _ = desk.start(2)
    parent = cluster._crew.parent.process.pid
    cluster.kill(worker)
    desk.wait(Down)
    os.kill(parent, signal.SIGSTOP)  # the next `poll` asks it for a successor
    end = time.monotonic() + LIMIT_S
    while alive(parent):
        assert time.monotonic() < end
        desk.reports += cluster.poll(0.01)
        cluster.doing()
    does_one_round(cluster, desk, desk.wait(Up, 4)[-1].worker, 1)


# too few descriptors


def few(monkeypatch, where, name, times):
    """Let a function fail so many times for lack of descriptors, then work again."""
    real, left = getattr(where, name), [times]

    def call(*arguments, **options):
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(*arguments, **options)

    monkeypatch.setattr(where, name, call)


@pytest.mark.parametrize(("where", "name"), [(socket, "socketpair"), (os, "memfd_create"), (socket, "send_fds")])
def test_too_few_descriptors_for_a_moment_delay_a_successor_and_are_logged_once(
    cluster, monkeypatch, caplog, where, name
):
    desk = Desk(cluster)
    worker, _ = desk.start(2)
    few(monkeypatch, where, name, times=2)
    with caplog.at_level(logging.WARNING, "echelon.clusters"):
        cluster.kill(worker)
        new = desk.wait(Up, 3)[-1]
    assert caplog.messages == ["no worker can be started at place 0 now, which is tried again: Too many open files"]
    does_one_round(cluster, desk, new.worker, 1)


def test_too_few_descriptors_for_a_moment_do_not_fail_a_job_that_is_loaded(cluster, monkeypatch):
    desk = Desk(cluster)
    worker, _ = desk.start(2)
    few(monkeypatch, os, "memfd_create", times=3)
    does_one_round(cluster, desk, worker, 1)


def test_too_few_descriptors_for_longer_are_said_in_one_line(cluster, monkeypatch):
    monkeypatch.setattr(memory, "_TRY_S", 0.0)
    few(monkeypatch, os, "memfd_create", times=1 << 60)
    with pytest.raises(ClusterError, match="no shared memory for a job's data: Too many open files; raise 'ulimit"):
        cluster.load(1, works.Scaled())


def test_a_worker_that_hangs_costs_neither_descriptors_nor_memory_and_finds_its_work_when_it_goes_on(cluster):
    """Of three thousand jobs that it missed, all but the last were unloaded again."""
    desk = Desk(cluster)
    quick, hung = desk.start(2)
    pid = cluster.pids()[hung]
    os.kill(pid, signal.SIGSTOP)
    before = descriptors()
    for round in range(1, LAST + 1):
        cluster.load(round, works.Scaled(20_000))
        cluster.broadcast(round, round, 0.0)
        cluster.assign(hung, round, tasks(0))
        if round % 100 == 0:
            cluster.assign(quick, round, tasks(0))
            cluster.release(desk.wait(Message, 1, lambda message, round=round: message.round == round)[0])
        if round < LAST:
            cluster.purge(round)
            cluster.unload(round)
    assert len(opened(before)) <= 1
    assert len(cluster._crew.numbers[hung].outbox) <= 3 * LOADS
    os.kill(pid, signal.SIGCONT)
    (message,) = desk.wait(Message, 1, lambda message: message.worker == hung)
    assert message.round == LAST
    np.testing.assert_allclose(message.segments[0], works.Scaled(20_000).expected(0.0, 0))


LAST = 3000

HUNG = """
import os, signal
from echelon.clusters import Message, ProcessCluster
from tests.clusters import works
from tests.clusters.desk import Desk, tasks

cluster = ProcessCluster(2)
desk = Desk(cluster)
quick, hung = desk.start(2)
os.kill(cluster.pids()[hung], signal.SIGSTOP)
for round in range(1, 301):  # the kernel lets more be under way than it says
    cluster.load(round, works.Scaled())
    cluster.broadcast(round, round, 0.0)
    for worker in (quick, hung):
        cluster.assign(worker, round, tasks(0))
    desk.wait(Message, round)
    cluster.purge(round)
    cluster.unload(round)
cluster.close()
"""


def as_an_ordinary_user():
    """Drop, also as root, the two capabilities that lift the kernel's limit of descriptors under way."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    for capability in (SYS_ADMIN, SYS_RESOURCE):
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability)


PR_CAPBSET_DROP, SYS_ADMIN, SYS_RESOURCE = 24, 21, 24


def test_more_jobs_than_descriptors_run_beside_a_worker_that_hangs_without_any_privilege():
    ended = subprocess.run(
        [sys.executable, "-c", HUNG], preexec_fn=as_an_ordinary_user, timeout=2 * LIMIT_S, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


# garbage


def spoken(frame):
    """Send a frame to the master as if it came from the worker itself."""

    def part(state, part):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                    with socket.socket(fileno=os.dup(int(name))) as link:
                        link.send(frame)
        return np.ones(1)

    return part


GARBAGE = [
    b"\xff" * 40,
    bytes([frames.RESULT]),
    bytes([frames.RAISED, 1, 2]),
    b"",
    frames.pack_short(frames.TAKEN),
    frames.pack_short(frames.HELLO, 1),
    frames.pack_result(1, 0, 0, 0.0, b"no form", frames.NOWHERE),
    frames.pack_result(1, 0, 0, 0.0, b'["d",-1]', frames.NOWHERE) + bytes(64),
    frames.pack_result(1, 0, 0, 0.0, b'["d",1000]', frames.NOWHERE),
    *(
        frames.pack_result(1, 0, 0, 0.0, b'["d",1000]', offset)
        for offset in (-7, 0, 64, 65, 1 << 20, memory.RESERVED - 64, 1 << 60)
    ),
]


def test_a_worker_that_sends_garbage_is_killed_and_succeeded_and_the_others_go_on(cluster, caplog, monkeypatch):
    monkeypatch.setattr(crew, "_WORD_S", 0.2)  # an empty frame looks like the end of its socket
    desk = Desk(cluster)
    worker, other = desk.start(2)
    for number, frame in enumerate(GARBAGE):
        round = 2 * number + 1
        with caplog.at_level(logging.WARNING, "echelon.clusters"):
            cluster.load(1, works.Plain(spoken(frame)))
            cluster.broadcast(round, 1, None)
            cluster.assign(worker, round, tasks(0))
            down = desk.wait(Down, number + 1)[-1]
        assert down.worker == worker
        assert ("sent garbage" if frame else "closed its socket") in down.reason, frame
        cluster.purge(round)
        does_one_round(cluster, desk, other, round + 1)
        worker = desk.wait(Up, 3 + number)[-1].worker
    assert len(caplog.messages) == len(GARBAGE) - 1
    assert all("sent garbage and is killed" in text for text in caplog.messages)


# forks


def forked(state, part):
    """Fork, and let both return."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the child
    os.fork()
    return np.full(20_000, float(part))


@pytest.mark.parametrize("rows", [1, 2], ids=["plain", "combined"])
def test_a_forked_child_that_returns_from_its_part_is_no_second_worker(cluster, rows):
    desk = Desk(cluster)
    worker, _ = desk.start(2)
    work = works.Plain(forked)
    work.row = _Neighbours(rows)
    cluster.load(1, work)
    for round in range(1, 6):
        cluster.broadcast(round, 1, None)
        cluster.assign(worker, round, tasks(0, 1, 2))
        found = desk.wait(Message, 3, lambda message, round=round: message.round == round)
        assert [message.row for message in found] == [0, 1, 2]
        for message in found:
            assert set(message.segments[0]) == {float(sum(range(message.row, message.row + rows)))}
            cluster.release(message)
        cluster.purge(round)
    assert cluster.poll(0.1) == []


class _Neighbours:
    def __init__(self, rows):
        self.rows = rows

    def __call__(self, slot, row):
        return range(row, row + self.rows), np.ones(self.rows)
