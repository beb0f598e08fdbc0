"""A small clean process that forks the workers: no threads to inherit, no main module to import again.

It ends, and with it every worker (by the parent-death signal), when the master says so or is gone for any reason.
"""

import contextlib
import ctypes
import os
import pickle
import select
import signal
import socket
import sys
import traceback

from echelon.clusters.frames import ENDED, pack_short
from echelon.clusters.worker import serve

_PR_SET_PDEATHSIG = 1
_GRACE_S = 0.5  # time for workers to end by themselves


def main(control_fd: int, board_fd: int, state_fd: int, places: int, master_pid: int) -> None:
    """Fork a worker whenever the master asks for one, until it is gone."""
    control = socket.socket(fileno=control_fd)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(woken, select.POLLIN)
    with contextlib.suppress(OSError):  # missing on old kernels; the closed socket tells as well
        poll.register(os.pidfd_open(master_pid), select.POLLIN)
    children: set[int] = set()
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
            for child, status in _reap(children):
                with contextlib.suppress(OSError):  # the master is gone, or not listening: it no longer matters
                    control.send(pack_short(ENDED, child, status), socket.MSG_DONTWAIT)
        if control.fileno() in ready:
            try:
                order, descriptors, _, _ = socket.recv_fds(control, 64, 3)
            except ConnectionResetError:  # the master is gone, and left something unread behind
                break
            if not order:
                break
            children.add(_fork(descriptors, (board_fd, state_fd, places)))
        elif ready - {woken}:
            break
    _end(children, woken)


def _fork(descriptors: list[int], shared: tuple[int, int, int]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        for descriptor in descriptors:
            os.close(descriptor)
        return child
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            link, arena, order = descriptors
            place, pace = pickle.loads(os.pread(order, os.fstat(order).st_size, 0))  # from the master only
            os.close(order)
            serve(place, pace, link, arena, *shared)
            status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _reap(children: set[int]) -> list[tuple[int, int]]:
    """Forget children that have ended; return each with its status."""
    ended = [(child, status) for child in children for pid, status in [os.waitpid(child, os.WNOHANG)] if pid]
    children.difference_update(child for child, _ in ended)
    return ended


def _end(children: set[int], woken: int) -> None:
    """Give workers a moment, then kill those that still run."""
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    _reap(children)
    while children and poll.poll(_GRACE_S * 1000):
        os.read(woken, 4096)
        _reap(children)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
