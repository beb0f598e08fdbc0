"""Memory that the master shares with its workers: anonymous files, mapped by both, gone with the last of them."""

import contextlib
import mmap
import os
import struct
from collections.abc import Callable

from echelon.errors import ClusterError
from echelon.plan import is_ahead

RESERVED = 1 << 36  # addresses set aside for a growing memory; pages are taken only when they are written
KEPT = 1 << 26  # bytes that are not given back between jobs: pages that are there already are quicker
_HEAD = 64  # bytes before a block, the first of which says whether it is in use
_WORDS = 8  # bytes per word
SLOTS = 1024  # slots of a round that can be stopped one by one; those of the next job together, by a word behind
_AT = struct.Struct("qqq")  # round, slot, row


def create(name: str, size: int) -> int:
    """Return the descriptor of an anonymous file of this size."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    os.ftruncate(descriptor, size)
    return descriptor


def attach(descriptor: int, size: int, *, write: bool = True) -> mmap.mmap:
    """Return a mapping shared by all that attach."""
    return mmap.mmap(descriptor, size, access=mmap.ACCESS_WRITE if write else mmap.ACCESS_READ)


def detach(memory: mmap.mmap) -> None:
    """End a mapping; one that is still in use ends with its last user."""
    with contextlib.suppress(BufferError):
        memory.close()


class Board:
    """Words that all see: which rounds are over, and for each slot in which round it was last recovered; and for each
    place, which state it reads and which row it computes.
    """

    def __init__(self, descriptor: int, places: int) -> None:
        self._lines = range(_HEAD // _WORDS, (places + 1) * _HEAD // _WORDS, _HEAD // _WORDS)
        self._slots = (places + 1) * _HEAD // _WORDS
        self._memory = attach(descriptor, self.size(places))
        self._words = memoryview(self._memory).cast("q")

    @staticmethod
    def size(places: int) -> int:
        """Return the bytes that a board takes; words of different places lie in different cache lines."""
        return _HEAD * (places + 1) + _WORDS * (SLOTS + 1)

    def close(self) -> None:
        """Detach."""
        self._words.release()
        detach(self._memory)

    def over(self) -> int:
        """Return the last round that is over: it and all before it need no work."""
        return self._words[0]

    def end(self, round: int) -> None:
        """Say that a round is over: a purge is this one store."""
        self._words[0] = round

    def stop(self, round: int, slot: int) -> None:
        """Say that a slot of a round is recovered; slots beyond the board go on to the end of the round."""
        if slot < SLOTS or is_ahead(slot):
            self._words[self._slots + min(slot, SLOTS)] = round

    def stopped(self, round: int, slot: int) -> bool:
        """Return whether a slot of a round is recovered."""
        return (slot < SLOTS or is_ahead(slot)) and self._words[self._slots + min(slot, SLOTS)] == round

    def read(self, place: int, round: int) -> None:
        """Say that a place reads the state of a round (0: none)."""
        self._words[self._line(place)] = round

    @staticmethod
    def _line(place: int) -> int:
        return (place + 1) * _HEAD // _WORDS

    def work(self, place: int, round: int, slot: int, row: int) -> None:
        """Say which row a place computes (round 0: none)."""
        _AT.pack_into(self._memory, self._line(place) * _WORDS + _WORDS, round, slot, row)

    def worked(self, place: int) -> tuple[int, int, int]:
        """Return the round, slot and row that a place computed last."""
        round, slot, row = _AT.unpack_from(self._memory, self._line(place) * _WORDS + _WORDS)
        return round, slot, row

    def readers(self, round: int) -> bool:
        """Return whether any place reads the state of a round."""
        return any(self._words[at] == round for at in self._lines)


class Arena:
    """Blocks for the results of one worker. The worker takes them, the master gives them back by clearing a byte."""

    def __init__(self, descriptor: int) -> None:
        self.memory = attach(descriptor, RESERVED)
        self._blocks: list[tuple[int, int]] = []  # offset and room
        self._end = 0

    def take(self, nbytes: int) -> int:
        """Return the offset of a free block with room for this many bytes."""
        for at, room in self._blocks:
            if nbytes <= room <= 4 * nbytes + mmap.PAGESIZE and not self.memory[at - _HEAD]:
                self.memory[at - _HEAD] = 1
                return at
        at = self._end + _HEAD
        room = -(-(nbytes + _HEAD) // mmap.PAGESIZE) * mmap.PAGESIZE - _HEAD
        if at + room > RESERVED:
            raise MemoryError(f"a result of {nbytes} bytes does not fit beside those in use")
        self._end = at + room
        self._blocks.append((at, room))
        self.memory[at - _HEAD] = 1
        return at

    def give_back(self, offset: int) -> None:
        """Let a block be used again."""
        if not self.memory[offset - _HEAD]:
            raise ClusterError(f"the block of a result at offset {offset} is not in use: it was given back before")
        self.memory[offset - _HEAD] = 0

    def forget(self) -> None:
        """Return the pages to the system if they are many and no block is in use; a few are kept for the next job."""
        if self._end > KEPT and not any(self.memory[at - _HEAD] for at, _ in self._blocks):
            self.memory.madvise(mmap.MADV_REMOVE, 0, -(-self._end // mmap.PAGESIZE) * mmap.PAGESIZE)
            self._blocks, self._end = [], 0


class StateMemory:
    """Where the state of a round lies, in one copy for all workers; blocks are reused when no worker reads them."""

    def __init__(self, descriptor: int, in_use: Callable[[int], bool]) -> None:
        self.memory = attach(descriptor, RESERVED)
        self._in_use = in_use
        self._blocks: list[list[int]] = []  # offset, room, the round it was last used for
        self._end = 0

    def take(self, nbytes: int, round: int) -> int:
        """Return the offset of a block for the state of a round."""
        for block in self._blocks:
            at, room, last = block
            if room >= nbytes and not self._in_use(last):
                block[2] = round
                return at
        at = self._end
        room = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        if at + room > RESERVED:
            raise MemoryError(f"a state of {nbytes} bytes does not fit beside those still being read")
        self._end = at + room
        self._blocks.append([at, room, round])
        return at

    def forget(self) -> None:
        """Return the pages to the system if they are many and no worker reads any of them."""
        if self._end > KEPT and not any(self._in_use(last) for _, _, last in self._blocks):
            self.memory.madvise(mmap.MADV_REMOVE, 0, self._end)
            self._blocks, self._end = [], 0
