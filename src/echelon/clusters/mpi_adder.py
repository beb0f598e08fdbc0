"""An adder: a rank that adds up its share of the coordinates of chosen rows, and sends the totals to the master."""

from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from echelon import trees
from echelon.arrays import NumberArray
from echelon.clusters.adding import Rooms
from echelon.clusters.mpi_link import MASTER, Link
from echelon.clusters.mpi_plane import (
    PIECE,
    SUMMED,
    Block,
    Order,
    Outbox,
    Row,
    Share,
    Summed,
    blocks,
    packed,
    raw,
    total_types,
)
from echelon.clusters.narrow import is_narrow, widened
from echelon.clusters.parallel import extreme

_WINDOW = 8  # pieces that are received at a time

Rows = Mapping[tuple[int, ...], list[NumberArray]]


def send_shares(link: Link, outbox: Outbox, order: Order, held: Rows, stream: int) -> None:
    """Send all other adders their shares of the rows that are held here."""
    for share in order.shares:
        if share.adder == link.rank:
            continue
        for block in blocks(order, share):
            for row in order.rows[block.sum]:
                segments = held.get((stream, *row.key)) if row.rank == link.rank else None
                if segments is not None:
                    outbox.send(share.adder, order.number, raw(segments[block.segment][block.at : block.end]))


class Adding:
    """Adds up one share. What was given up is received to its end all the same: who sent it needs its memory back.

    spare: memory for pieces, shared by all sums.
    """

    def __init__(
        self,
        link: Link,
        outbox: Outbox,
        stream: int,
        order: Order,
        share: Share,
        *,
        held: Rows,
        rooms: Rooms,
        spare: list[NumberArray],
    ) -> None:
        self._link, self._outbox, self._order, self._share, self._rooms = link, outbox, order, share, rooms
        self.stream, self.number = stream, order.number
        self.dropped = self.over = False
        self._own = {row: held.get((stream, *row.key)) for rows in order.rows for row in rows if row.rank == link.rank}
        self._gone: set[int] = set()  # ranks from which nothing more is expected
        self._blocks = list(blocks(order, share))
        self._coming: Iterator[tuple[Block, Row]] = (
            (block, row) for block in self._blocks for row in order.rows[block.sum] if row.rank != link.rank
        )
        self._posted: deque[tuple[int, Any, NumberArray]] = deque()
        self._spare = spare
        self._steps = self._work()

    def step(self) -> bool:
        """Add what has come; return whether something had."""
        try:
            return next(self._steps)
        except StopIteration:
            self.over = True
            return True

    def lose(self, rank: int) -> None:
        """Expect nothing more from a rank."""
        self._gone.add(rank)

    def _post(self) -> None:
        while len(self._posted) < _WINDOW:
            block, row = next(self._coming, (None, None))
            if block is None or row is None:
                return
            size = (block.end - block.at) * self._types(block.sum)[block.segment].itemsize
            memory = (self._spare.pop() if self._spare else np.empty(PIECE, np.uint8))[:size]
            request = None if row.rank in self._gone else self._link.expect(row.rank, self.number, memory)
            self._posted.append((row.rank, request, memory))

    def _types(self, i: int) -> list[np.dtype[Any]]:
        return [segment.dtype for segment in trees.layout(self._order.forms[i]).segments]

    def _take(self) -> Iterator[bool]:
        """Wait for the next piece, which `_piece` is then; it is None if it never comes."""
        rank, request, memory = self._posted[0]
        came: bool | None = None if request is None else False
        moved = True
        while request is not None and not (came := self._link.came(request)):
            if came is None:
                break
            if rank in self._gone:
                if not self._link.forsake(request, memory):
                    memory = np.empty(PIECE, np.uint8)
                came = None
                break
            yield moved
            moved = False
        self._posted.popleft()
        self._piece = memory if came else None
        self._whole = memory if memory.base is None else memory.base

    def _work(self) -> Iterator[bool]:
        tops = [0.0]
        start = 0
        for block in self._blocks:
            rows, segment = self._order.rows[block.sum], block.segment
            low = self._share.ranges[block.sum][segment][0]
            if block.at == low:
                start = low
                self._total = self._room(block)
            out = self._total[block.at - low : block.end - low]
            fresh = True
            for row in rows:
                self._post()
                if row.rank == self._link.rank:
                    own = self._own[row]
                    piece = None if own is None else own[segment][block.at : block.end]
                else:
                    yield from self._take()
                    piece = None if self._piece is None else self._piece.view(self._types(block.sum)[segment])
                if piece is None:
                    self.dropped = True  # its rank died: the master knows
                elif not self.dropped:
                    narrow = is_narrow(self._order.forms[block.sum])
                    fresh = not add_to(out, widened([piece])[0] if narrow else piece, row.weight, fresh) and fresh
                if row.rank != self._link.rank:
                    self._spare.append(self._whole)
            if self.dropped:
                continue
            if fresh:
                out.fill(0)
            tops.append(extreme(out))
            if block.part:
                self._send(block, start, low, float(np.max(tops)))
                tops, start = [0.0], block.end

    def _room(self, block: Block) -> NumberArray:
        low, high = self._share.ranges[block.sum][block.segment]
        weights = [row.weight for row in self._order.rows[block.sum]]
        dtype = total_types(self._order.forms[block.sum], weights)[block.segment]
        room = self._rooms.take(dtype, high - low)
        return np.empty(high - low, dtype) if room is None else room

    def _send(self, block: Block, start: int, low: int, largest: float) -> None:
        data = raw(self._total[start - low : block.end - low])
        said = Summed(self.number, block.sum, block.segment, start, block.end, len(data), largest)
        self._link.send(MASTER, self.stream, packed(SUMMED, said))
        self._outbox.send(MASTER, self.number, data)


def add_to(total: NumberArray, piece: NumberArray, weight: Any, fresh: bool) -> bool:
    """Add a piece by its weight, in place of what is there if that is nothing; return whether it enters at all.

    >>> total = np.empty(2)
    >>> add_to(total, np.array([1.0, 2.0]), 2.0, True), add_to(total, np.ones(2), -1.0, False), total.tolist()
    (True, True, [1.0, 3.0])
    """
    factor = total.dtype.type(weight)
    if factor == 0:
        return False
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is the caller's to look at
        if fresh:
            np.multiply(piece, factor, out=total)
        elif piece.dtype != total.dtype:
            total += piece * factor
        elif factor == 1:
            np.add(total, piece, out=total)
        else:
            _axpy(total.dtype.char)(piece, total, a=factor)
    return True


@cache
def _axpy(char: str) -> Any:
    from scipy.linalg import get_blas_funcs

    return get_blas_funcs("axpy", dtype=np.dtype(char))
