"""Worker processes on this machine: the default, which needs no server. Linux only; elsewhere use `threads`.

A small clean process forks the workers (`nursery`). Each has a socket pair with the master for typed frames (`frames`),
a memory for results over 32 kB, and shares with all others the board that ends rounds and the memory of states
(`memory`). A worker that dies is replaced, at the same place and under a new number.
"""

import contextlib
import logging
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any

from echelon import checks, trees
from echelon.clusters import blas_threads, frames, memory, shipping
from echelon.clusters.base import Down, Message, RealTime, Report, Trouble, Up
from echelon.clusters.mailbox import Mailbox
from echelon.clusters.pace import paces
from echelon.clusters.places import Places
from echelon.errors import ClusterError
from echelon.plan import Task
from echelon.profile import Profile

log = logging.getLogger("echelon.clusters")

# large results are copied into shared memory past the cache, where no worker needs them again: nearly twice as quick
_TUNABLES, _PAST_THE_CACHE = "GLIBC_TUNABLES", "glibc.cpu.x86_non_temporal_threshold=0x100000"
_BATCH = 64  # frames taken from one worker before the others get a turn
_ALL = 1 << 62  # a round after all rounds
_BUFFER = 1 << 20
_message: Callable[[tuple[Any, ...]], Message] = partial(tuple.__new__, Message)  # half the cost of its constructor


class ProcessCluster(RealTime):
    """Workers as processes of this machine.

    workers: how many; None for one per processor. With `emulate`, as many as the profile has; each takes the times that
    the profile's laws draw from `seed`. threads: how many a worker's linear algebra may use.

    >>> cluster = ProcessCluster(2)
    >>> all(isinstance(report, Up) for report in cluster.poll(None))  # of one worker, or of both
    True
    >>> cluster.close()
    """

    def __init__(
        self, workers: int | None = None, *, emulate: Profile | None = None, seed: int = 1, threads: int = 1
    ) -> None:
        if not sys.platform.startswith("linux"):
            raise ClusterError("worker processes need Linux (memfd, parent-death signal); use cluster='threads' here")
        self._paces = paces(workers, emulate, seed)
        self.workers = len(self._paces)
        self._threads = checks.whole("threads", threads, least=1, most=4096)
        self._board_fd = memory.create("echelon-board", memory.Board.size(self.workers))
        self._state_fd = memory.create("echelon-state", memory.RESERVED)
        self._board = memory.Board(self._board_fd, self.workers)
        self._states = memory.StateMemory(self._state_fd, self._being_read)
        self._epoll = select.epoll()
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._epoll.register(self._woken, select.EPOLLIN)
        self._handles: dict[int, Mailbox] = {}  # by descriptor
        self._numbers: dict[int, Mailbox] = {}
        self._works: dict[int, tuple[shipping.Packed, bytes]] = {}  # and the frame that announces it
        self._state: tuple[int, int, bytes, list[tuple[int, int]]] = (0, 0, b"", [])
        self._buffer = memoryview(bytearray(frames.FRAME))
        self._start: float | None = None
        self._places = Places(self.workers)
        self._closed = False
        self._waking = Lock()  # no write may go to a descriptor that is closed and perhaps reused
        self._start_nursery()
        for place in range(self.workers):
            self._spawn(place)

    # workers come and go

    def _start_nursery(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = dict(os.environ) | dict.fromkeys(blas_threads.NAMES, str(self._threads))
        tunables = [environment[_TUNABLES]] if environment.get(_TUNABLES) else []
        environment[_TUNABLES] = ":".join([_PAST_THE_CACHE, *tunables])
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        passed = (theirs.fileno(), self._board_fd, self._state_fd)
        with theirs:
            self._nursery = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "echelon.clusters.nursery",
                    *map(str, passed),
                    str(self.workers),
                    str(os.getpid()),
                ],
                pass_fds=passed,
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the master alone
            )
        self._control = ours
        self._epoll.register(ours, select.EPOLLIN)

    def _spawn(self, place: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        arena_fd = memory.create("echelon-results", memory.RESERVED)
        handle = Mailbox(self._places.next_number(), place, ours, memory.Arena(arena_fd), self._epoll)
        order = pickle.dumps((place, self._paces[place]))
        order_fd = memory.create("echelon-order", len(order))
        os.pwrite(order_fd, order, 0)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            # else the nursery is gone, which `poll` will see; this worker is then lost like all others
            socket.send_fds(self._control, [b"fork"], [theirs.fileno(), arena_fd, order_fd])
        theirs.close()
        os.close(arena_fd)
        os.close(order_fd)
        ours.setblocking(False)
        self._epoll.register(ours, select.EPOLLIN)
        self._handles[ours.fileno()] = handle
        self._numbers[handle.number] = handle
        for key in self._works:
            self._send_work(handle, key)

    def _greet(self, handle: Mailbox, pid: int) -> Up:
        handle.pid, handle.up = pid, True
        self._places.came_up(handle.place)
        return Up(handle.number, handle.place)

    def _lose(self, handle: Mailbox) -> list[Report]:
        self._epoll.unregister(handle.socket)
        del self._handles[handle.socket.fileno()], self._numbers[handle.number]
        handle.socket.close()
        handle.discard()
        self._board.read(handle.place, 0)
        at = self._board.worked(handle.place)
        self._board.work(handle.place, 0, 0, 0)
        reason = f"process {handle.pid} ended" if handle.up else "its process did not begin"
        self._places.died(handle.number, handle.place, up=handle.up, now=self.now(), reason=reason)
        return [Down(handle.number, handle.place, reason, at)] if handle.up else []

    def _hear_nursery(self) -> None:
        """Note how a worker's process ended, or that the nursery itself did."""
        try:
            news = self._control.recv(64)
        except ConnectionResetError:
            news = b""
        if not news:
            self._renew_nursery()
            return
        pid, status = frames.unpack_short(news)
        code = os.waitstatus_to_exitcode(status)
        how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        log.info("process %d of a worker ended by %s", pid, how)

    def _renew_nursery(self) -> None:
        """Start another nursery in place of one that died; its workers die with it and are respawned."""
        self._epoll.unregister(self._control)
        self._control.close()
        status = self._nursery.wait()
        if not self._places.births:
            raise ClusterError(f"no worker process could be started: their parent ended with status {status}")
        log.warning("the workers' parent process ended with status %s; a new one is started", status)
        self._places.births = 0
        self._start_nursery()

    def pids(self) -> dict[int, int]:
        """Return the process of each worker that is up, by its number."""
        return {handle.number: handle.pid for handle in list(self._numbers.values()) if handle.up}

    # work, states, lanes

    def pack(self, value: Any) -> shipping.Packed:
        """Put a value into a memory of its own."""
        return shipping.Packed(value)

    def load(self, key: int, work: Any) -> None:
        """Put a job's work into a memory of its own, where it is not in one yet, and tell all workers where it lies."""
        if key in self._works:
            self.unload(key)
        packed = work if isinstance(work, shipping.Packed) else self.pack(work)
        self._works[key] = packed, frames.pack_load(key, packed.pickled, packed.places)
        for handle in self._numbers.values():
            self._send_work(handle, key)

    def _send_work(self, handle: Mailbox, key: int) -> None:
        packed, frame = self._works[key]
        handle.send(0, frame, [os.dup(packed.descriptor)])

    def unload(self, key: int) -> None:
        """Forget a job's work; its memory is gone when the last worker has forgotten it."""
        del self._works[key]
        for handle in self._numbers.values():
            handle.send(0, frames.pack_short(frames.UNLOAD, 0, key))
        self._states.forget()

    def _being_read(self, round: int) -> bool:
        return round > self._board.over() or self._board.readers(round)

    def broadcast(self, round: int, key: int, state: Any) -> None:
        """Pack the state of a round: small ones go with the lanes, large arrays lie in one memory for all."""
        pickled, beside = shipping.pack_state(state)
        places: list[tuple[int, int]] = []
        if beside:
            _, size = shipping.place(beside, 0)
            places, _ = shipping.place(beside, self._states.take(size, round))
            for (at, nbytes), buffer in zip(places, beside, strict=True):
                self._states.memory[at : at + nbytes] = buffer
        self._state = round, key, pickled, places
        self._start = self.now()

    def assign(self, worker: int, round: int, tasks: Sequence[Task]) -> None:
        """Send tasks, and with the first of a round its state."""
        handle = self._numbers.get(worker)
        if handle is None:
            return  # it died, and the news is on its way
        handle.forget(self._board.over())
        of_state, key, pickled, places = self._state
        assert of_state == round, "broadcast before assign"
        # lanes that go out with the round begin with it, all at once; those given out later begin now
        start = self.now() if self._start is None else self._start
        for at in range(0, len(tasks), frames.TASKS):
            some = tasks[at : at + frames.TASKS]
            if handle.told == round:
                frame = frames.pack_lane(round, key, start, some, None)
            else:
                frame = frames.pack_lane(round, key, start, some, pickled, places)
                handle.told = round
            handle.send(round, frame)

    def purge(self, round: int) -> None:
        """End a round: one store that every worker looks at between parts."""
        self._board.end(round)

    def stop(self, round: int, slot: int) -> None:
        """End a slot of a round: one store again."""
        self._board.stop(round, slot)

    # what happens

    def poll(self, timeout_s: float | None) -> list[Report]:
        """Return what happened, after waiting for it at most this long."""
        self._start = None
        reports: list[Report] = []
        end = None if timeout_s is None else self.now() + timeout_s
        while True:
            now = self.now()
            for place in self._places.due(now):
                self._spawn(place)
            for descriptor, _ in self._epoll.poll(self._places.wait(end, now)):
                handle = self._handles.get(descriptor)
                if handle is not None:
                    self._listen(handle, reports)
                elif descriptor == self._control.fileno():
                    self._hear_nursery()
                else:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._woken, 4096)
                    return reports
            if reports or (end is not None and self.now() >= end):
                return reports

    def _listen(self, handle: Mailbox, reports: list[Report]) -> None:
        if handle.outbox:
            handle.flush()
        receive, buffer = handle.socket.recv_into, self._buffer
        try:
            for _ in range(_BATCH):
                size = receive(buffer)
                if not size:
                    reports.extend(self._lose(handle))
                    return
                reports.append(self._report(handle, bytes(buffer[:size])))
        except BlockingIOError:
            return
        except ConnectionResetError:
            reports.extend(self._lose(handle))

    def _report(self, handle: Mailbox, frame: bytes) -> Report:
        if frame[0] == frames.RESULT:
            round, slot, row, seconds, form, offset, at = frames.unpack_result(frame)
            if offset == frames.NOWHERE:
                segments, token = trees.views(form, frame, at), None
            else:
                segments, token = trees.views(form, handle.arena.memory, offset), (handle.arena, offset)
            return _message((handle.number, round, slot, row, seconds, form, segments, token))
        if frame[0] == frames.RAISED:
            return Trouble(handle.number, *frames.unpack_raised(frame))
        return self._greet(handle, frames.unpack_short(frame)[0])

    def release(self, message: Message) -> None:
        """Give back the memory of a message."""
        if message.token is not None:
            arena, offset = message.token
            arena.give_back(offset)

    def kill(self, worker: int) -> None:
        """Kill a worker's process, as an accident would; for tests."""
        handle = self._numbers.get(worker)
        if handle is not None and handle.up:
            with contextlib.suppress(ProcessLookupError):  # it died by itself, and the news is on its way
                os.kill(handle.pid, signal.SIGKILL)

    def wake(self) -> None:
        """End a `poll` that waits; from any thread."""
        with self._waking:
            if not self._closed:
                with contextlib.suppress(BlockingIOError):
                    os.write(self._wake, b"w")

    def close(self) -> None:
        """Stop all workers and leave nothing behind."""
        with self._waking:
            if self._closed:
                return
            self._closed = True
        self._board.end(_ALL)
        for handle in self._numbers.values():
            with contextlib.suppress(OSError):
                handle.socket.send(frames.pack_short(frames.QUIT))
        with contextlib.suppress(OSError):  # the nursery may be gone already
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        try:
            self._nursery.wait(timeout=10.0)
        except subprocess.TimeoutExpired:
            self._nursery.kill()
            self._nursery.wait()
        self._board.close()
        memory.detach(self._states.memory)
        for handle in self._numbers.values():
            memory.detach(handle.arena.memory)
            handle.socket.close()
            handle.discard()
        self._epoll.close()
        for descriptor in (self._woken, self._wake, self._board_fd, self._state_fd):
            os.close(descriptor)
        self._handles, self._numbers, self._works = {}, {}, {}
