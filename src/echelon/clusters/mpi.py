"""Workers as ranks of an MPI run, on one machine or on many: rank 0 is the master, all others are workers.

`mpiexec` starts the same program on every rank. On rank 0 it runs; on the others it gets as far as its first MPI stream
(or `join`), where they work for stream after stream until rank 0 ends. A rank that died has no successor: its place
stays empty, and others do its work, if the launcher lets them go on (Open MPI's ``--with-ft ulfm``).
"""

import logging
import pickle
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event
from typing import Any

import numpy as np

from echelon import trees
from echelon.clusters import frames, seat, shipping
from echelon.clusters.adding import Adding, Rooms
from echelon.clusters.base import Doing, Down, Message, RealTime, Report, Sum, Trouble, Up
from echelon.clusters.mpi_inbox import CLOSE, DIE, OPEN, PURGE, STOP
from echelon.clusters.mpi_link import Parcel, Patience
from echelon.clusters.mpi_plane import IDLE, LOST, SPREAD_LANE, SPREAD_OVER, SUMMED, Outbox
from echelon.clusters.mpi_ranks import SILENCE_S, Rank
from echelon.clusters.mpi_run import following, join
from echelon.clusters.mpi_state import Spreading, copied
from echelon.clusters.mpi_sums import Sums
from echelon.clusters.mpi_worker import FOLLOWS
from echelon.clusters.pace import paces
from echelon.errors import ArgumentError, ClusterError
from echelon.plan import Task, stopped_as
from echelon.profile import Profile

log = logging.getLogger("echelon.clusters")

_FOREVER_S = 3600.0
_SPREAD = 1 << 20  # bytes of a state from which ranks pass it on
_TASKS = 3.0  # that an answer may take, in times of the longest task: Python code may let nothing else run
_KEPT = 16  # results of one size, per worker, whose memory is kept
_BATCH = 64  # frames that are taken in before they are reported
_message: Callable[[tuple[Any, ...]], Message] = partial(tuple.__new__, Message)  # half the cost of its constructor


class MpiCluster(RealTime, Adding):
    """Workers as the other ranks of the run that this program is rank 0 of; elsewhere the constructor never returns.

    workers: how many; None for all ranks, and any other number is refused. `emulate` and `seed` as for processes; times
    are counted from when a worker sees the first tasks of a round.
    """

    fixed = True
    enter = staticmethod(join)

    def __init__(self, workers: int | None = None, *, emulate: Profile | None = None, seed: int = 1) -> None:
        super().__init__()
        link = self._link = join()
        alive = sorted(set(range(1, link.size)) - link.lost)
        dead = f" ({len(link.lost)} of {link.size} died)" if link.lost else ""
        if not alive:
            raise ClusterError("all worker ranks of this MPI run have died: start the program again")
        made = paces(len(alive) if workers is None and emulate is None else workers, emulate, seed)
        if len(made) != len(alive):
            what = "workers" if emulate is None else "emulate"
            raise ArgumentError(
                f"{what}: {len(made)} is not allowed; must be {len(alive)}, one per rank besides the master{dead}; "
                f"start the program with 'mpiexec -n {len(made) + 1}', or leave the number out"
            )
        if link.user is not None:
            raise ClusterError("another stream uses the ranks of this MPI run: close it first")
        link.user = self
        link.streams += 1
        self._stream = link.streams
        self.workers = len(alive)
        self.names = seat.names(self.workers, emulate)
        self._ranks = {rank: Rank(rank, place) for place, rank in enumerate(alive)}
        self._numbers = {known.number: known for known in self._ranks.values()}
        self._state: tuple[int, int, bytes, list[tuple[int, int]], list[Any]] = (0, 0, b"", [], [])
        self._outbox, self._number = Outbox(link), 0  # of the operation that spreads the state, if one does
        self._spreading = Spreading(link, self._stream, self._outbox)
        self._sums = Sums(link, self._stream, self._ranks, self._rooms)
        self._longest_s = 0.0  # of the tasks whose rows lie elsewhere
        self._found: list[Report] = []  # before the next poll
        # rank, stream, result, memory, requests
        self._coming: list[tuple[int, int, tuple[Any, ...], Any, list[Any]]] = []
        self._results = Rooms(_KEPT * len(alive))  # memory of those that come to the master
        self._bell = Event()
        self._killed: deque[tuple[int, str]] = deque()  # from any thread
        self._closed = False
        for rank, pace in zip(alive, made, strict=True):
            link.send(rank, self._stream, bytes([OPEN]) + pickle.dumps(pace))

    # work, states, lanes

    def _tell(self, known: Rank, kind: int, first: int = 0, second: int = 0) -> None:
        self._link.send(known.rank, self._stream, frames.pack_short(kind, first, second))

    def pack(self, value: Any) -> Parcel:
        """Pickle a value, its large arrays beside the pickle."""
        return Parcel(value)

    def load(self, key: int, work: Any) -> None:
        """Send a job's work to all workers, its large arrays from where they lie."""
        parcel = work if isinstance(work, Parcel) else Parcel(work, copy=False)
        frame = frames.pack_load(key, len(parcel.pickled), parcel.places)
        for known in self._ranks.values():
            self._link.send(known.rank, self._stream, frame, [parcel.pickled, *parcel.buffers])

    def unload(self, key: int) -> None:
        """Forget a job's work, and the memory of its results."""
        for known in self._ranks.values():
            self._tell(known, frames.UNLOAD, 0, key)
        self._results.clear()
        self._rooms.clear()

    def broadcast(self, round: int, key: int, state: Any) -> None:
        """Pickle the state of a round; its large arrays are copied, for a job may change them while they are sent.

        One that is large is sent at once, to all ranks that have the one before.
        """
        self._sums.tidy()
        pickled, beside = shipping.pack_state(state)
        places, size = shipping.place(beside, 0)
        room = self._rooms.take(np.dtype(np.uint8), size)
        memory = np.empty(size, np.uint8) if room is None else room
        self._state = round, key, pickled, places, copied(beside, places, memory)
        ready = [known for known in self._ranks.values() if known.up and not known.behind]
        if size >= _SPREAD and len(ready) > 1:
            self._number = self._spreading.begin(memory, ready, self.now())
        else:
            self._spreading.forget()

    def assign(self, worker: int, round: int, tasks: Sequence[Task]) -> None:
        """Send tasks, and with the first of a round its state."""
        known = self._numbers.get(worker)
        if known is None:
            return  # it died
        of_state, key, pickled, places, buffers = self._state
        assert of_state == round, "broadcast before assign"
        if known.told == round:
            known.owe(tasks)
            if known.waiting:
                known.waiting.extend(tasks)
            else:
                self._link.send(known.rank, self._stream, frames.pack_lane(round, key, 0.0, tasks, None))
            return
        known.told = round
        known.owed.clear()
        known.owe(tasks)
        frame = frames.pack_lane(round, key, 0.0, tasks, pickled, places)
        if self._spreading.reaches(known.rank):
            head = frames.pack_short(SPREAD_LANE, 0, self._number)
            self._link.send(known.rank, self._stream, head + frame)
        elif known.behind and buffers:
            known.waiting = list(tasks)  # it would only get further behind
        else:
            self._link.send(known.rank, self._stream, frame, buffers)

    def _catch_up(self, known: Rank) -> None:
        """Send a rank that was behind what it has waited for."""
        tasks, known.waiting = known.waiting, []
        if tasks and not known.behind and known.told == self._state[0]:
            round, key, pickled, places, buffers = self._state
            frame = frames.pack_lane(round, key, 0.0, tasks, pickled, places)
            self._link.send(known.rank, self._stream, frame, buffers)

    def purge(self, round: int) -> None:
        """End a round on all workers that are still working on it."""
        for known in self._ranks.values():
            if known.owed and known.told <= round:
                known.purged()
                self._tell(known, PURGE, 0, round)

    def stop(self, round: int, slot: int) -> None:
        """End a slot of a round, on every worker that may have some of it left."""
        for known in self._ranks.values():
            if known.owed or known.told < round:
                self._tell(known, STOP, slot, round)
            if known.told == round:
                known.owed = deque(task for task in known.owed if stopped_as(task[0]) != slot)

    # what happens

    def poll(self, timeout_s: float | None) -> list[Report]:
        """Return what happened, after waiting for it at most this long."""
        end = time.monotonic() + (_FOREVER_S if timeout_s is None else timeout_s)
        patience = Patience(self._link)
        while True:
            reports = self._look()
            while self._killed:
                number, reason = self._killed.popleft()
                known = self._numbers.get(number)
                if known is not None and known.up:
                    self._give_up(known, reason, reports)
            if reports:
                return reports
            if self._bell.is_set():
                self._bell.clear()
                return reports
            left, sending = end - time.monotonic(), self._outbox.step()
            if left > 0:
                moving = bool(self._coming) or self._sums.moving or (sending and self._spreading.recent(self.now()))
                patience.wait(left, self._bell, moving=moving or not self._link.flush())
            elif timeout_s is not None:
                return reports

    def _look(self) -> list[Report]:
        link, reports = self._link, self._found
        self._found = []
        link.flush()
        if self._coming:
            self._arrived(reports)
        try:
            for _ in range(_BATCH):
                found = link.receive()
                if found is None:
                    break
                self._hear(reports, *found)
        except link.mpi.Exception as error:
            for rank in link.news_of_loss(error):
                self._lose(rank, reports)
        now, patience_s = self.now(), max(SILENCE_S, _TASKS * self._longest_s)
        self._sums.step(reports, now, patience_s)
        self._spreading.step(self._ranks, now, patience_s)
        return reports

    def _hear(self, reports: list[Report], rank: int, stream: int, frame: bytearray) -> None:
        kind = frame[0]
        if rank in self._ranks:
            self._ranks[rank].heard = self.now()
        if kind == frames.RESULT:
            result = frames.unpack_result(frame)
            round, slot, row, seconds, form, offset, at, sizes = result
            if offset == FOLLOWS:
                room = self._results.take(np.dtype("u1"), trees.layout(form).nbytes)
                memory, requests = following(self._link, rank, result, room)
                self._coming.append((rank, stream, result, memory, requests))
                self._arrived(reports)
                return
            known = self._ranks.get(rank)
            if stream == self._stream and known is not None:
                known.paid(round, slot, row)
                if offset == frames.NOWHERE:
                    segments = trees.views(form, frame, at)
                    reports.append(_message((known.number, round, slot, row, seconds, form, segments, None, sizes)))
                else:
                    message = Message(known.number, round, slot, row, seconds, form, [], rank, sizes)
                    self._sums.announce(rank, message)
                    reports.append(message)
                    self._longest_s = max(self._longest_s, seconds)
        elif kind == SUMMED:
            self._sums.heard(rank, frame)
        elif stream == self._stream and rank in self._ranks:
            known = self._ranks[rank]
            if kind == frames.RAISED:
                round, cause = frames.unpack_raised(frame)
                if known.told == round:
                    known.owed.clear()
                reports.append(Trouble(known.number, round, cause))
            elif kind == SPREAD_OVER:
                self._spreading.heard(known, frames.unpack_short(frame)[1], self.now())
                self._catch_up(known)
            elif kind == IDLE:
                known.late &= known.told != frames.unpack_short(frame)[1]
            elif kind == frames.HELLO:
                known.up = True
                reports.append(Up(known.number, known.number))

    def _arrived(self, reports: list[Report]) -> None:
        """Report the large results that have arrived whole."""
        link, left = self._link, []
        for entry in self._coming:
            rank, stream, (round, slot, row, seconds, form, _, _, sizes), memory, requests = entry
            while requests and link.over(requests[-1]):
                requests.pop()
            if requests:
                left.append(entry)
            elif stream == self._stream and rank in self._ranks:
                known = self._ranks[rank]
                known.paid(round, slot, row)
                segments = trees.views(form, memory)
                reports.append(_message((known.number, round, slot, row, seconds, form, segments, None, sizes)))
        self._coming = left

    def _lose(self, rank: int, reports: list[Report]) -> None:
        self._let_go(lambda sender: sender == rank)
        known = self._ranks.pop(rank, None)
        if known is None:
            return
        del self._numbers[known.number]
        if known.up:
            reports.append(Down(known.number, known.number, f"rank {rank} died", known.at))
        self._without(rank, reports, dead=True)
        log.warning("rank %d died; %d of %d workers are left", rank, len(self._ranks), self.workers)
        self._check_left()

    def _give_up(self, known: Rank, reason: str, reports: list[Report]) -> None:
        """Do without a rank that does not return: MPI can't end it alone, unless the launcher lets the others go on."""
        self._tell(known, CLOSE)  # if it ever returns, it waits for the next stream
        if self._link.tolerant:
            self._tell(known, DIE)
        self._link.give_up(known.rank)
        del self._ranks[known.rank], self._numbers[known.number]
        reports.append(Down(known.number, known.number, reason, known.at))
        self._without(known.rank, reports, dead=False)
        log.warning("rank %d is given up; %d of %d workers are left", known.rank, len(self._ranks), self.workers)
        self._check_left()

    def _without(self, rank: int, reports: list[Report], *, dead: bool) -> None:
        """Have others do what a rank was to add up, or to pass on."""
        for known in self._ranks.values():
            self._tell(known, LOST, rank, dead)
        self._sums.lose(rank, reports)
        self._spreading.lose(rank)

    def _check_left(self) -> None:
        if not self._ranks:
            raise ClusterError("all worker ranks have died, and MPI starts no others: start the program again")

    def _let_go(self, whose: Callable[[int], bool]) -> None:
        """Let the link receive the rest of large results."""
        for rank, _, _, memory, requests in self._coming:
            if whose(rank):
                self._link.keep(rank, requests, memory)
        self._coming = [entry for entry in self._coming if not whose(entry[0])]

    def release(self, message: Message) -> None:
        """Let the rank where a message lies use its memory again."""
        if message.elsewhere:
            self._sums.release(message)

    def add(self, round: int, sums: Sequence[Sum]) -> None:
        """Have messages added up by the ranks that hold them, and others that are idle."""
        self._found += self._sums.add(round, sums, self.now())

    def doing(self) -> list[Doing]:
        """Return the first row that each rank owes, since its message before; whether it is stopped is not known."""
        return [
            Doing(known.number, known.at, known.since if known.owed else None, stopped=False)
            for known in self._ranks.values()
            if known.up
        ]

    def kill(self, worker: int, reason: str = "killed") -> None:
        """Give a rank up: what it still sends is dropped. It ends itself where the launcher lets the others go on."""
        self._killed.append((worker, reason))
        self._bell.set()

    def wake(self) -> None:
        """End a `poll` that waits; from any thread."""
        self._bell.set()

    def close(self) -> None:
        """Let the ranks wait for the next stream; unfinished work is dropped."""
        if self._closed:
            return
        self._closed = True
        self._sums.give_up()
        self._spreading.forget()
        for known in self._ranks.values():
            self._tell(known, CLOSE)
        self._let_go(lambda _: True)
        self._link.flush()
        self._link.user = None
        self._state = (0, 0, b"", [], [])
        self._results.clear()
