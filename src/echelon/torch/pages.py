"""Memory of a state as a tensor, without a copy, and whether somebody has written into it.

A worker process maps the state of a round so that it sees what the master writes, and gets a page of its own where it
writes itself (`clusters.memory.attach_apart`). Such a page no longer shows what the master writes: it has to be found,
and given back. The kernel's page map tells which pages are a process's own.
"""

import ctypes
import mmap
from collections.abc import Sequence

import numpy as np

from echelon.arrays import NumberArray

_SHARED, _PRESENT = (
    np.uint64(1 << 61),
    np.uint64(1 << 63),
)  # bits of an entry: of a file, or of shared memory; in memory
_MAPS, _PAGE_MAP = "/proc/self/maps", "/proc/self/pagemap"
_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)


class Pages:
    """The pages between the first and the last of some arrays, which lie in one memory."""

    def __init__(self, arrays: Sequence[NumberArray]) -> None:
        starts = [address(array) for array in arrays]
        stops = [start + array.nbytes for start, array in zip(starts, arrays, strict=True)]
        self.start, self.stop = min(starts) // _PAGE * _PAGE, -(-max(stops) // _PAGE) * _PAGE

    def apart(self) -> bool:
        """Return whether what is written there stays in this process, and can be found."""
        try:
            with open(_MAPS, encoding="ascii") as lines:
                for line in lines:
                    span, kinds, *_ = line.split()
                    first, last = (int(end, 16) for end in span.split("-"))
                    if first <= self.start < last:
                        return kinds == "rw-p" and self.stop <= last and not self.written()
        except OSError:  # another system, or one that shows nothing
            pass
        return False

    def written(self) -> bool:
        """Return whether this process has written there, and so has pages of its own."""
        with open(_PAGE_MAP, "rb", buffering=0) as pages:
            pages.seek(self.start // _PAGE * 8)
            found = np.frombuffer(pages.read((self.stop - self.start) // _PAGE * 8), np.uint64)
        return bool(np.any((found & (_SHARED | _PRESENT)) == _PRESENT))

    def give_back(self) -> None:
        """Drop the pages that are this process's own: the memory shows again what the master wrote."""
        _libc.madvise(ctypes.c_void_p(self.start), ctypes.c_size_t(self.stop - self.start), mmap.MADV_DONTNEED)


def writable(array: NumberArray) -> NumberArray:
    """Return the same memory as an array that may be written; hold the first one for as long."""
    memory = (ctypes.c_byte * array.nbytes).from_address(address(array))
    return np.frombuffer(memoryview(memory), array.dtype)


def address(array: NumberArray) -> int:
    """Return where an array begins."""
    found: int = array.__array_interface__["data"][0]
    return found
