"""Memory that the master shares with its workers: anonymous files, mapped by both, gone with the last of them."""

import contextlib
import fcntl
import mmap
import os
import struct
import time
from collections.abc import Callable
from typing import Any

from echelon.clusters.blocks import PAGE, Blocks
from echelon.clusters.cuda import PAYLOAD, Block
from echelon.errors import ClusterError
from echelon.plan import is_ahead

RESERVED = 1 << 36  # addresses set aside for a growing memory; pages are taken only when they are written
KEPT = 1 << 26  # bytes that are not given back between jobs: pages that are there already are quicker
_HEAD = 64  # bytes before a block, the first of which says whether it is in use
_WORDS = 8  # bytes per word
SLOTS = 1024  # slots of a round that can be stopped one by one; those of the next job together, by a word behind
_AT = struct.Struct("qqqd")  # round, slot, row, since when
_LOOKS = 8  # at a place's row, until two agree
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python does not name
_STANDARD = 3  # descriptors below are the program's input, output and errors, even if it has closed them
_TRY_S, _TRIES = 0.02, 100  # how often to ask again for a descriptor where there are too few for a moment


def create(name: str, size: int) -> int:
    """Return the descriptor of an anonymous file of this size; it is none that `print` writes to."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
        if descriptor < _STANDARD:
            taken, descriptor = descriptor, fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STANDARD)
            os.close(taken)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def create_patiently(name: str, size: int) -> int:
    """Return the same; where this process has too few descriptors for a moment, try again for two seconds."""
    for _ in range(_TRIES):
        with contextlib.suppress(OSError):
            return create(name, size)
        time.sleep(_TRY_S)
    try:
        return create(name, size)
    except OSError as error:
        raise ClusterError(
            f"no shared memory for a job's data: {error.strerror}; raise 'ulimit -n' if it is low"
        ) from error


def fill_standard() -> None:
    """Open /dev/null wherever this process has no standard descriptor, so that nothing else can get its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < _STANDARD:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def attach(descriptor: int, size: int) -> mmap.mmap:
    """Return a mapping shared by all that attach."""
    return mmap.mmap(descriptor, size, access=mmap.ACCESS_WRITE)


def attach_apart(descriptor: int, size: int) -> mmap.mmap:
    """Return a mapping that shows what others write, and in which nothing is written by right.

    Code that does so all the same, in place of being stopped by the system, gets pages of its own. Where the system
    sets memory aside for every page that could be written, it gets none.
    """
    try:
        return mmap.mmap(descriptor, size, flags=mmap.MAP_PRIVATE | _NO_RESERVE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    except OSError:
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)


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

    def work(self, place: int, round: int, slot: int, row: int, since: float = 0.0) -> None:
        """Say which row a place computes (round 0: none), and since when its current part."""
        _AT.pack_into(self._memory, self._line(place) * _WORDS + _WORDS, round, slot, row, since)

    def worked(self, place: int) -> tuple[tuple[int, int, int], float] | None:
        """Return the round, slot and row that a place computes, and since when; None if it computes nothing."""
        at = self._line(place) * _WORDS + _WORDS
        found = _AT.unpack_from(self._memory, at)
        for _ in range(_LOOKS):
            again = _AT.unpack_from(self._memory, at)
            if again == found:
                break
            found = again  # it was being written: a new row must not be seen with the time of the one before
        round, slot, row, since = found
        return ((round, slot, row), since) if round else None

    def readers(self, round: int) -> bool:
        """Return whether any place reads the state of a round."""
        return any(self._words[at] == round for at in self._lines)


class Arena:
    """Blocks for the results of one worker. The worker takes them, the master gives them back by clearing a byte.

    lent: on the master, offsets of results that were reported and not given back so far.
    opened: on the master, memory of devices that the worker has lent, with what it is opened by, by the offset of its
        ticket.
    """

    def __init__(self, descriptor: int) -> None:
        self.memory = memory = attach(descriptor, RESERVED)
        self.lent: set[int] = set()
        self.opened: dict[int, tuple[bytes, Any]] = {}
        # of the memory alone: without a cycle, it goes with its last user, and not some time later
        self._blocks = Blocks(
            RESERVED, is_free=lambda at: not memory[at], set_free=lambda at: memory.__setitem__(at, 0)
        )

    def take(self, nbytes: int) -> int:
        """Return the offset of a free block with room for this many bytes."""
        at = self._blocks.take(nbytes + _HEAD)
        if at is None:
            raise MemoryError(f"a result of {nbytes} bytes does not fit beside those in use")
        self.memory[at] = 1
        return at + _HEAD

    def in_use(self, offset: int) -> bool:
        """Return whether a block was taken and not given back so far."""
        return bool(self.memory[offset - _HEAD])

    def lend(self, offset: int) -> None:
        """Note that a result lies at this offset, as its worker says, if that can be true."""
        if (
            offset % PAGE != _HEAD
            or not 0 < offset < RESERVED
            or not self.memory[offset - _HEAD]
            or offset in self.lent
        ):
            raise ValueError(f"no result can lie at offset {offset}")
        self.lent.add(offset)

    def device_memory(self, offset: int) -> Any:
        """Return the memory of a device that a ticket stands for, as a tensor of bytes; it is opened once."""
        payload = self.memory[offset : offset + PAYLOAD]
        known = self.opened.get(offset)
        if known is None or known[0] != payload:
            self.opened.pop(offset, None)
            known = self.opened[offset] = payload, Block.opened(payload).tensor()
        return known[1]

    def give_back(self, offset: int) -> None:
        """Let a block be used again."""
        if not self.memory[offset - _HEAD]:
            raise ClusterError(f"the block of a result at offset {offset} is not in use: it was given back before")
        self.lent.discard(offset)
        self.memory[offset - _HEAD] = 0

    def forget(self) -> None:
        """Return the pages to the system if they are many and no block is in use; a few are kept for the next job."""
        if self._blocks.end > KEPT and self._blocks.all_free():
            self.memory.madvise(mmap.MADV_REMOVE, 0, self._blocks.end)
            self._blocks.clear()


class StateMemory:
    """Where the state of a round lies, in one copy for all workers; blocks are reused when no worker reads them."""

    def __init__(self, descriptor: int, in_use: Callable[[int], bool]) -> None:
        self.memory = attach(descriptor, RESERVED)
        self._in_use = in_use
        self._rounds: dict[int, int] = {}  # the round that a block was last used for, by its offset
        self._blocks = Blocks(RESERVED, is_free=self._is_free, set_free=lambda at: self._rounds.pop(at, None))

    def _is_free(self, at: int) -> bool:
        round = self._rounds.get(at)
        return round is None or not self._in_use(round)

    def take(self, nbytes: int, round: int) -> int:
        """Return the offset of a block for the state of a round."""
        at = self._blocks.take(nbytes)
        if at is None:
            raise MemoryError(f"a state of {nbytes} bytes does not fit beside those still being read")
        self._rounds[at] = round
        return at

    def forget(self) -> None:
        """Return the pages to the system if they are many and no worker reads any of them."""
        if self._blocks.end > KEPT and self._blocks.all_free():
            self.memory.madvise(mmap.MADV_REMOVE, 0, self._blocks.end)
            self._blocks.clear()
            self._rounds.clear()
