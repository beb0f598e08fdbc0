"""A worker's part in what ranks send each other: rows that it holds, sums that it adds up, states that it passes on.

Orders are acted upon by whichever thread looks for them first, so that they need not wait for the end of a task.
"""

from collections import deque
from threading import Lock

import numpy as np

from echelon.arrays import NumberArray
from echelon.clusters import frames
from echelon.clusters.adding import Rooms
from echelon.clusters.mpi_adder import Adding, send_shares
from echelon.clusters.mpi_link import MASTER, Link
from echelon.clusters.mpi_plane import (
    DROP,
    FORGET,
    FREE,
    LOST,
    PATCH,
    PING,
    PONG,
    SPREAD,
    SUM,
    Key,
    Order,
    Outbox,
    Spread,
    unpacked,
)
from echelon.clusters.mpi_state import Incoming

ORDERS = {SPREAD, PATCH, FORGET, SUM, DROP, FREE, LOST, PING}


class Peer:
    """See the module.

    states: those that are coming or have come, by their numbers, until the next one.
    """

    def __init__(self, link: Link) -> None:
        self._link, self._outbox = link, Outbox(link)
        self.rooms = Rooms()
        self.states: dict[int, Incoming] = {}
        self._held: dict[tuple[int, ...], list[NumberArray]] = {}
        self._coming: list[Incoming] = []
        self._sums: list[Adding] = []
        self._spare: list[NumberArray] = []
        self._orders: deque[tuple[int, bytearray]] = deque()
        self._lock = Lock()
        self._sending = False

    def hold(self, stream: int, key: Key, segments: list[NumberArray]) -> None:
        """Keep a row until it is released."""
        self._held[(stream, *key)] = segments
        self._link.leaving.set()  # from now on orders may come at any time

    @property
    def busy(self) -> bool:
        """Whether orders may come that should not wait for the end of a task."""
        return bool(self._held or self._orders or self._sums or self._coming or self._sending)

    def hear(self, stream: int, frame: bytearray) -> None:
        """Take in an order."""
        if frame[0] == PING:
            self._link.send(MASTER, stream, frames.pack_short(PONG))
        else:
            self._orders.append((stream, frame))
            self._link.leaving.set()

    def forget(self) -> None:
        """Give back memory that nobody needs just now."""
        with self._lock:
            self.rooms.clear()
            self._spare.clear()

    def close(self, stream: int) -> None:
        """Drop all that belongs to a stream; what is under way comes to its end."""
        self.forget()
        with self._lock:
            self._held = {key: segments for key, segments in self._held.items() if key[0] != stream}
            for sums in self._sums:
                sums.dropped |= sums.stream == stream
            for state in self._coming:
                state.forgotten |= state.stream == stream
            self.states.clear()

    def step(self) -> bool | None:
        """Do what can be done now; return whether something was, or None if nothing is left to do."""
        if not self.busy:
            return None
        if not self._lock.acquire(blocking=False):
            return False  # another thread is at it
        try:
            moved = bool(self._orders)
            while self._orders:
                self._obey(*self._orders.popleft())
            for state in self._coming:
                moved |= state.step()
            for sums in self._sums:
                moved |= sums.step()
            self._coming = [state for state in self._coming if not state.over]
            self._sums = [sums for sums in self._sums if not sums.over]
            self._sending = self._outbox.step()
            return moved or (False if self._sums or self._coming or self._sending else None)
        finally:
            self._lock.release()

    def _obey(self, stream: int, frame: bytearray) -> None:
        kind = frame[0]
        if kind == SUM:
            order = Order(*unpacked(frame))
            send_shares(self._link, self._outbox, order, self._held, stream)
            for share in order.shares:
                if share.adder == self._link.rank:
                    self._sums.append(
                        Adding(
                            self._link,
                            self._outbox,
                            stream,
                            order,
                            share,
                            held=self._held,
                            rooms=self.rooms,
                            spare=self._spare,
                        )
                    )
        elif kind == SPREAD:
            self._spread(stream, Spread(*unpacked(frame)))
        elif kind == FREE:
            for key in unpacked(frame):
                self._held.pop((stream, *key), None)
        elif kind == LOST:
            self._lose(*frames.unpack_short(frame))
        elif kind == PATCH:
            number, share, operation = unpacked(frame)
            for state in self._known(number):
                state.patch(share, operation)
                if state not in self._coming:
                    self._coming.append(state)
        else:
            number = frames.unpack_short(frame)[1]
            for state in self._known(number):
                state.forgotten = True
            for sums in self._sums:
                sums.dropped |= sums.number == number

    def _known(self, number: int) -> list[Incoming]:
        found = self.states.get(number)
        return [found] if found is not None else [state for state in self._coming if state.number == number]

    def _spread(self, stream: int, spread: Spread) -> None:
        room = self.rooms.take(np.dtype(np.uint8), spread.size)
        memory = np.empty(spread.size, np.uint8) if room is None else room
        state = Incoming(self._link, self._outbox, stream, spread, memory)
        self.states = {spread.number: state}
        self._coming.append(state)

    def _lose(self, rank: int, dead: int) -> None:
        if dead:
            self._link.lost.add(rank)
        for state in self._coming:
            state.lose(rank)
        for sums in self._sums:
            sums.lose(rank)
