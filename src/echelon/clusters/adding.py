"""Adding up messages that lie in the memory of this process."""

import sys
from collections.abc import Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from echelon.arrays import FloatArray, NumberArray
from echelon.clusters import cuda
from echelon.clusters.base import Message, Sum, Total
from echelon.clusters.parallel import by_slices, extreme
from echelon.codes import combine

_LARGE = 1 << 20  # bytes of a total whose memory is kept
_BLOCK = 1 << 19  # numbers of a total at a time: they stay in the cache while every message is read once
_KEPT = 4  # arrays of one size that are kept


class Adding:
    """What clusters share whose messages come to the master. Totals lie in memory that is kept from round to round."""

    one_host = False

    def __init__(self) -> None:
        self._rooms = Rooms()

    def combine(self, weights: NumberArray, messages: Sequence[Message]) -> Total:
        """Return the weighted sum of messages of one form that lie here."""
        return add_up(weights, messages, self._rooms)

    def add(self, round: int, sums: Sequence[Sum]) -> None:
        """Never called: all messages lie here."""
        raise AssertionError("no message lies elsewhere")


def add_up(weights: NumberArray, messages: Sequence[Message], rooms: "Rooms") -> Total:
    """Return the weighted sum of messages that lie here; a large one is added by all processors, slice by slice."""
    count = len(messages[0].segments)
    sizes, sums, most = np.empty((count, len(messages))), list[Any](), list[float]()
    told = all(message.sizes for message in messages)
    for i in range(count):
        segments = [message.segments[i] for message in messages]
        if told:
            sizes[i] = [message.sizes[i] for message in messages]
        if not all(isinstance(segment, np.ndarray) for segment in segments):  # on a device, where they are added
            added, largest, sizes[i] = cuda.add_up(weights, segments, sizes[i] if told else None)
            sums.append(added)
            most.append(largest)
            continue
        cast = np.iscomplexobj(weights) or (not told and np.iscomplexobj(segments[0]))
        room = None if cast else rooms.take(segments[0].dtype, len(segments[0]))
        if room is None:
            total = combine(weights[None], segments, sizes=None if told else sizes[i])[0]
            most.append(extreme(total))
        else:
            total = room
            largest, of_messages = _add(weights, segments, room, told)
            sizes[i] = sizes[i] if told else of_messages
            most.append(largest)
        sums.append(total)
    return Total(sums, tuple(most), sizes)


def _add(
    weights: NumberArray, messages: Sequence[NumberArray], total: NumberArray, told: bool
) -> tuple[float, FloatArray]:
    """Write a weighted sum by all processors; return its largest number, and those of the messages that enter it, 0
    where they are `told`.
    """
    sizes, used = np.zeros(len(messages)), np.flatnonzero(weights)
    if not len(used):
        total.fill(0)
        return 0.0, sizes
    kernel = partial(_add_slice, weights[used].astype(total.dtype), [messages[i] for i in used.tolist()], total, told)
    found = by_slices(len(total), total.itemsize, kernel)
    sizes[used] = np.max([of_messages for _, of_messages in found], axis=0)
    return float(np.max([largest for largest, _ in found])), sizes


def _add_slice(
    weights: NumberArray, messages: Sequence[NumberArray], total: NumberArray, told: bool, some: slice
) -> tuple[float, list[float]]:
    """Write a slice of a weighted sum, block by block; return its largest number, not finite where one is not, and
    unless they are `told` those of the messages in the slice.

    All of it is done by calls of NumPy that let other threads run, so that slices are added side by side.
    """
    plain, largest, sizes = bool((weights == 1).all()), [0.0], [[0.0] for _ in messages]
    scaled = np.empty(0 if plain else min(_BLOCK, some.stop - some.start), total.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        for at in range(some.start, some.stop, _BLOCK):
            block = total[at : min(at + _BLOCK, some.stop)]
            for i, (message, weight) in enumerate(zip(messages, weights, strict=True)):
                piece = message[at : at + len(block)]
                if not told:
                    sizes[i].append(extreme(piece))
                if not i:
                    np.multiply(piece, weight, out=block)
                elif plain:
                    np.add(block, piece, out=block)
                else:
                    np.add(block, np.multiply(piece, weight, out=scaled[: len(block)]), out=block)
            largest.append(extreme(block))
    return float(np.max(largest)), [float(np.max(of_one)) for of_one in sizes]


class Rooms:
    """Memory for large arrays, used again as soon as nobody else has it: pages that are there already are quicker.

    At most `kept` of one size. Where sizes change, what nobody has is kept up to as many times the largest; what was
    taken longest ago goes first.

    >>> rooms = Rooms()
    >>> first = rooms.take(np.dtype("d"), 1 << 20)
    >>> rooms.take(np.dtype("d"), 1 << 20) is first
    False
    >>> del first
    >>> len(rooms), rooms.take(np.dtype("d"), 1 << 20) is not None, len(rooms)
    (2, True, 2)
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._rooms: dict[tuple[np.dtype[np.generic], int], list[NumberArray]] = {}  # in the order of last use
        self._lock = Lock()

    def __len__(self) -> int:
        return sum(map(len, self._rooms.values()))

    def take(self, dtype: np.dtype[np.generic], count: int) -> NumberArray | None:
        """Return memory for so many numbers; None where they are few, and any will do."""
        if count * dtype.itemsize < _LARGE:
            return None
        with self._lock:
            known = self._rooms.pop((dtype, count), [])
            at = _free(known)
            if at is None:
                self._drop_idle(count * dtype.itemsize)
            self._rooms[dtype, count] = known
            if at is not None:
                return known[at]
            made: NumberArray = np.empty(count, dtype)
            if len(known) < self._kept:
                known.append(made)
            return made

    def _drop_idle(self, nbytes: int) -> None:
        """Before memory of so many bytes is made, give back what nobody has and is too much to keep."""
        idle = sum(room.nbytes for rooms in self._rooms.values() for room in _all_free(rooms))
        most = self._kept * max([nbytes, *(dtype.itemsize * count for dtype, count in self._rooms)])
        for key, rooms in list(self._rooms.items()):
            while idle > most and (at := _free(rooms)) is not None:
                idle -= rooms.pop(at).nbytes
            if not rooms:
                del self._rooms[key]

    def clear(self) -> None:
        """Give it all back; what somebody has stays there for as long."""
        with self._lock:
            self._rooms.clear()


def _free(rooms: list[NumberArray]) -> int | None:
    """Return which of some arrays is held by their list alone."""
    return next((i for i in range(len(rooms)) if sys.getrefcount(rooms[i]) <= _ALONE), None)


def _all_free(rooms: list[NumberArray]) -> list[NumberArray]:
    return [rooms[i] for i in range(len(rooms)) if sys.getrefcount(rooms[i]) <= _ALONE]


def _count(known: list[FloatArray]) -> int:
    return sys.getrefcount(known[0])


_ALONE = _count([np.empty(1)])  # references to an array that only a list holds
