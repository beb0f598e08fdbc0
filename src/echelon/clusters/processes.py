"""Worker processes on this machine: the default, which needs no server. Linux only; elsewhere use `threads`.

A small clean process forks the workers (`nursery`). Each has a socket pair with the master for typed frames (`frames`),
a memory for results over 32 kB, and shares with all others the board that ends rounds and the memory of states
(`memory`). A worker that dies is replaced, at the same place and under a new number (`crew`). What workers print comes
out in whole lines with their names (`printed`).
"""

import contextlib
import logging
import os
import select
import sys
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from echelon import checks, trees
from echelon.arrays import NumberArray
from echelon.cause import caught
from echelon.clusters import cuda, frames, memory, parallel, seat, shipping
from echelon.clusters.adding import Adding
from echelon.clusters.base import Doing, Message, RealTime, Report, Total, Trouble, Vanished
from echelon.clusters.crew import Crew
from echelon.clusters.cuda import NotShared
from echelon.clusters.mailbox import Mailbox
from echelon.clusters.pace import paces
from echelon.clusters.printed import Printed
from echelon.errors import ClusterError
from echelon.plan import Task
from echelon.profile import Profile

log = logging.getLogger("echelon.clusters")

_BATCH = 64  # frames taken from one worker before the others get a turn
_ALL = 1 << 62  # a round after all rounds
_message: Callable[[tuple[Any, ...]], Message] = partial(tuple.__new__, Message)  # half the cost of its constructor


def _on_its_device(message: Message) -> bool:
    return any(not isinstance(segment, np.ndarray) for segment in message.segments)


def _on_device(form: bytes, arena: memory.Arena, ticket: int) -> list[Any]:
    """Return the segment of a message that lies in the memory of a device."""
    (segment,) = trees.layout(form).segments
    return [cuda.numbers(arena.device_memory(ticket), segment.dtype.name, segment.count)]


class ProcessCluster(RealTime, Adding):
    """Workers as processes of this machine.

    workers: how many; None for one per processor. With `emulate`, as many as the profile has; each takes the times that
    the profile's laws draw from `seed`. threads: how many a worker's linear algebra may use.

    >>> from echelon.clusters import Up
    >>> cluster = ProcessCluster(2)
    >>> all(isinstance(report, Up) for report in cluster.poll(None))  # of one worker, or of both
    True
    >>> cluster.close()
    """

    one_host = True

    def __init__(
        self, workers: int | None = None, *, emulate: Profile | None = None, seed: int = 1, threads: int = 1
    ) -> None:
        if not sys.platform.startswith("linux"):
            raise ClusterError("worker processes need Linux (memfd, parent-death signal); use cluster='threads' here")
        super().__init__()
        self._paces = paces(workers, emulate, seed)
        self.workers = len(self._paces)
        self.names = seat.names(self.workers, emulate)
        self._threads = checks.whole("threads", threads, least=1, most=4096)
        self._works: dict[int, tuple[shipping.Packed, bytes]] = {}  # and the frame that announces it
        self._state: tuple[int, int, bytes, list[tuple[int, int]]] = (0, 0, b"", [])
        self._buffer = memoryview(bytearray(frames.FRAME))
        self._start: float | None = None
        self._closed = False
        self._waking = Lock()  # no write may go to a descriptor that is closed and perhaps reused
        self._ends = contextlib.ExitStack()
        try:
            self._begin()
        except OSError as error:
            self.close()
            raise ClusterError(
                f"{self.workers} worker processes can't be started: {error.strerror or error}; ask for fewer, or raise "
                "what the system allows (ulimit -n, ulimit -u, memory)"
            ) from error
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Take what the cluster needs from the system; how it is given back is noted each time."""
        later = self._ends.callback
        memory.fill_standard()
        board_fd = memory.create("echelon-board", memory.Board.size(self.workers))
        later(os.close, board_fd)
        state_fd = memory.create("echelon-state", memory.RESERVED)
        later(os.close, state_fd)
        self._board = memory.Board(board_fd, self.workers)
        later(self._board.close)
        self._states = memory.StateMemory(state_fd, self._being_read)
        later(memory.detach, self._states.memory)
        self._epoll = select.epoll()
        later(self._epoll.close)
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        later(os.close, self._woken)
        later(os.close, self._wake)
        self._epoll.register(self._woken, select.EPOLLIN)
        printed = Printed(self.names)
        later(printed.close)
        self._crew = Crew(
            self._paces, self._threads, (board_fd, state_fd), self._board, self._epoll, self._welcome, self._drain,
            printed,
        )  # fmt: skip
        later(self._crew.close)
        later(self._board.end, _ALL)
        self._crew.start()

    def _welcome(self, handle: Mailbox) -> None:
        for key in self._works:
            self._send_work(handle, key)

    def pids(self) -> dict[int, int]:
        """Return the process of each worker that is up, by its number."""
        return self._crew.pids()

    def doing(self) -> list[Doing]:
        """Return what each worker does, from the board, and whether the system has it stopped."""
        return self._crew.doing()

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
        for handle in self._crew.numbers.values():
            self._send_work(handle, key)

    def _send_work(self, handle: Mailbox, key: int) -> None:
        packed, frame = self._works[key]
        handle.load(key, frame, packed)

    def unload(self, key: int) -> None:
        """Forget a job's work; its memory is gone when the last worker has forgotten it."""
        del self._works[key]
        for handle in self._crew.numbers.values():
            handle.forget(self._board.over())
            handle.arena.opened.clear()
            handle.unload(key, frames.pack_short(frames.UNLOAD, 0, key))
        self._states.forget()
        self._rooms.clear()

    def _being_read(self, round: int) -> bool:
        return round > self._board.over() or self._board.readers(round)

    def broadcast(self, round: int, key: int, state: Any) -> None:
        """Pack the state of a round: small ones go with the lanes, large arrays lie in one memory for all."""
        pickled, beside = shipping.pack_state(state)
        places: list[tuple[int, int]] = []
        if beside:
            _, size = shipping.place(beside, 0)
            places, _ = shipping.place(beside, self._states.take(size, round))
            room = np.frombuffer(self._states.memory, np.uint8)
            there = [room[at : at + nbytes] for at, nbytes in places]
            parallel.copy([(to, np.frombuffer(of, np.uint8)) for to, of in zip(there, beside, strict=True)])
        self._state = round, key, pickled, places
        self._start = self.now()

    def assign(self, worker: int, round: int, tasks: Sequence[Task]) -> None:
        """Send tasks, and with the first of a round its state."""
        handle = self._crew.numbers.get(worker)
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
            self._crew.fill(now)
            for descriptor, _ in self._epoll.poll(self._crew.wait(end, now, reports)):
                handle = self._crew.sockets.get(descriptor)
                if handle is not None:
                    self._listen(handle, reports)
                elif descriptor == self._woken:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._woken, 4096)
                    return reports
                else:
                    self._crew.hear(descriptor, reports)
            if reports or (end is not None and self.now() >= end):
                return reports

    def _drain(self, handle: Mailbox, reports: list[Report]) -> None:
        """Take in all that a worker sent before it ended."""
        while not handle.ending and self._listen(handle, reports):
            pass

    def _listen(self, handle: Mailbox, reports: list[Report]) -> bool:
        """Take in some frames of a worker; return whether there may be more."""
        if handle.outbox:
            handle.flush()
        receive, buffer = handle.socket.recv_into, self._buffer
        try:
            for _ in range(_BATCH):
                size = receive(buffer)
                if not size:
                    break
                if buffer[0] == frames.RESULT:
                    self._result(handle, bytes(buffer[:size]), reports)
                else:
                    self._other(handle, bytes(buffer[:size]), reports)
            else:
                return True
        except BlockingIOError:
            return False
        except ConnectionResetError:
            pass
        except Exception as error:  # of a frame that no worker sends
            log.warning("worker %d (place %d) sent garbage and is killed: %r", handle.number, handle.place, error)
            handle.reason = f"process {handle.pid} sent garbage ({error}) and was killed"
            handle.kill()
        self._crew.gone(handle, reports)
        return False

    def _result(self, handle: Mailbox, frame: bytes, reports: list[Report]) -> None:
        round, slot, row, seconds, form, offset, at, sizes = frames.unpack_result(frame)
        if offset == frames.NOWHERE:
            segments, token = trees.views(form, frame, at), None
        else:
            arena, ticket = handle.arena, offset & ~frames.DEVICE
            arena.lend(ticket)
            token = arena, ticket
            try:
                segments = trees.views(form, arena.memory, offset) if ticket == offset else _on_device(form, *token)
            except NotShared as error:
                arena.give_back(ticket)
                if not self._crew.ending(handle.number):  # else the memory went with it, and its end is reported
                    reports.append(Trouble(handle.number, round, caught(error)))
                return
        reports.append(_message((handle.number, round, slot, row, seconds, form, segments, token, sizes)))

    def _other(self, handle: Mailbox, frame: bytes, reports: list[Report]) -> None:
        if frame[0] == frames.RAISED:
            reports.append(Trouble(handle.number, *frames.unpack_raised(frame)))
        elif frame[0] == frames.TAKEN:
            handle.taken()
        elif frame[0] == frames.HELLO:
            reports.append(self._crew.greet(handle, frames.unpack_short(frame)[0]))
        else:
            raise ValueError(f"{frame[0]} is no kind of frame")

    def combine(self, weights: NumberArray, messages: Sequence[Message]) -> Total:
        """Return the weighted sum of messages; what lies on a device goes with the process of its worker."""
        total = super().combine(weights, messages)
        gone = tuple(message for message in messages if _on_its_device(message) and self._crew.ending(message.worker))
        if gone:
            raise Vanished(gone)
        return total

    def release(self, message: Message) -> None:
        """Give back the memory of a message."""
        if message.token is not None:
            arena, offset = message.token
            arena.give_back(offset)

    def kill(self, worker: int, reason: str = "killed") -> None:
        """Kill a worker's process, also one that is stopped; from any thread."""
        self._crew.kill(worker, reason)

    def wake(self) -> None:
        """End a `poll` that waits; from any thread."""
        with self._waking:
            if not self._closed:
                with contextlib.suppress(BlockingIOError):
                    os.write(self._wake, b"w")

    def close(self) -> None:
        """Stop all workers and leave nothing behind, even if Ctrl-C comes in the middle of it."""
        with self._waking:
            if self._closed:
                return
            self._closed = True
        self._works = {}
        self._ends.close()
