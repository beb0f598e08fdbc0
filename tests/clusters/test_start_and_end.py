"""Worker processes that can't be started completely, or are closed while something is wrong: nothing is left behind."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import textwrap

import pytest

from echelon.clusters import ProcessCluster, frames
from echelon.clusters.parent import Parent
from echelon.errors import ClusterError
from tests.clusters import works
from tests.clusters.desk import LIMIT_S, Desk, tasks
from tests.clusters.test_processes import alive, descriptors, opened
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="worker processes need Linux")


@pytest.fixture
def cluster():
    made = ProcessCluster(2)
    yield made
    made.close()


def children():
    """Return the processes that this one has started and that are still there."""
    found = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/self/task/{task}/children") as file:  # it has ended
            found += [int(pid) for pid in file.read().split()]
    return {pid for pid in found if alive(pid)}


@pytest.mark.parametrize(
    ("where", "name", "good"),
    [(socket, "socketpair", 2), (os, "memfd_create", 4), (os, "pipe2", 0), (socket, "send_fds", 1)],
)
def test_a_cluster_that_cant_be_started_completely_says_so_and_leaves_nothing_behind(monkeypatch, where, name, good):
    before, there, real, calls = descriptors(), children(), getattr(where, name), [0]

    def fail(*arguments, **options):
        calls[0] += 1
        if calls[0] > good:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(where, name, fail)
        with pytest.raises(ClusterError, match=r"^3 worker processes can't be started: Too many open files; ask for"):
            ProcessCluster(3)
    assert children() <= there
    assert not opened(before)


def test_a_parent_of_workers_that_cant_be_forked_is_said_in_one_line(monkeypatch):
    before = descriptors()

    def refuse(*_, **__):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(ClusterError, match="can't be started: Resource temporarily unavailable; ask for fewer"):
        ProcessCluster(3)
    assert not opened(before)


def test_a_first_worker_that_cant_be_forked_is_said_in_one_line(cluster, monkeypatch):
    monkeypatch.setattr(Parent, "hear", lambda parent: frames.pack_short(frames.REFUSED, errno.EAGAIN, 1))
    with pytest.raises(ClusterError, match="worker 2 of 2 can't be started: Resource temporarily unavailable; ask for"):
        cluster._crew._hear_parent(cluster._crew.parent, [])


def test_closing_ends_workers_and_their_parent_even_if_all_are_stopped():
    cluster = ProcessCluster(2)
    Desk(cluster).start(2)
    pids = [*cluster.pids().values(), cluster._crew.parent.process.pid]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    cluster.close()
    assert not any(map(alive, pids))


def test_control_c_in_the_middle_of_closing_still_ends_all(monkeypatch, gate):
    before = descriptors()
    cluster = ProcessCluster(2)
    desk = Desk(cluster)
    workers = desk.start(2)
    pids = [*cluster.pids().values(), cluster._crew.parent.process.pid]
    cluster.load(1, works.Scaled(gate=gate))
    cluster.broadcast(1, 1, 0.0)
    for worker in workers:
        cluster.assign(worker, 1, tasks(0))
    real, calls = subprocess.Popen.wait, []

    def wait(process, timeout=None):
        calls.append(timeout)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        cluster.close()
    assert not any(map(alive, pids))
    cluster.close()
    assert not opened(before)


def test_a_worker_s_print_goes_nowhere_where_the_program_has_no_standard_descriptors(tmp_path):
    """Else it would write into whatever shared memory or socket got its number."""
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys
            import numpy as np
            from echelon.clusters import Message, ProcessCluster, Up
            from echelon.plan import Task
            from tests.clusters import works

            def kinds(state, part):
                print("x" * 100_000, flush=True)
                os.write(1, b"x" * 100_000)
                os.write(2, b"x" * 100_000)
                standard = [os.readlink(f"/proc/self/fd/{i}") for i in range(3)]
                return np.full(20_000, float(standard == ["/dev/null"] * 3) + float(state.sum()))

            cluster = ProcessCluster(2)
            cluster.load(1, works.Plain(kinds))
            reports, round, right = [], 1, 0
            while sum(isinstance(report, Up) for report in reports) < 2:
                reports += cluster.poll(None)
            for round in range(1, 6):
                cluster.broadcast(round, 1, np.ones(10_000))
                for worker in (0, 1):
                    cluster.assign(worker, round, [Task(slot=0, row=worker)])
                found = []
                while len(found) < 2:
                    found += [report for report in cluster.poll(None) if isinstance(report, Message)]
                right += sum(bool((message.segments[0] == 10_001.0).all()) for message in found)
                cluster.purge(round)
            cluster.close()
            with open(sys.argv[1], "w") as file:
                file.write(f"{right} {[os.readlink(f'/proc/self/fd/{i}') for i in range(3)]}")
            """
        )
    )
    out = tmp_path / "out"
    ended = subprocess.run(
        ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", sys.executable, str(script), str(out)],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert ended.returncode == 0
    assert out.read_text() == "10 ['/dev/null', '/dev/null', '/dev/null']"
