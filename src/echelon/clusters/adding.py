"""Adding up messages that lie in the memory of this process."""

import sys
from collections.abc import Sequence

import numpy as np

from echelon.arrays import FloatArray, NumberArray
from echelon.clusters.base import Message, Sum, Total
from echelon.clusters.parallel import extreme
from echelon.codes import combine

_LARGE = 1 << 20  # bytes of a total whose memory is kept
_KEPT = 4  # totals of one size that are kept


class Adding:
    """What clusters share whose messages come to the master. Totals lie in memory that is kept from round to round."""

    def __init__(self) -> None:
        self._rooms = Rooms()

    def combine(self, weights: NumberArray, messages: Sequence[Message]) -> Total:
        """Return the weighted sum of messages of one form that lie here."""
        return add_up(weights, messages, self._rooms)

    def add(self, round: int, sums: Sequence[Sum]) -> None:
        """Never called: all messages lie here."""
        raise AssertionError("no message lies elsewhere")


def add_up(weights: NumberArray, messages: Sequence[Message], rooms: "Rooms") -> Total:
    """Return the weighted sum of messages that lie here, in memory that `rooms` gives."""
    count = len(messages[0].segments)
    sizes, sums, most = np.empty((count, len(messages))), list[NumberArray](), list[float]()
    told = all(message.sizes for message in messages)
    for i in range(count):
        segments = [message.segments[i] for message in messages]
        if told:
            sizes[i] = [message.sizes[i] for message in messages]
        out = rooms.take(segments[0].dtype, len(segments[0])) if not np.iscomplexobj(weights) else None
        total = combine(weights[None], segments, None if out is None else out[None], sizes=None if told else sizes[i])
        sums.append(total[0])
        most.append(extreme(total[0]))
    return Total(sums, tuple(most), sizes)


class Rooms:
    """Memory for large totals, used again as soon as nobody else has it: pages that are there already are quicker.

    >>> rooms = Rooms()
    >>> first = rooms.take(np.dtype("d"), 1 << 20)
    >>> rooms.take(np.dtype("d"), 1 << 20) is first
    False
    >>> del first
    >>> len(rooms), rooms.take(np.dtype("d"), 1 << 20) is not None, len(rooms)
    (2, True, 2)
    """

    def __init__(self) -> None:
        self._rooms: dict[tuple[np.dtype[np.generic], int], list[NumberArray]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._rooms.values()))

    def take(self, dtype: np.dtype[np.generic], count: int) -> NumberArray | None:
        """Return memory for so many numbers; None where they are few, and any will do."""
        if count * dtype.itemsize < _LARGE:
            return None
        known = self._rooms.setdefault((dtype, count), [])
        for i in range(len(known)):
            if sys.getrefcount(known[i]) <= _ALONE:
                return known[i]
        made: NumberArray = np.empty(count, dtype)
        if len(known) < _KEPT:
            known.append(made)
        return made

    def clear(self) -> None:
        """Give it all back; what somebody has stays there for as long."""
        self._rooms.clear()


def _count(known: list[FloatArray]) -> int:
    return sys.getrefcount(known[0])


_ALONE = _count([np.empty(1)])  # references to an array that only a list holds
