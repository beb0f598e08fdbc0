"""The worker processes of a cluster: who is there, who is gone and how, and who comes next.

A death is seen by the end of the process or of its socket, or by the word of the workers' parent, which also knows how
it came about. So neither a helper that holds the socket open nor a parent that is stopped hides it.
"""

import contextlib
import logging
import os
import pickle
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence

from echelon.clusters import frames, memory, proc
from echelon.clusters.base import Doing, Down, Report, Up
from echelon.clusters.mailbox import Mailbox
from echelon.clusters.pace import Pace
from echelon.clusters.parent import Parent
from echelon.clusters.places import Places
from echelon.clusters.printed import Printed
from echelon.errors import ClusterError

log = logging.getLogger("echelon.clusters")

_BUFFER = 1 << 20
_WORD_S = 2.0  # how long to wait for the parent's word on how a worker ended
_SHORT_S = 0.05  # until what the kernel had no room for is tried again
_BARREN = 3  # parents in a row without a worker that was ready, after which there will be none
_END_S = 1.0  # time for killed processes to be gone


class Crew:
    """Workers by number, and what leads to them.

    shared: descriptors of the board and the states. threads: how many a worker's linear algebra may use.
    welcome: called with a worker that was asked for; from then on it can be sent something.
    drain: called with a worker that is gone, to take in what it sent before.
    printed: reads what workers print.
    """

    def __init__(
        self,
        paces: Sequence[Pace | None],
        threads: int,
        shared: tuple[int, int],
        board: memory.Board,
        epoll: select.epoll,
        welcome: Callable[[Mailbox], None],
        drain: Callable[[Mailbox, list[Report]], None],
        printed: Printed,
    ) -> None:
        self.numbers: dict[int, Mailbox] = {}
        self.sockets: dict[int, Mailbox] = {}  # by descriptor, of those that are not gone
        self.parent: Parent | None = None
        self._paces, self._threads, self._shared, self._board, self._epoll = paces, threads, shared, board, epoll
        self._welcome, self._drain, self._printed = welcome, drain, printed
        self._processes: dict[int, Mailbox] = {}  # by descriptor of the process
        self._short: set[Mailbox] = set()  # to be flushed again soon
        self._ending: dict[int, float] = {}  # workers that are gone, and until when the parent's word is awaited
        self._parents: dict[int, Parent] = {}  # who forked a worker
        self._stuck = False  # whether a worker is awaited from a parent that is stopped
        self._barren = 0  # parents in a row none of whose workers was ready
        self._places = Places(len(paces))

    # how workers come

    def start(self) -> None:
        """Ask for the first workers; an `OSError` if that is not possible."""
        for place in range(len(self._paces)):
            self._spawn(place)

    def fill(self, now: float) -> None:
        """Fill the places that are due; where the system has too little for that, they are due again later."""
        for place in self._places.due(now):
            try:
                self._spawn(place)
            except OSError as error:
                self._places.refused(place, now=now, reason=error.strerror or str(error))

    def _spawn(self, place: int) -> None:
        if self.parent is None:
            self.parent = Parent(self._shared, len(self._paces), self._threads)
            self._epoll.register(self.parent.control, select.EPOLLIN)
        with contextlib.ExitStack() as undo, contextlib.ExitStack() as passed:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            undo.callback(ours.close)
            passed.callback(theirs.close)
            for end in (ours, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            arena_fd = memory.create("echelon-results", memory.RESERVED)
            passed.callback(os.close, arena_fd)
            arena = memory.Arena(arena_fd)
            order = pickle.dumps((place, self._paces[place], self._printed.passed))
            order_fd = memory.create("echelon-order", len(order))
            passed.callback(os.close, order_fd)
            os.pwrite(order_fd, order, 0)
            pipes = self._printed.pipes(place)
            for pipe in pipes:
                passed.callback(os.close, pipe)
            ours.setblocking(False)
            self._epoll.register(ours, select.EPOLLIN)
            number = self._places.next_number()
            self.parent.fork(number, [theirs.fileno(), arena_fd, order_fd, *pipes])
            undo.pop_all()
        handle = Mailbox(number, place, ours, arena, self._epoll, self._short)
        self._parents[number] = self.parent
        self.sockets[ours.fileno()] = self.numbers[number] = handle
        self._welcome(handle)

    def greet(self, handle: Mailbox, pid: int) -> Up:
        """Note that a worker is ready, as this process."""
        if handle.up:
            raise ValueError("it was ready before")
        handle.greet(pid)
        if handle.process is not None:
            self._epoll.register(handle.process, select.EPOLLIN)
            self._processes[handle.process] = handle
        self._places.came_up(handle.place)
        return Up(handle.number, handle.place)

    # how workers go

    def hear(self, descriptor: int, reports: list[Report]) -> None:
        """Take in what a descriptor has to say that is not a worker's socket."""
        handle = self._processes.get(descriptor)
        if handle is not None:
            if handle.ended():  # else the number was another's a moment ago
                self._drain(handle, reports)
                self.gone(handle, reports)
        elif self.parent is not None and descriptor == self.parent.control.fileno():
            self._hear_parent(self.parent, reports)

    def gone(self, handle: Mailbox, reports: list[Report]) -> None:
        """Note that a worker's process or socket has ended; its parent will say how, unless it is stopped itself."""
        if handle.ending:
            return
        handle.ending = True
        del self.sockets[handle.socket.fileno()]
        self._epoll.unregister(handle.socket)
        if handle.process is not None:
            del self._processes[handle.process]
            self._epoll.unregister(handle.process)
        self._ending[handle.number] = time.monotonic() + _WORD_S
        if self._parents[handle.number] is not self.parent:  # which is gone, and says no more
            self._lose(handle, None, reports)
        elif self.parent is not None and self.parent.stopped:
            self._renew_parent("is stopped", reports)

    def _lose(self, handle: Mailbox, status: int | None, reports: list[Report]) -> None:
        """Report a worker that is gone, and have its place filled again."""
        del self.numbers[handle.number], self._ending[handle.number], self._parents[handle.number]
        how = _how(status)
        if status is None and handle.process is not None and not handle.ended():
            handle.kill()
            how = "closed its socket and was killed"
        known, pid = self._board.worked(handle.place), handle.pid
        handle.close()
        self._board.read(handle.place, 0)
        self._board.work(handle.place, 0, 0, 0)
        if handle.up:
            reason = handle.reason or f"process {pid} {how}"
            reports.append(Down(handle.number, handle.place, reason, None if known is None else known[0]))
        else:
            reason = f"its process {how}"
        self._places.died(handle.number, handle.place, up=handle.up, now=time.monotonic(), reason=reason)

    def _hear_parent(self, parent: Parent, reports: list[Report]) -> None:
        """Hear how a worker's process ended, or that none could be forked, or that the parent itself has ended."""
        while (news := parent.hear()) is not None:
            if not news:
                self._renew_parent("has ended", reports)
                return
            if news[0] == frames.REFUSED:
                (error, number), status = frames.unpack_short(news), None
                if number < len(self._paces):  # one of the first
                    raise ClusterError(
                        f"worker {number + 1} of {len(self._paces)} can't be started: {os.strerror(error)}; ask for "
                        "fewer workers, or raise what the system allows (ulimit -u, memory)"
                    )
            else:
                number, _, status = frames.unpack_ended(news)
            handle = self.numbers.get(number)
            if handle is not None:
                self._drain(handle, reports)
                self.gone(handle, reports)
                if number in self._ending:
                    self._lose(handle, status, reports)

    def _renew_parent(self, what: str, reports: list[Report]) -> None:
        """Do without a parent that forks no more; its workers end with it, and the first successor gets another."""
        parent, self.parent = self.parent, None
        assert parent is not None
        self._stuck = False
        self._epoll.unregister(parent.control)
        status = parent.end()
        self._barren = 0 if self._places.births else self._barren + 1
        if self._barren >= _BARREN:
            raise ClusterError(f"no worker process could be started: their parent ended with status {status}")
        log.warning("the workers' parent, process %d, %s: it and all workers are succeeded", parent.process.pid, what)
        self._places.births = 0
        for number in list(self._ending):
            self._lose(self.numbers[number], None, reports)

    def wait(self, end: float | None, now: float, reports: list[Report]) -> float | None:
        """Do what is due; return how long to wait for the next of it, or until `end` (None: for ever)."""
        wait = self._places.wait(end, now)
        if not self._ending and not self._short and not self._stuck:
            return wait
        if self._stuck and self.parent is not None:
            self._renew_parent("is stopped", reports)
        late = [number for number, until in self._ending.items() if until <= now]
        if late and self.parent is not None and self.parent.stopped:
            self._renew_parent("is stopped", reports)
        for number in set(late) & set(self._ending):
            self._lose(self.numbers[number], None, reports)
        short = list(self._short)
        self._short.clear()
        for handle in short:
            handle.flush()
        waits = [max(0.0, until - now) for until in self._ending.values()]
        waits += [_SHORT_S] if self._short else []
        return 0.0 if reports else min([*waits, *([] if wait is None else [wait])], default=None)

    # what is known of them

    def pids(self) -> dict[int, int]:
        """Return the process of each worker that is up, by its number."""
        return {handle.number: handle.pid for handle in list(self.numbers.values()) if handle.up and not handle.ending}

    def ending(self, worker: int) -> bool:
        """Return whether a worker is gone or going: then memory of devices that it lent may be gone, too."""
        known = self.numbers.get(worker)
        return known is None or known.ending or proc.ending(known.pid)

    def doing(self) -> list[Doing]:
        """Return what each worker does, from the board, and whether the system has it stopped."""
        found = []
        for handle in self.numbers.values():
            if handle.up and not handle.ending:
                at, since = self._board.worked(handle.place) or (None, None)
                found.append(Doing(handle.number, at, since, proc.stopped(handle.pid)))
        awaited = any(not handle.up for handle in self.numbers.values())
        self._stuck = awaited and self.parent is not None and self.parent.stopped  # for the next `wait`
        return found

    def kill(self, worker: int, reason: str) -> None:
        """Kill a worker's process, also one that is stopped; from any thread."""
        handle = self.numbers.get(worker)
        if handle is not None and handle.up:
            handle.reason = reason
            handle.kill()

    def close(self) -> None:
        """End all workers and their parent, by force where they do not by themselves, or when Ctrl-C comes."""
        with contextlib.ExitStack() as ends:
            ends.callback(self._drop)
            if self.parent is not None:
                ends.callback(self.parent.close)
            for handle in self.numbers.values():
                with contextlib.suppress(OSError):
                    handle.socket.send(frames.pack_short(frames.QUIT))

    def _drop(self) -> None:
        """Wait for processes that have lost their parent, and close all that leads to them."""
        end = time.monotonic() + _END_S
        for handle in self.numbers.values():
            if handle.process is not None:
                handle.kill()
                handle.ended(max(0.0, end - time.monotonic()))
            memory.detach(handle.arena.memory)
            handle.close()
        self.numbers, self.sockets, self._processes = {}, {}, {}


def _how(status: int | None) -> str:
    """Return how a process ended, by its status as of `waitpid`."""
    if status is None:
        return "ended"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"was killed by signal {-code}"
