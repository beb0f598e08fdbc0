"""Rows in Ray's object store, cut into slices, and the adding up of one slice: what both ends of a Ray cluster know.

A slice holds its share of every segment. It is one object, too large for Ray to carry it through the driver.
"""

import logging
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, NamedTuple

import numpy as np

from echelon import trees
from echelon.arrays import FloatArray, NumberArray
from echelon.clusters.adding import Rooms
from echelon.clusters.narrow import widened
from echelon.clusters.parallel import extreme
from echelon.codes import combine

log = logging.getLogger("echelon.clusters")

_WAIT_S, _READ_S = 1.0, 60.0  # that a worker waits for slices of other nodes, at first and at most
_LEAST = 1 << 18  # bytes of a slice; Ray sends what is below 100 kB to the driver
_MOST = 16  # slices of a row: each is an object, which costs the driver some time
_LOOK_S = 10.0  # for what is said to be here

Pieces = list[NumberArray]  # a slice: a piece of each segment
Room = Callable[[np.dtype[Any], int], NumberArray | None]  # gives memory for so many numbers, or None for any


class Asked(NamedTuple):
    """A slice to be added up.

    number, sum, at: of what the driver asked for, of the sum in it, and of the slice.
    weights: of the rows, shape (rows,).
    told: whether the largest number of each row is known.
    """

    number: int
    sum: int
    at: int
    weights: NumberArray
    told: bool


class Summed(NamedTuple):
    """A slice that was added up, or the rows whose slices can't be read.

    pieces: its sum, by segment.
    largest: the largest number in them, by segment; not finite where one is not.
    sizes: the largest number of each row, shape (segments, rows), where it was not known.
    """

    number: int
    sum: int
    at: int
    pieces: Pieces
    largest: tuple[float, ...] = ()
    sizes: FloatArray | None = None
    unread: tuple[int, ...] = ()


class Held:
    """What a message that lies elsewhere holds: references to its slices, until it is released."""

    def __init__(self, references: list[Any]) -> None:
        self.references: list[Any] | None = references

    def release(self) -> None:
        """Let the object store have its memory back; from any thread."""
        self.references = None


def slices(form: bytes, places: int) -> int:
    """Return how many slices a row is cut into, in a cluster of so many places.

    >>> slices(b'["d",1000000]', 4), slices(b'["d",40000]', 4)
    (4, 1)
    """
    return max(1, min(places, _MOST, trees.layout(form).nbytes // _LEAST))


def cut(count: int, slices: int, index: int) -> slice:
    """Return where a slice lies in a segment of so many numbers.

    >>> cut(10, 3, 0), cut(10, 3, 2)
    (slice(0, 3, None), slice(6, 10, None))
    """
    return slice(count * index // slices, count * (index + 1) // slices)


def add_up(asked: Asked, rows: Sequence[Pieces], room: Room) -> Summed:
    """Return the weighted sum of a slice of some rows, in memory that `room` gives; bfloat16 is widened."""
    sums, most = list[NumberArray](), list[float]()
    sizes = None if asked.told else np.zeros((len(rows[0]), len(rows)))
    for i in range(len(rows[0])):
        pieces = [row[i] for row in rows]
        if pieces[0].dtype.char == "H":
            pieces = widened(pieces)
        out = None if np.iscomplexobj(asked.weights) else room(pieces[0].dtype, len(pieces[0]))
        found = combine(
            asked.weights[None], pieces, None if out is None else out[None], sizes=None if sizes is None else sizes[i]
        )
        sums.append(found[0])
        most.append(extreme(sums[-1]))
    return Summed(asked.number, asked.sum, asked.at, sums, tuple(most), sizes)


class Found(NamedTuple):
    """Slices of some rows; or, where not all are here, which are lost with their node, and which are not here yet."""

    rows: list[Pieces]
    lost: tuple[int, ...] = ()
    late: tuple[int, ...] = ()


def read(references: list[Any], timeout_s: float) -> Found:
    """Return the slices of some rows, after waiting for those of other nodes."""
    import ray  # here, so that the cluster reports a missing Ray
    from ray.exceptions import RayError

    # by `wait`, since `get` keeps all other threads from the object store while it waits
    late = ray.wait(references, num_returns=len(references), timeout=timeout_s)[1]
    if late:
        return Found([], late=tuple(i for i, reference in enumerate(references) if reference in late))
    try:
        return Found(ray.get(references, timeout=_LOOK_S))
    except RayError:
        pass
    lost = []
    for i, reference in enumerate(references):
        try:
            ray.get(reference, timeout=_LOOK_S)
        except RayError:
            lost.append(i)
    return Found([], tuple(lost))


def answer(asked: Asked, found: Found, room: Room) -> Summed:
    """Return a slice added up, or which rows can't be read."""
    if found.rows:
        return add_up(asked, found.rows, room)
    return Summed(asked.number, asked.sum, asked.at, [], unread=found.lost or found.late)


class Adder:
    """Adds up slices, each in a thread of its own: none waits for one that can't be read, nor for a part.

    send: takes the sums.
    """

    def __init__(self, send: Callable[[Summed], None]) -> None:
        self._send, self._newest = send, 0
        self._rooms = Rooms()

    def forget(self) -> None:
        """Give back memory of sums that have left."""
        self._rooms.clear()

    def ask(self, asked: Asked, references: list[Any]) -> None:
        """Have a slice added up."""
        self._newest = asked.number
        Thread(target=self._answer, args=(asked, references), name="echelon-adder", daemon=True).start()

    def _answer(self, asked: Asked, references: list[Any]) -> None:
        """Add up a slice, unless it does not come while it is wanted; then the driver knows more than this worker."""
        wait_s = _WAIT_S
        try:
            while (found := read(references, wait_s)).late:
                wait_s *= 2  # what has come so far may be lost with every try
                if self._newest != asked.number or wait_s > _READ_S:
                    return
            self._send(answer(asked, found, self._rooms.take))
        except Exception:  # out of memory, say: the driver gives the slice to somebody else in time
            log.exception("slice %d can't be added up here", asked.at)
