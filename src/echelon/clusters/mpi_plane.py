"""What the ranks of an MPI run tell each other about data that does not pass through the master.

Two operations, each with a tag of its own. A *spread* brings the state of a round to all workers: the master sends one
share to each relay, and relays pass theirs on. A *sum* adds up rows where they lie: whoever holds a chosen row sends
each adder its share of the coordinates, and adders send the master the totals of theirs. All is sent in pieces, in an
order that both sides derive from the same frame.
"""

import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from echelon import trees
from echelon.arrays import NumberArray
from echelon.clusters.mpi_link import Link
from echelon.clusters.narrow import is_narrow

# kinds of frames, master to worker
SPREAD, SPREAD_LANE, PATCH, FORGET, SUM, DROP, FREE, LOST, PING = 41, 42, 43, 44, 45, 46, 47, 48, 49
# kinds of frames, worker to master
SPREAD_OVER, SUMMED, PONG, IDLE = 51, 52, 53, 54
PIECE = 1 << 20  # bytes that are sent as one message: they stay in the cache until they are added
_PART = 1 << 23  # bytes of a total that leave as one message

Key = tuple[int, int, int]  # round, slot and row of a message
Range = tuple[int, int]  # from where to where, in numbers or bytes


class Spread(NamedTuple):
    """How a state of so many bytes is spread: shares, each by its relay, to all who get it."""

    number: int
    size: int
    relays: tuple[tuple[int, Range], ...]
    ranks: tuple[int, ...]


class Row(NamedTuple):
    """A row that enters a sum, with its weight, and the rank that holds it."""

    rank: int
    key: Key
    weight: Any


class Share(NamedTuple):
    """What one adder adds up: a range of each segment of each sum."""

    adder: int
    ranges: tuple[tuple[Range, ...], ...]


class Order(NamedTuple):
    """How some sums are added up: by whom, of which rows, all of one form in a sum."""

    number: int
    shares: tuple[Share, ...]
    forms: tuple[bytes, ...]
    rows: tuple[tuple[Row, ...], ...]


class Block(NamedTuple):
    """A range of a segment of a sum, as large as one message; `part`: whether it ends a part of the total."""

    sum: int
    segment: int
    at: int
    end: int
    part: bool


class Summed(NamedTuple):
    """Says that part of a total is on its way to the master; `largest` of its numbers."""

    number: int
    sum: int
    segment: int
    at: int
    end: int
    nbytes: int
    largest: float


def packed(kind: int, value: Any) -> bytes:
    """Return a frame of some kind with a value."""
    return bytes([kind]) + pickle.dumps(tuple(value))


def unpacked(frame: Any) -> Any:
    """Return the value of a frame, as a tuple."""
    return pickle.loads(memoryview(frame)[1:])


def cut(ranges: Range, count: int) -> list[Range]:
    """Return a range cut into so many of nearly one length.

    >>> cut((2, 12), 3)
    [(2, 5), (5, 8), (8, 12)]
    """
    start, end = ranges
    ends = [start + (end - start) * i // count for i in range(count + 1)]
    return list(pairwise(ends))


def pieces(of: Range) -> list[Range]:
    """Return a range of bytes in pieces that are sent as one message each."""
    start, end = of
    return [(at, min(at + PIECE, end)) for at in range(start, end, PIECE)]


def blocks(order: Order, share: Share) -> Iterator[Block]:
    """Return the blocks of a share, in the order in which their pieces travel."""
    for i, (form, ranges) in enumerate(zip(order.forms, share.ranges, strict=True)):
        for j, (segment, (start, end)) in enumerate(zip(trees.layout(form).segments, ranges, strict=True)):
            step = PIECE // segment.dtype.itemsize
            left = 0
            for at in range(start, end, step):
                left += PIECE
                last = at + step >= end or left >= _PART
                yield Block(i, j, at, min(at + step, end), last)
                left = 0 if last else left


def total_types(form: bytes, weights: Sequence[Any]) -> list[np.dtype[Any]]:
    """Return the types of the segments of a sum of rows of a form: wide, and complex where a weight is."""
    types = [np.dtype(np.float32) if is_narrow(form) else segment.dtype for segment in trees.layout(form).segments]
    if any(isinstance(weight, complex) for weight in weights):
        return [np.result_type(dtype, np.complex64) for dtype in types]
    return types


def raw(array: NumberArray) -> memoryview:
    """Return the bytes of a contiguous array."""
    return memoryview(array.view(np.uint8))  # type: ignore[arg-type]


class Outbox:
    """What is being sent to other ranks; it moves during calls of MPI only."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._queues: dict[int, deque[tuple[Any, Any]]] = {}

    def send(self, rank: int, operation: int, data: Any) -> None:
        """Begin to send bytes, which must not change until they have left."""
        request = self._link.ship(rank, operation, data)
        if request is not None and rank not in self._link.lost:
            self._queues.setdefault(rank, deque()).append((request, data))

    def step(self) -> bool:
        """Let go of what has left; return whether something has not."""
        if not self._queues:
            return False
        for rank, queue in list(self._queues.items()):
            while queue and (rank in self._link.lost or self._link.over(queue[0][0])):
                queue.popleft()
            if not queue:
                del self._queues[rank]
        return bool(self._queues)
