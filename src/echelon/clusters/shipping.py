"""Objects on their way to workers: pickled, with their large arrays beside the pickle and not in it.

Only the master pickles and only its own workers unpickle. Memory-mapped arrays travel as the name of their file.
"""

import io
import mmap
import os
import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle
import numpy as np

from echelon.clusters.frames import INLINE
from echelon.clusters.memory import create_patiently

ALIGN = 64
BESIDE = 4096  # bytes from which an array is put beside the pickle
_MOST = 1024  # arrays beside a pickle; further ones go into it

Buffers = list[tuple[int, int]]


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    by_name = True

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, np.memmap) and not self.by_name:
            return np.asarray(obj).__reduce_ex__(5)
        if isinstance(obj, np.memmap) and obj.filename is not None and obj.mode != "c":
            whole = obj
            while isinstance(whole.base, np.memmap):
                whole = whole.base
            inside = obj.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
            if obj.flags.c_contiguous or obj.flags.f_contiguous:
                order = "C" if obj.flags.c_contiguous else "F"
                return _open, (str(obj.filename), obj.dtype, whole.offset + inside, obj.shape, order)
        return super().reducer_override(obj)


def _open(name: str, dtype: np.dtype[Any], offset: int, shape: tuple[int, ...], order: Any) -> Any:
    return np.memmap(name, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)


class _Small:
    """An array that is not worth a place beside the pickle, written in a third of the time of its own pickling."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __reduce__(self) -> Any:
        return _array, (self._array.tobytes(), self._array.dtype.char, self._array.shape)


def _array(raw: bytes, char: str, shape: tuple[int, ...]) -> Any:
    return np.frombuffer(raw, char).reshape(shape)


def pack(value: Any, *, by_name: bool = True) -> tuple[bytes, list[memoryview]]:
    """Return a pickle, and the arrays beside it; `by_name`: memory-mapped ones as the names of their files.

    >>> pickled, beside = pack({"weights": np.zeros(1000), "step": 0.1})
    >>> len(pickled) < 300, [len(buffer) for buffer in beside]
    (True, [8000])
    """
    beside: list[memoryview] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < BESIDE or len(beside) >= _MOST:
            return True
        beside.append(raw)
        return False

    if type(value) is np.ndarray and value.dtype.isbuiltin == 1 and not value.dtype.hasobject:
        # the common state takes a fast path
        small = value.nbytes < BESIDE and value.flags.c_contiguous
        return pickle.dumps(_Small(value) if small else value, protocol=5, buffer_callback=keep_inside), beside
    stream = io.BytesIO()
    pickler = _Pickler(stream, protocol=5, buffer_callback=keep_inside)
    pickler.by_name = by_name
    pickler.dump(value)
    return stream.getvalue(), beside


def pack_state(state: Any) -> tuple[bytes, list[memoryview]]:
    """Return a pickle that fits a frame, and the arrays beside it; one that is too long is the first of these."""
    pickled, beside = pack(state)
    return (pickled, beside) if len(pickled) <= INLINE else (b"", [memoryview(pickled), *beside])


def unpack_state(pickled: Any, memory: Any, places: Sequence[tuple[int, int]]) -> Any:
    """Return the state that `pack_state` packed, as `unpack` does."""
    if not pickled:
        (at, size), *places = places
        pickled = memoryview(memory)[at : at + size]
    return unpack(pickled, memory, places)


class Packed:
    """A value in an anonymous file of its own, which can be loaded under any key; gone with its last owner.

    >>> Packed(np.arange(3)).value.tolist()
    [0, 1, 2]
    """

    def __init__(self, value: Any) -> None:
        pickled, beside = pack(value)
        self.pickled = len(pickled)
        self.places, size = place(beside, len(pickled))
        self.descriptor = create_patiently("echelon-work", size)
        _write(self.descriptor, memoryview(pickled), 0)
        for (at, _), buffer in zip(self.places, beside, strict=True):
            _write(self.descriptor, buffer, at)

    @property
    def value(self) -> Any:
        """The value, whose large arrays lie in the file."""
        return open_packed(self.descriptor, self.pickled, self.places)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


def _write(descriptor: int, buffer: memoryview, at: int) -> None:
    """Write all of a buffer, in half the time of mapping the file and copying, which meets every page anew."""
    while buffer:
        written = os.pwrite(descriptor, buffer, at)
        buffer, at = buffer[written:], at + written


def open_packed(descriptor: int, pickled: int, places: Sequence[tuple[int, int]]) -> Any:
    """Return what lies in the file of a `Packed`."""
    memory = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    return unpack(memoryview(memory)[:pickled], memory, places)


def place(beside: Sequence[memoryview], start: int) -> tuple[Buffers, int]:
    """Return where in a memory the arrays are to lie, from `start` on, and where they end."""
    places: Buffers = []
    at = start
    for buffer in beside:
        at = -(-at // ALIGN) * ALIGN
        places.append((at, buffer.nbytes))
        at += buffer.nbytes
    return places, at


def unpack(pickled: Any, memory: Any, places: Sequence[tuple[int, int]]) -> Any:
    """Return the object; its large arrays stay in the memory they lie in, and can't be written."""
    view = memoryview(memory).toreadonly()
    return pickle.loads(pickled, buffers=[view[at : at + size] for at, size in places])
