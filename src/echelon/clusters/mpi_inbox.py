"""Orders on their way to a worker of an MPI run."""

import os
import signal
import time
from collections import deque
from typing import Any

import numpy as np

from echelon.clusters import frames
from echelon.clusters.mpi_link import MASTER, Link, Patience, Places
from echelon.clusters.mpi_peer import ORDERS, Peer
from echelon.clusters.mpi_plane import SPREAD_LANE

# kinds of frames besides those of `frames`
OPEN, CLOSE, PURGE, STOP, DIE, BYE = 31, 32, 33, 34, 35, 36
SERVE_S = 2e-3  # how often to look for orders while rows are held here
_ALL = 1 << 62  # a round after all rounds
_FOREVER_S = 3600.0
_QUIET_S = 5e-3  # without bytes from other ranks, after which to look less often


class Order:
    """A frame, taken apart, and the memory into which the buffers that it announced are being received.

    at: when it was seen. spread: the number of the operation that brings the state of a lane, or 0.
    """

    __slots__ = ("_link", "_requests", "at", "frame", "lane", "load", "memory", "spread", "stream")

    def __init__(self, link: Link, stream: int, frame: bytearray) -> None:
        self.spread = 0
        if frame[0] == SPREAD_LANE:
            head = len(frames.pack_short(SPREAD_LANE))
            self.spread, frame = frames.unpack_short(frame)[1], frame[head:]
        self.stream, self.frame, self.at = stream, frame, time.monotonic()
        self.lane: frames.LaneFrame | None = None
        self.load: tuple[int, int, Places] = (0, 0, ())  # key, bytes of the pickle, where its arrays lie
        self.memory: Any = b""
        self._link, self._requests = link, []
        places: Places = ()
        if frame[0] == frames.LANE:
            self.lane = frames.unpack_lane(frame)
            places = self.lane.buffers if not self.spread else ()
        elif frame[0] == frames.LOAD:
            self.load = frames.unpack_load(frame)
            places = [(0, self.load[1]), *self.load[2]]
        if places:
            self.memory = np.empty(places[-1][0] + places[-1][1], dtype=np.uint8)
            self._requests = link.collect(MASTER, self.memory, places)

    def complete(self) -> None:
        """Wait until all buffers are there."""
        patience = Patience()
        for request in self._requests:
            while not self._link.over(request):
                patience.wait(1.0, moving=True)
        self._requests = []


class Inbox:
    """Orders that have arrived. Those that end something are looked at even while a lane is at work.

    waiting: whether the main thread waits for orders, and serves other ranks itself.
    """

    def __init__(self, link: Link, peer: Peer) -> None:
        self._link, self.peer = link, peer
        self.looks, self.waiting = 0, False
        self._orders: deque[Order] = deque()
        self._over = (0, 0)  # the last stream and round known to need no work
        self._stopped: dict[int, tuple[int, int]] = {}  # in which stream and round a slot was last recovered

    def look(self, *, first: bool = False) -> None:
        """Take in what has arrived, or only its first order."""
        self.looks += 1
        with self._link.lock:  # frames must stay in order, and what they announce follows them
            self._look(first)

    def _look(self, first: bool) -> None:
        try:
            while (found := self._link.receive()) is not None:
                _, stream, frame = found
                kind = frame[0]
                if kind in ORDERS:
                    self.peer.hear(stream, frame)
                elif kind == PURGE:
                    self._over = max(self._over, (stream, frames.unpack_short(frame)[1]))
                elif kind == STOP:
                    slot, round = frames.unpack_short(frame)
                    self._stopped[slot] = stream, round
                elif kind == DIE:
                    os.kill(os.getpid(), signal.SIGKILL)
                else:
                    if kind == CLOSE:
                        self._over = max(self._over, (stream, _ALL))
                    self._orders.append(Order(self._link, stream, frame))
                    if first:
                        return
        except self._link.mpi.Exception as error:
            self._link.news_of_loss(error)
            if MASTER in self._link.lost:
                raise  # nobody is left to work for

    def take(self, timeout_s: float | None) -> Order | None:
        """Return the next order, after waiting for it at most this long."""
        self.waiting = True
        try:
            return self._take(timeout_s)
        finally:
            self.waiting = False

    def serve(self) -> None:
        """Do what other ranks need of this one, in the middle of a task."""
        patience, quiet = Patience(), time.monotonic()
        while not self.waiting:
            self._look_again()
            served = self.peer.step()
            if served:
                patience, quiet = Patience(), time.monotonic()
            elif served is None or time.monotonic() - quiet > _QUIET_S:
                return
            else:
                patience.wait(SERVE_S)

    def _look_again(self) -> None:
        looks = self.looks
        self.look()
        self.looks = looks  # it is the main thread's looks that are counted

    def _take(self, timeout_s: float | None) -> Order | None:
        end = time.monotonic() + (_FOREVER_S if timeout_s is None else timeout_s)
        patience, serving = Patience(self._link), Patience()
        self.look()
        while True:
            if self._orders:
                return self._orders.popleft()
            served = self.peer.step()
            moving = not self._link.flush()
            left = end - time.monotonic()
            if left > 0:
                if served is None:
                    patience.wait(left, moving=moving)
                elif served:
                    patience, serving = Patience(self._link), Patience()
                else:
                    serving.wait(left)
                # an awaited order is new: looking for what ends it would only yield before it begins
                self.look(first=True)
            elif timeout_s is not None:
                return None

    def over(self, stream: int) -> int:
        """Return the last round of a stream that needs no work."""
        return self._over[1] if self._over[0] == stream else 0 if self._over[0] < stream else _ALL

    def stopped(self, stream: int, round: int, slot: int) -> bool:
        """Return whether a slot of a round needs no more work."""
        return self._stopped.get(slot) == (stream, round)
