"""The master's side of adding up rows where they lie: who holds what, who adds which share, and who has to be replaced.

An adder that dies or hangs is replaced, and only what it has not delivered is added again. If a chosen row is lost with
its rank, the sum is given up, and the row is reported.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from echelon import trees
from echelon.arrays import FloatArray, NumberArray
from echelon.clusters import frames
from echelon.clusters.adding import Rooms, add_up
from echelon.clusters.base import Added, Message, Report, Sum, Total, Unread
from echelon.clusters.mpi_link import Link
from echelon.clusters.mpi_plane import (
    DROP,
    FREE,
    SUM,
    Key,
    Order,
    Range,
    Row,
    Share,
    Summed,
    cut,
    packed,
    raw,
    total_types,
    unpacked,
)
from echelon.clusters.mpi_ranks import Rank, hung
from echelon.clusters.parallel import extreme

_SHARE = 1 << 17  # bytes of a total that are worth an adder


@dataclass(slots=True)
class _Given:
    """A share that was given to an adder; `ranges` are what is left of it."""

    number: int
    adder: int
    ranges: list[list[Range]]
    coming: deque[tuple[Any, Summed, NumberArray]] = field(default_factory=deque)

    @property
    def over(self) -> bool:
        """Whether all of it is here."""
        return not self.coming and all(at == end for ranges in self.ranges for at, end in ranges)


@dataclass(slots=True)
class _Running:
    """What is being added up: `sums` of which some rows lie elsewhere, and those `rows`."""

    round: int
    sums: Sequence[Sum]
    forms: tuple[bytes, ...]
    rows: tuple[tuple[Row, ...], ...]
    totals: list[list[NumberArray]]
    largest: list[list[float]]
    since: float
    given: list[_Given] = field(default_factory=list)


class Sums:
    """See the module. `ranks` are those of the cluster, which may lose some."""

    def __init__(self, link: Link, stream: int, ranks: dict[int, Rank], rooms: Rooms) -> None:
        self._link, self._stream, self._ranks, self._rooms = link, stream, ranks, rooms
        self._held: dict[int, dict[Key, Message]] = {}  # what each rank has announced
        self._released: deque[Message] = deque()  # from any thread
        self._running: _Running | None = None

    @property
    def moving(self) -> bool:
        """Whether totals are arriving."""
        return self._running is not None and any(given.coming for given in self._running.given)

    def announce(self, rank: int, message: Message) -> None:
        """Note a row that lies elsewhere."""
        self._held.setdefault(rank, {})[message.round, message.slot, message.row] = message

    def release(self, message: Message) -> None:
        """Let a row go; from any thread."""
        self._released.append(message)

    def tidy(self) -> None:
        """Tell ranks what they need no longer hold."""
        free: dict[int, list[Key]] = {}
        while self._released:
            message = self._released.popleft()
            rank, key = message.token, (message.round, message.slot, message.row)
            if self._held.get(rank, {}).get(key) is message:
                del self._held[rank][key]
                free.setdefault(rank, []).append(key)
        for rank, keys in free.items():
            if self._running is not None and any(row.key in keys for row in self._chosen() if row.rank == rank):
                self.give_up()
            self._link.send(rank, self._stream, packed(FREE, keys))

    def _chosen(self) -> list[Row]:
        return [] if self._running is None else [row for rows in self._running.rows for row in rows]

    # adding

    def add(self, round: int, sums: Sequence[Sum], now: float) -> list[Report]:
        """Have sums added up; return what there is to report at once."""
        self.tidy()
        self.give_up()
        rows, missing = [], list[Message]()
        for wanted in sums:
            of = list[Row]()
            for weight, message in zip(wanted.weights.tolist(), wanted.messages, strict=True):
                if not message.elsewhere or weight == 0:
                    continue
                key = message.round, message.slot, message.row
                if self._held.get(message.token, {}).get(key) is not message:
                    missing.append(message)
                of.append(Row(message.token, key, weight))
            rows.append(tuple(of))
        if missing:
            return [Unread(tuple(missing))]
        forms = tuple(wanted.messages[0].form for wanted in sums)
        totals = [
            self._memory(form, wanted.weights, bool(of)) for form, wanted, of in zip(forms, sums, rows, strict=True)
        ]
        largest = [[0.0] * len(total) for total in totals]
        running = self._running = _Running(round, sums, forms, tuple(rows), totals, largest, now)
        size = sum(part.nbytes for total in totals for part in total)
        holders = {row.rank for of in rows for row in of}
        adders = sorted(known.rank for known in self._ranks.values() if known.rank in holders or _idle(known))
        adders.sort(key=lambda rank: rank not in holders)
        whole = [[(0, len(part)) for part in total] for total in totals]
        self._give(running, whole, adders[: max(1, size // _SHARE)])
        return []

    def _memory(self, form: bytes, weights: NumberArray, some: bool) -> list[NumberArray]:
        found = []
        types = total_types(form, weights.tolist())
        for dtype, segment in zip(types, trees.layout(form).segments, strict=True):
            room = self._rooms.take(dtype, segment.count)
            found.append(np.empty(segment.count, dtype) if room is None else room)
            if not some:
                found[-1].fill(0)
        return found

    def _give(self, running: _Running, left: list[list[Range]], adders: Sequence[int]) -> None:
        """Give what is left to some adders, and tell all who hold a row of it."""
        left = [ranges if rows else [(0, 0)] * len(ranges) for ranges, rows in zip(left, running.rows, strict=True)]
        shared = [[cut(one, len(adders)) for one in ranges] for ranges in left]
        shares = tuple(
            Share(adder, tuple(tuple(cuts[i] for cuts in ranges) for ranges in shared))
            for i, adder in enumerate(adders)
        )
        order = Order(self._link.new_operation(), shares, running.forms, running.rows)
        frame = packed(SUM, order)
        for rank in {row.rank for row in self._chosen()} | set(adders):
            self._link.send(rank, self._stream, frame)
        running.given += [
            _Given(order.number, share.adder, [list(ranges) for ranges in share.ranges]) for share in shares
        ]

    def heard(self, rank: int, frame: Any) -> None:
        """Receive part of a total that was announced; what belongs to no running sum is dropped."""
        said = Summed(*unpacked(frame))
        for given in () if self._running is None else self._running.given:
            if (given.number, given.adder) == (said.number, rank):
                assert self._running is not None
                total = self._running.totals[said.sum][said.segment]
                request = self._link.expect(rank, said.number, raw(total[said.at : said.end]))
                if request is not None:
                    given.coming.append((request, said, total))
                return
        drop(self._link, rank, said)

    def step(self, reports: list[Report], now: float, patience_s: float) -> None:
        """Take in totals that have arrived, and look after ranks that do not answer."""
        self.tidy()
        running = self._running
        if running is None:
            return
        for given in running.given:
            while given.coming and (came := self._link.came(given.coming[0][0])) is not False:
                _, said, memory = given.coming.popleft()
                if came:
                    self._take_in(running, given, said, memory, now)
        if all(given.over for given in running.given):
            self._running = None
            reports.append(Added(running.round, tuple(self._total(running, i) for i in range(len(running.sums)))))
            return
        holders = {row.rank for row in self._chosen()}
        busy = {given.adder for given in running.given if not given.over} | holders
        asked = [self._ranks[rank] for rank in busy if rank in self._ranks]
        for known in hung(self._link, self._stream, asked, since=running.since, now=now, patience_s=patience_s):
            known.late, running.since = True, now
            self.lose(known.rank, reports, rows=known.rank in holders)

    def _take_in(self, running: _Running, given: _Given, said: Summed, memory: NumberArray, now: float) -> None:
        running.since = now
        start, end = given.ranges[said.sum][said.segment]
        assert start == said.at, "parts of a share come in order"
        given.ranges[said.sum][said.segment] = said.end, end
        total = running.totals[said.sum][said.segment]
        if total is not memory:
            total[said.at : said.end] = memory[said.at : said.end]
        tops = running.largest[said.sum]
        tops[said.segment] = float(np.maximum(tops[said.segment], said.largest))

    def _total(self, running: _Running, i: int) -> Total:
        """Return a total, with what lies here added."""
        weights, messages = running.sums[i]
        segments, most = running.totals[i], running.largest[i]
        sizes: FloatArray = np.zeros((len(segments), len(messages)))
        here = [j for j, message in enumerate(messages) if not message.elsewhere]
        for j, message in enumerate(messages):
            if message.elsewhere:
                sizes[:, j] = message.sizes
        if here:
            more = add_up(weights[here], [messages[j] for j in here], self._rooms)
            sizes[:, here] = more.sizes
            with np.errstate(invalid="ignore", over="ignore"):
                for part, other in zip(segments, more.segments, strict=True):
                    part += other
            most = [extreme(part) for part in segments]
        return Total(segments, tuple(most), sizes)

    # losses

    def lose(self, rank: int, reports: list[Report], *, rows: bool = True) -> None:
        """Do without an adder that died or hangs; with `rows`, also without what it holds."""
        if rows:
            gone = self._held.pop(rank, {})
            if gone:
                reports.append(Unread(tuple(gone.values())))
                if rank in self._ranks:
                    self._link.send(rank, self._stream, packed(FREE, gone))
            if any(row.rank == rank for row in self._chosen()):
                self.give_up()
        running = self._running
        if running is None:
            return
        for given in [given for given in running.given if given.adder == rank and not given.over]:
            running.given.remove(given)
            self._abandon(given)
            if given.coming:  # MPI may still write there
                running.totals = [[part.copy() for part in total] for total in running.totals]
            holders = {row.rank for row in self._chosen()}
            others = [known.rank for known in self._ranks.values() if known.rank in holders or _idle(known)]
            self._give(running, given.ranges, [other for other in others if other != rank] or [rank])

    def give_up(self) -> None:
        """End the sum that is running, if one is."""
        running, self._running = self._running, None
        for given in () if running is None else running.given:
            if not given.over:
                self._abandon(given)

    def _abandon(self, given: _Given) -> None:
        """Tell an adder that its share is no longer wanted; what it has sent is received to its end."""
        if given.adder in self._ranks:
            self._link.send(given.adder, self._stream, frames.pack_short(DROP, 0, given.number))
        for request, _, memory in given.coming:
            self._link.forsake(request, memory, cancel=False)


def _idle(known: Rank) -> bool:
    return known.up and not known.late and not known.behind


def drop(link: Link, rank: int, said: Summed) -> None:
    """Receive what an adder sends although nobody wants it any more: it needs its memory back."""
    memory = np.empty(said.nbytes, np.uint8)
    request = link.expect(rank, said.number, memory)
    if request is not None:
        link.forsake(request, memory, cancel=False)
