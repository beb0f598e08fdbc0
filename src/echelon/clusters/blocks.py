"""Blocks of a growing memory, side by side: neighbours that are free become one, and what is too large is split.

So a memory stays within a few times what was in use at once, even if sizes grow a little each time.
"""

import mmap
from collections.abc import Callable

PAGE = mmap.PAGESIZE


class Blocks:
    """Where blocks begin and how large they are, in whole pages, up to `most` bytes in all.

    is_free: says whether the block at an offset is free; then it must stay so until it is taken.
    set_free: called with the offset of a block that was split off another, to make it a free one.

    >>> free = set()
    >>> blocks = Blocks(1 << 20, is_free=free.__contains__, set_free=free.add)
    >>> [blocks.take(PAGE) // PAGE for _ in range(3)]
    [0, 1, 2]
    >>> free |= {0, PAGE}
    >>> blocks.take(2 * PAGE), len(blocks)
    (0, 2)
    """

    def __init__(self, most: int, *, is_free: Callable[[int], bool], set_free: Callable[[int], object]) -> None:
        self.end = 0
        self._most, self._is_free, self._set_free = most, is_free, set_free
        self._blocks: list[tuple[int, int]] = []  # offset and size, in the order of offsets

    def __len__(self) -> int:
        return len(self._blocks)

    def all_free(self) -> bool:
        """Return whether no block is in use."""
        return all(self._is_free(at) for at, _ in self._blocks)

    def clear(self) -> None:
        """Forget all blocks."""
        self._blocks, self.end = [], 0

    def take(self, nbytes: int) -> int | None:
        """Return the offset of a free block with room for this many bytes; None if there is no room for another."""
        size = -(-nbytes // PAGE) * PAGE
        for at, room in self._blocks:
            if size <= room <= 4 * size and self._is_free(at):
                return at
        self._merge()
        for i, (at, room) in enumerate(self._blocks):
            if room >= size and self._is_free(at):
                if room > size:
                    self._blocks[i : i + 1] = (at, size), (at + size, room - size)
                    self._set_free(at + size)
                return at
        last_is_free = bool(self._blocks) and self._is_free(self._blocks[-1][0])
        at = self._blocks[-1][0] if last_is_free else self.end
        if at + size > self._most:
            return None
        self._blocks[len(self._blocks) - last_is_free :] = [(at, size)]
        self.end = at + size
        return at

    def _merge(self) -> None:
        """Make one block of neighbours that are free."""
        found: list[tuple[int, int]] = []
        before = False  # whether the block before is free
        for at, size in self._blocks:
            free = self._is_free(at)
            if free and before:
                first, so_far = found.pop()
                found.append((first, so_far + size))
            else:
                found.append((at, size))
            before = free
        self._blocks = found
