"""A worker process: orders come as frames over its socket, large messages leave through shared memory."""

import contextlib
import mmap
import os
import select
import socket
import struct
import time
from functools import partial
from typing import Any

from echelon import trees
from echelon.arrays import NumberArray
from echelon.cause import Cause
from echelon.clusters import cuda, frames, seat, shipping
from echelon.clusters.base import Work
from echelon.clusters.lane_worker import LaneWorker
from echelon.clusters.memory import RESERVED, Arena, Board, attach_apart
from echelon.clusters.pace import Pace
from echelon.clusters.shelf import Shelf
from echelon.errors import ClusterError

_SMALL = 2048  # bytes that are quicker copied into one buffer than sent from two
_ONE_DESCRIPTOR = socket.CMSG_SPACE(struct.calcsize("i"))


def serve(
    place: int, pace: Pace | None, socket_fd: int, arena_fd: int, board_fd: int, state_fd: int, places: int
) -> None:
    """Work until the master says to stop, or is gone."""
    seat.take(place, process=True)
    worker = ProcessWorker(
        place,
        pace,
        socket.socket(fileno=socket_fd),
        Arena(arena_fd),
        Board(board_fd, places),
        attach_apart(state_fd, RESERVED),
    )
    os.close(arena_fd)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the master is gone: nobody is left to work for
        worker.run()


class ProcessWorker(LaneWorker):
    """A worker at the other end of a socket."""

    def __init__(
        self, place: int, pace: Pace | None, link: socket.socket, arena: Arena, board: Board, states: mmap.mmap
    ) -> None:
        super().__init__(pace)
        self._place, self._socket, self._arena, self._board, self._states = place, link, arena, board, states
        self._shelf = Shelf()
        self._block = frames.NOWHERE  # where the message that is being computed lies, if it does
        self._lending = cuda.Lending(arena.in_use)
        self._sizes: tuple[float, ...] = ()  # of the same message
        self._pid = os.getpid()
        self._socket.send(frames.pack_short(frames.HELLO, self._pid))

    def _check_process(self) -> None:
        """End a process that a part has forked and that came back from it: there must be no second worker here."""
        if os.getpid() != self._pid:
            os._exit(1)

    def over(self) -> int:
        """Return the last round that needs no work, from the board."""
        return self._board.over()

    def stopped(self, slot: int) -> bool:
        """Return whether a slot needs no more work, from the board."""
        return self._board.stopped(self.round, slot)

    def rest(self) -> None:
        """Say that no state is being read, and nothing computed."""
        self._check_process()
        self._board.read(self._place, 0)
        self._board.work(self._place, 0, 0, 0)
        self._lending.tidy()

    def at(self, slot: int, row: int) -> None:
        """Note on the board which row is being computed, and since when its current part."""
        self._check_process()
        self._board.work(self._place, self.round, slot, row, time.monotonic())

    def take(self, timeout_s: float | None) -> None:
        """Take in one frame."""
        if timeout_s is not None and not select.select([self._socket], [], [], timeout_s)[0]:
            return
        frame, beside, _, _ = self._socket.recvmsg(frames.FRAME, _ONE_DESCRIPTOR)
        if not frame or frame[0] == frames.QUIT:
            self.open = False
        elif frame[0] == frames.LANE:
            self._lane_frame(frames.unpack_lane(frame))
        elif frame[0] == frames.LOAD:
            key, pickled, buffers = frames.unpack_load(frame)
            if not beside:
                raise ClusterError("this worker has no descriptor left for a job's data: its tasks leave files open")
            (descriptor,) = struct.unpack_from("i", beside[0][2])
            os.set_inheritable(descriptor, False)
            self._socket.send(frames.pack_short(frames.TAKEN))
            work = partial(shipping.open_packed, descriptor, pickled, buffers)
            self._shelf.put(key, work, drop=partial(os.close, descriptor))
        else:
            self._unload(frames.unpack_short(frame)[1])

    def _lane_frame(self, lane: frames.LaneFrame) -> None:
        # first say that the state is being read, then look whether it may be: the master does it the other way round
        self._board.read(self._place, lane.round)
        self.begin(lane.round, lane.start, lane.tasks, None if lane.state is None else lambda: self._bring(lane))

    def _bring(self, lane: frames.LaneFrame) -> tuple[Work, Any]:
        state = shipping.unpack_state(lane.state, self._states, lane.buffers)
        return self._shelf.bring(lane.key, state)

    def _unload(self, key: int) -> None:
        self._shelf.pop(key)
        if not self._going():
            self.forget()
        self._lending.forget()
        self._arena.forget()

    def allocate(self, form: bytes, device: Any) -> list[Any] | None:
        """Return a block of shared memory for a large message; on a device, with a ticket for it in our memory."""
        self._check_process()
        layout = trees.layout(form)
        nbytes = layout.nbytes
        if nbytes <= frames.INLINE:
            return None
        if device is not None:
            self._block = self._arena.take(cuda.PAYLOAD)
            block = self._lending.take(self._block, nbytes, cuda.device_of(device))
            self._arena.memory[self._block : self._block + cuda.PAYLOAD] = block.payload
            self._block |= frames.DEVICE
            (segment,) = layout.segments
            return [cuda.numbers(block.tensor(), segment.dtype.name, segment.count)]
        self._block = self._arena.take(nbytes)
        return trees.views(form, self._arena.memory, self._block)

    def stage(self, form: bytes, segments: list[NumberArray]) -> None:
        """Put a large message into shared memory, unless it was written there to begin with."""
        if self._block == frames.NOWHERE:
            out = self.allocate(form, None)
            if out is not None:
                for target, segment in zip(out, segments, strict=True):
                    target[:] = segment
        self._sizes = () if self._block == frames.NOWHERE else self.sizes(self._slot, form, segments)

    def abandon(self) -> None:
        """Give back the block of a message that is not sent."""
        self._check_process()
        if self._block != frames.NOWHERE:
            self._arena.give_back(self._block & ~frames.DEVICE)
            self._block = frames.NOWHERE

    def send(self, slot: int, row: int, seconds: float, form: bytes, segments: list[NumberArray]) -> None:
        """Send a frame, with the message in it or with the place where it lies."""
        self._check_process()
        block, self._block = self._block, frames.NOWHERE
        head = frames.pack_result(self.round, slot, row, seconds, form, block, self._sizes)
        if block != frames.NOWHERE:
            self._socket.send(head)
        elif len(segments) == 1 and segments[0].nbytes > _SMALL:
            self._socket.sendmsg((head, segments[0].data))
        else:
            self._socket.send(frames.with_payload(head, form, segments))

    def complain(self, cause: Cause) -> None:
        """Say that a task raised."""
        self._check_process()
        self._socket.send(frames.pack_raised(self.round, cause))
