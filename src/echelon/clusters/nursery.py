"""A small clean process that forks the workers: no threads to inherit, no main module to import again.

It ends, and with it every worker (by the parent-death signal), when the master says so or is gone for any reason.
"""

import contextlib
import ctypes
import errno
import os
import pickle
import select
import signal
import socket
import sys
import time
import traceback

from echelon.clusters.frames import REFUSED, pack_ended, pack_short, unpack_short
from echelon.clusters.memory import fill_standard
from echelon.clusters.outlet import NAMES
from echelon.clusters.worker import serve

_PR_SET_PDEATHSIG = 1
_GRACE_S = 0.5  # time for workers to end by themselves
_PASSED = 5  # descriptors that come with an order, at most: three, and up to two for what the worker prints
_LINES = 1  # _IOLBF of C


def main(control_fd: int, board_fd: int, state_fd: int, places: int, master_pid: int) -> None:
    """Fork a worker whenever the master asks for one, until it is gone."""
    fill_standard()
    for descriptor in (control_fd, board_fd, state_fd):
        os.set_inheritable(descriptor, False)  # programs that a task starts have nothing to do with them
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
    children: dict[int, int] = {}  # the worker's number, by process
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
            for number, child, status in _reap(children):
                _tell(control, pack_ended(number, child, status))
        if control.fileno() in ready:
            try:
                order, descriptors, _, _ = socket.recv_fds(control, 64, _PASSED)
            except ConnectionResetError:  # the master is gone, and left something unread behind
                break
            if not order:
                break
            number, sent = unpack_short(order)
            try:
                own = control_fd, woken, wake
                children[_fork(descriptors, sent, (board_fd, state_fd, places), own)] = number
            except OSError as error:
                _tell(control, pack_short(REFUSED, error.errno or 0, number))
        elif ready - {woken}:
            break
    _end(children, woken)


def _tell(control: socket.socket, frame: bytes) -> None:
    with contextlib.suppress(OSError):  # the master is gone, or not listening: then it looks for itself
        control.send(frame, socket.MSG_DONTWAIT)


def _fork(descriptors: list[int], sent: int, shared: tuple[int, int, int], own: tuple[int, ...]) -> int:
    """Fork a worker, which gets the descriptors that were sent and has no use for our own; return its process."""
    parent = os.getpid()
    try:
        if len(descriptors) < sent:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        child = os.fork()
    except OSError:
        for descriptor in descriptors:
            os.close(descriptor)
        raise
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
            for descriptor in own:
                os.close(descriptor)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            link, arena, order, *pipes = descriptors
            place, pace, passed = pickle.loads(os.pread(order, os.fstat(order).st_size, 0))  # from the master only
            os.close(order)
            for pipe, standard in zip(pipes, passed, strict=True):
                _print_to(pipe, standard)
            serve(place, pace, link, arena, *shared)
            status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _print_to(pipe: int, standard: tuple[int, ...]) -> None:
    """Put a pipe in place of standard descriptors; each line goes there at once, also that of a library in C."""
    libc = ctypes.CDLL(None)
    for descriptor in standard:
        os.dup2(pipe, descriptor)
        getattr(sys, NAMES[descriptor]).reconfigure(line_buffering=True)
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, NAMES[descriptor]), None, _LINES, 0)
    os.close(pipe)


def _reap(children: dict[int, int]) -> list[tuple[int, int, int]]:
    """Forget children that have ended; return the number, process and status of each."""
    ended = [(child, status) for child in children for pid, status in [os.waitpid(child, os.WNOHANG)] if pid]
    return [(children.pop(child), child, status) for child, status in ended]


def _end(children: dict[int, int], woken: int) -> None:
    """Give workers a moment, then kill those that still run."""
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    _reap(children)
    end = time.monotonic() + _GRACE_S
    while children and poll.poll(max(0.0, end - time.monotonic()) * 1000):
        os.read(woken, 4096)
        _reap(children)
    for child in children:
        os.kill(child, signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
