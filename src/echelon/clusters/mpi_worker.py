"""A worker of an MPI run: a rank that takes orders from rank 0, for one stream after another."""

import os
import pickle
import signal
import sys
import time
import traceback
from functools import partial
from threading import Thread, current_thread, main_thread
from typing import Any, NoReturn

import numpy as np

from echelon import trees
from echelon.arrays import NumberArray, private
from echelon.cause import Cause
from echelon.clusters import blas_threads, frames, shipping
from echelon.clusters.base import Work
from echelon.clusters.lane_worker import LaneWorker
from echelon.clusters.mpi_inbox import BYE, CLOSE, OPEN, SERVE_S, Inbox, Order
from echelon.clusters.mpi_link import LEAVE, MASTER, SHORT, Link, Patience
from echelon.clusters.mpi_peer import Peer
from echelon.clusters.mpi_plane import IDLE
from echelon.clusters.narrow import is_narrow
from echelon.clusters.narrow import largest as narrow_largest
from echelon.clusters.pace import Pace
from echelon.clusters.shelf import Shelf
from echelon.errors import ClusterError

INLINE = 64 * 1024  # bytes of a result that are copied into its frame; larger ones leave from where they lie
FOLLOWS = 0  # the offset of a payload that follows its frame
_GLIMPSE_S = 0.5  # how often a thread looks whether the program has ended while a part goes on
_NUDGE_S = 1e-3  # how often it lets bytes move that are under way, for a glimpse's time at most
_LEFT_S = 2.0  # that other ranks may take for what they are sent at the end
_GLANCE_S = 2e-4  # how often to look for orders in the middle of a lane: where ranks share processors, a look yields


def serve(link: Link) -> NoReturn:
    """Work for stream after stream until the master's program ends; then end this one."""
    if current_thread() is main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the master alone
    blas_threads.only_one()
    peer = Peer(link)
    inbox = Inbox(link, peer)
    Thread(target=_watch, args=(link, inbox), name="echelon-watch", daemon=True).start()
    try:
        while (order := inbox.take(None)) is not None and order.frame[0] != frames.QUIT:
            if order.frame[0] == OPEN:
                MpiWorker(link, inbox, peer, order.stream, pickle.loads(memoryview(order.frame)[1:])).run()
        _say_goodbye(link, peer)
    except BaseException:
        _die(link)
    raise SystemExit(0)


def _die(link: Link) -> NoReturn:
    """End this rank by the current error: the others must learn of its death, and no exit handler may wait."""
    if MASTER not in link.lost:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)


def _say_goodbye(link: Link, peer: Peer) -> None:
    patience, end = Patience(), time.monotonic() + _LEFT_S
    while peer.step() is not None and time.monotonic() < end:
        patience.wait(SERVE_S)
    link.lock.acquire()  # never released
    while not link.flush():
        patience.wait(1.0)
    link.send(MASTER, LEAVE, frames.pack_short(BYE))
    while not link.flush():
        patience.wait(1.0)
    link.end()


def _watch(link: Link, inbox: Inbox) -> None:
    """Do in a thread of its own, while a part is computed, what must not wait for its end.

    Large messages leave: between hosts, MPI moves their bytes only when it is called. Rows that are held here are sent
    to adders, and what other ranks send is taken in. And this rank ends if the program has ended, or the master died.
    """
    since, looked = None, time.monotonic()
    while True:
        serving = inbox.peer.busy and not inbox.waiting
        moving = link.leaving.wait(SERVE_S if serving else _GLIMPSE_S)
        try:
            if moving:
                _help_on(link)
            if serving:
                inbox.serve()
            if time.monotonic() - looked < _GLIMPSE_S:
                continue
            looked, over = time.monotonic(), link.told_to_leave()
        except (link.mpi.Exception, ClusterError):
            _die(link)
        if not over:
            since = None
        elif since != inbox.looks:
            since = inbox.looks  # it may be about to see for itself
        else:
            _say_goodbye(link, inbox.peer)
            link.mpi.Finalize()
            os._exit(0)


def _help_on(link: Link) -> None:
    """Call MPI again and again until all that was sent has left, for a glimpse's time at most."""
    link.leaving.clear()
    end = time.monotonic() + _GLIMPSE_S
    while not link.flush():
        if time.monotonic() > end:
            link.leaving.set()
            return
        time.sleep(_NUDGE_S)


class MpiWorker(LaneWorker):
    """A rank's worker, for one stream."""

    holds = True

    def __init__(self, link: Link, inbox: Inbox, peer: Peer, stream: int, pace: Pace | None) -> None:
        super().__init__(pace)
        self._link, self._inbox, self._peer, self._stream = link, inbox, peer, stream
        self._tells = False  # whether the master wants to know when this rank is idle again
        self._shelf = Shelf()
        self._looked = 0.0
        self._lent = False  # whether a message is leaving from memory that the next part may use again
        self._send(frames.pack_short(frames.HELLO))

    def _send(self, frame: Any, *buffers: Any) -> None:
        self._link.send(MASTER, self._stream, frame, buffers)

    def over(self) -> int:
        """Return the last round that needs no work, after a look at what has arrived, unless the last was just now."""
        now = time.monotonic()
        if now - self._looked > _GLANCE_S:
            self._looked = now
            self._link.flush()
            self._inbox.look()
        return self._inbox.over(self._stream)

    def stopped(self, slot: int) -> bool:
        """Return whether a slot needs no more work."""
        return self._inbox.stopped(self._stream, self.round, slot)

    def wanted(self) -> bool:
        """Return whether the current row is still needed; first wait for memory that is on its way out."""
        wanted = super().wanted()
        if self._lent and wanted:
            patience = Patience()
            while (wanted := super().wanted()) and not self._link.flush():
                patience.wait(1.0, moving=True)
            self._lent = not wanted
        return wanted

    def take(self, timeout_s: float | None) -> None:
        """Act on one order."""
        order = self._inbox.take(timeout_s)
        if order is None:
            return
        self._looked = time.monotonic()
        kind, lane = order.frame[0], order.lane
        if lane is not None:
            self.begin(
                lane.round, order.at, lane.tasks, None if lane.state is None else partial(self._bring, lane, order)
            )
        elif kind == frames.LOAD:
            # MPI writes to its memory until all has come, even if it is no longer needed
            self._shelf.put(order.load[0], partial(_unpacked, order), drop=order.complete)
        elif kind == frames.UNLOAD:
            self._unload(frames.unpack_short(order.frame)[1])
        else:
            assert kind == CLOSE, kind
            self.open = False
            self._peer.close(self._stream)

    def _bring(self, lane: frames.LaneFrame, order: Order) -> tuple[Work, Any]:
        if order.spread:
            self._tells, memory = True, self._spread(order.spread)
        else:
            order.complete()
            memory = order.memory
        return self._shelf.bring(lane.key, shipping.unpack_state(lane.state, memory, lane.buffers))

    def _spread(self, number: int) -> NumberArray:
        """Return the memory of a state that other ranks pass on, as soon as it is there."""
        patience = Patience()
        while (state := self._peer.states.get(number)) is None or not state.over:
            if not self._going():
                raise ClusterError("the round is over")
            if self._peer.step():
                patience = Patience()
            else:
                patience.wait(SERVE_S)
        if state.forgotten:
            raise ClusterError("the round is over")
        return state.memory

    def rest(self) -> None:
        """Say that this rank is idle, where that matters: then it may pass on states, and add up."""
        if self._tells:
            self._tells = False
            self._send(frames.pack_short(IDLE, 0, self.round))

    def allocate(self, form: bytes, device: Any) -> list[NumberArray] | None:
        """Return memory that was used before for a large message that stays here."""
        if self._lane is None or not self._lane.added:
            return None
        rooms = [self._peer.rooms.take(segment.dtype, segment.count) for segment in trees.layout(form).segments]
        return None if any(room is None for room in rooms) else [room for room in rooms if room is not None]

    def _unload(self, key: int) -> None:
        self._shelf.pop(key)
        self._peer.forget()
        if not self._going():
            self.forget()

    def copy(self, segment: NumberArray) -> NumberArray:
        """Return a copy, in memory that was used before if it is large."""
        room = self._peer.rooms.take(segment.dtype, len(segment))
        if room is None:
            return segment.copy()
        np.copyto(room, segment)
        return room

    def send(self, slot: int, row: int, seconds: float, form: bytes, segments: list[NumberArray]) -> None:
        """Send a frame with the message in it, or with the message after it; or announce a message that stays here."""
        if self.stays(slot, form):
            told = tuple(map(narrow_largest, segments)) if is_narrow(form) else self.sizes(slot, form, segments)
            self._peer.hold(self._stream, (self.round, slot, row), segments)
            self._tells = True
            self._send(frames.pack_result(self.round, slot, row, seconds, form, frames.ELSEWHERE, told))
            return
        if trees.layout(form).nbytes > INLINE:
            self._lent |= not all(map(private, segments))
            head = frames.pack_result(self.round, slot, row, seconds, form, FOLLOWS, self.sizes(slot, form, segments))
            self._send(head, *(segment.view(np.uint8) for segment in segments))
            return
        head = frames.pack_result(self.round, slot, row, seconds, form, frames.NOWHERE)
        frame = frames.with_payload(head, form, segments)
        if len(frame) <= SHORT:
            self._link.post(MASTER, self._stream, frame)
        else:
            self._send(frame)

    def complain(self, cause: Cause) -> None:
        """Say that a task raised."""
        self._send(frames.pack_raised(self.round, cause))


def _unpacked(order: Order) -> Any:
    """Return what an order loads."""
    order.complete()
    _, pickled, places = order.load
    return shipping.unpack(memoryview(order.memory)[:pickled], order.memory, places)
