"""What an actor of a Ray cluster does: takes orders in one thread, computes in a second, yields messages in a third,
and adds up slices of rows in a fourth.

Orders are pickled tuples that begin with one of the kinds below, so that a purge reaches a worker in mid-part.
Small messages that are ready together leave as one item, which costs Ray as much as one message does.
A large row that is only added up is cut into slices, which the driver never reads: it gets references to them.
"""

import os
import pickle
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, Queue, SimpleQueue
from threading import Event, Thread
from typing import Any

from echelon import trees
from echelon.arrays import NumberArray, private
from echelon.cause import Cause
from echelon.clusters import frames
from echelon.clusters.base import Work
from echelon.clusters.lane_worker import LaneWorker
from echelon.clusters.pace import Pace
from echelon.clusters.ray_adder import Adder, Asked, Pieces, Summed, cut, slices
from echelon.clusters.shelf import Shelf

# kinds of orders: (LANE, round, key, tasks, state), (LOAD, key), (UNLOAD, key), (OVER, round), (STOP, round, slot),
# (ADD, *asked)
LANE, LOAD, UNLOAD, OVER, STOP, ADD = range(6)
SMALL = 32 * 1024  # bytes of a message that travels among others
BATCH = 80 * 1024  # bytes of an item that Ray sends directly, not through its store
LENGTH = struct.Struct("<I")
_SWITCH_S = 0.001  # after which a part in pure Python lets other threads run

Shipped = tuple[bytes, list[Any]]  # a pickle, and its arrays
Large = tuple[bytes, list[NumberArray]]  # the head of a result, and its segments; none if its slices went before
Item = bytes | str | int | Large | Pieces | Summed  # a number says how many slices come next


@dataclass(slots=True)
class _Leaving:
    """Large items that leave one after another; `taken` is set when they have been copied."""

    items: list[Item]
    taken: Event | None = None


def unship(shipped: Shipped) -> Any:
    """Return an object whose large arrays stay where they lie, and can't be written."""
    pickled, beside = shipped
    return pickle.loads(pickled, buffers=[memoryview(buffer).toreadonly() for buffer in beside])


class RayWorker(LaneWorker):
    """A worker in an actor, one of `places`; `get` gives what lies in the object store."""

    holds = True

    def __init__(self, where: str, places: int, pace: Pace | None, get: Callable[[Any], Shipped]) -> None:
        super().__init__(pace)
        sys.setswitchinterval(_SWITCH_S)
        self._places, self._get = places, get
        self._over = 0
        self._stopped: dict[int, int] = {}  # the round in which a slot was last recovered
        self._shelf = Shelf()
        self._inbox: Queue[Any] = Queue()
        self._outbox: SimpleQueue[bytes | str | _Leaving | None] = SimpleQueue()
        self._held: Any = None  # a large message that came after small ones
        self._outbox.put(f"{os.getpid()} {where}")
        self._adder = Adder(lambda summed: self._outbox.put(_Leaving([summed])))
        Thread(target=self._serve, name="echelon-lane", daemon=True).start()

    def _serve(self) -> None:
        try:
            self.run()
        finally:
            self._outbox.put(None)

    # the thread of orders

    def order(self, data: bytes, references: list[Any]) -> None:
        """Take an order; what ends work takes effect at once, the rest in its turn."""
        order = pickle.loads(data)  # from the master only
        if order[0] == OVER:
            self._over = max(self._over, order[1])
            self._inbox.put(None)
        elif order[0] == STOP:
            self._stopped[order[2]] = order[1]
            self._inbox.put(None)
        elif order[0] == ADD:
            self._adder.ask(Asked(*order[1:]), references)
        else:
            self._inbox.put((time.monotonic(), order, references))

    # the thread of messages

    def messages(self, most: int) -> Iterator[Item]:
        """Yield what leaves: the worker's identity, joined frames of small messages, a large one, a slice's sum, or
        how many slices come next, these, and then the message that they are of.
        """
        for _ in range(most):
            item = self._held if self._held is not None else self._outbox.get()
            self._held = None
            if item is None:
                raise RuntimeError("the thread that computes has ended")
            if isinstance(item, str):
                yield item
            elif isinstance(item, bytes):
                yield self._joined(item)
            else:
                while item.items:
                    yield item.items.pop(0)  # asked for the next: this one has been copied
                if item.taken is not None:
                    item.taken.set()
                item = None

    def _joined(self, first: bytes) -> bytes:
        """Return a frame, and those that wait behind it."""
        listed, size = [LENGTH.pack(len(first)), first], len(first)
        while size < BATCH - SMALL:
            try:
                item = self._outbox.get_nowait()
            except Empty:
                break
            if not isinstance(item, bytes):
                self._held = item
                if item is None:
                    self._outbox.put(None)
                break
            listed += LENGTH.pack(len(item)), item
            size += len(item)
        return b"".join(listed)

    # the thread that computes

    def over(self) -> int:
        """Return the last round that needs no work."""
        return self._over

    def stopped(self, slot: int) -> bool:
        """Return whether a slot of the current round needs no more work."""
        return self._stopped.get(slot) == self.round

    def take(self, timeout_s: float | None) -> None:
        """Take in one order."""
        try:
            found = self._inbox.get(timeout=timeout_s)
        except Empty:
            return
        if found is None:
            return
        start, order, references = found
        if order[0] == LANE:
            _, round, key, tasks, state = order
            bring = None if round == self.round else lambda: self._bring(key, state, references)
            self.begin(round, start, tasks, bring)
        elif order[0] == LOAD:
            self._shelf.put(order[1], lambda: unship(self._get(references[0])))
        else:
            self._shelf.pop(order[1])
            self._adder.forget()
            if not self._going():
                self.forget()

    def _bring(self, key: int, shipped: Shipped | None, references: list[Any]) -> tuple[Work, Any]:
        state = unship(self._get(references[0]) if shipped is None else shipped)
        return self._shelf.bring(key, state)

    def send(self, slot: int, row: int, seconds: float, form: bytes, segments: list[NumberArray]) -> None:
        """Hand a message to the thread that yields; wait until it is taken if it may be overwritten."""
        held = self.stays(slot, form)
        where, told = frames.ELSEWHERE if held else frames.NOWHERE, self.sizes(slot, form, segments)
        head = frames.pack_result(self.round, slot, row, seconds, form, where, told)
        if trees.layout(form).nbytes <= SMALL:
            self._outbox.put(bytes(frames.with_payload(head, form, segments)))
            return
        taken = None if all(map(private, segments)) else Event()
        items: list[Item] = [(head, segments)]
        if held:
            count = slices(form, self._places)
            cuts = [[segment[cut(len(segment), count, i)] for segment in segments] for i in range(count)]
            items = [count, *cuts, (head, [])]
        self._outbox.put(_Leaving(items, taken))
        if taken is not None:
            taken.wait()

    def complain(self, cause: Cause) -> None:
        """Say that a task raised."""
        self._outbox.put(frames.pack_raised(self.round, cause))
