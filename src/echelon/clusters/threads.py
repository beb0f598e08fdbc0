"""Workers as threads of this process: for tests, for small work, and where processes are not available.

Python code takes turns, so nothing gets faster; but rounds, purges and losses are the same as anywhere.
"""

import logging
import time
from collections.abc import Sequence
from copy import deepcopy
from queue import Empty, Queue
from threading import Thread
from typing import Any

from echelon import trees
from echelon.arrays import NumberArray
from echelon.cause import Cause
from echelon.clusters import cuda, seat
from echelon.clusters.adding import Rooms
from echelon.clusters.base import Doing, Down, Message, RealTime, Report, Trouble, Up, Work
from echelon.clusters.inside import Inside
from echelon.clusters.lane_worker import LaneWorker
from echelon.clusters.pace import Pace, paces
from echelon.clusters.places import Places
from echelon.errors import ClusterError
from echelon.plan import Task
from echelon.profile import Profile

log = logging.getLogger("echelon.clusters")

_GRACE_S = 10.0  # time that parts may still take, all together, when their cluster is closed
_ALL = 1 << 62  # a round after all rounds
_Order = tuple[int, float, tuple[Work, Any], tuple[Task, ...]]  # round, start, work and state, tasks


class ThreadWorker(LaneWorker):
    """A worker in a thread of its own."""

    keeps = True

    def __init__(self, cluster: "ThreadCluster", number: int, place: int, pace: Pace | None) -> None:
        super().__init__(pace)
        self.number, self.place, self.killed = number, place, False
        self.doing: tuple[tuple[int, int, int], float] | None = None  # the row being computed, and since when
        self.inbox: Queue[_Order | None] = Queue()
        self._cluster = cluster
        self.rooms = Rooms()  # for large messages
        self.thread = Thread(target=self._serve, name=f"echelon-worker-{number}", daemon=True)

    def _serve(self) -> None:
        seat.take(self.place, process=False)
        self._cluster.reports.put(Up(self.number, self.place))
        try:
            self.run()
        except BaseException as error:
            self._cluster.kill(self.number, f"its thread ended: {error!r}")
            raise

    def at(self, slot: int, row: int) -> None:
        """Note which row is being computed, and since when its current part."""
        self.doing = (self.round, slot, row), time.monotonic()

    def rest(self) -> None:
        """Note that nothing is being computed."""
        self.doing = None

    def over(self) -> int:
        """Return the last round that needs no work."""
        return _ALL if self.killed else self._cluster.over

    def stopped(self, slot: int) -> bool:
        """Return whether a slot of the current round needs no more work."""
        return self._cluster.stopped.get(slot) == self.round

    def take(self, timeout_s: float | None) -> None:
        """Take in one order."""
        try:
            order = self.inbox.get(timeout=timeout_s)
        except Empty:
            return
        if order is None:
            self.open = False
            return
        round, start, brought, tasks = order
        bring = None if round == self.round else lambda: brought
        self.begin(round, start, [(task.slot, task.row, task.cost) for task in tasks], bring)

    def allocate(self, form: bytes, device: Any) -> list[NumberArray] | None:
        """Return memory for a large message that nobody reads any more; on a device, torch keeps it."""
        if device is not None:
            (segment,) = trees.layout(form).segments
            return [cuda.empty(segment.dtype, segment.count, device)]
        rooms = [self.rooms.take(segment.dtype, segment.count) for segment in trees.layout(form).segments]
        return None if any(room is None for room in rooms) else [room for room in rooms if room is not None]

    def send(self, slot: int, row: int, seconds: float, form: bytes, segments: list[NumberArray]) -> None:
        """Report the message of a row."""
        told = self.sizes(slot, form, segments)
        self._cluster.reports.put(Message(self.number, self.round, slot, row, seconds, form, segments, None, told))

    def complain(self, cause: Cause) -> None:
        """Report that a task raised."""
        self._cluster.reports.put(Trouble(self.number, self.round, cause))


class ThreadCluster(RealTime, Inside):
    """Workers as threads; `workers`, `emulate` and `seed` as for processes.

    >>> cluster = ThreadCluster(1)
    >>> cluster.poll(None)
    [Up(worker=0, place=0)]
    >>> cluster.close()
    """

    worker = ThreadWorker

    def __init__(self, workers: int | None = None, *, emulate: Profile | None = None, seed: int = 1) -> None:
        super().__init__()
        self._paces = paces(workers, emulate, seed)
        self.workers = len(self._paces)
        self.names = seat.names(self.workers, emulate)
        self.over = 0
        self.stopped: dict[int, int] = {}  # the round in which a slot was last recovered
        # not a SimpleQueue, whose wait with a timeout may last for ever (CPython 3.11)
        self.reports: Queue[Up | Down | Message | Trouble | None] = Queue()
        self._threads: dict[int, ThreadWorker] = {}
        self._places = Places(self.workers)
        self._closed = False
        try:
            for place in range(self.workers):
                self._spawn(place)
        except RuntimeError as error:
            self.close()
            raise ClusterError(f"{self.workers} worker threads can't be started: {error}; ask for fewer") from error

    def _spawn(self, place: int) -> None:
        worker = self.worker(self, self._places.next_number(), place, deepcopy(self._paces[place]))
        self._threads[worker.number] = worker
        try:
            worker.thread.start()
        except RuntimeError:
            del self._threads[worker.number]
            raise

    def assign(self, worker: int, round: int, tasks: Sequence[Task]) -> None:
        """Append tasks to a worker's lane."""
        if worker in self._threads:
            self._threads[worker].inbox.put((round, self.now(), self._brought(round), tuple(tasks)))

    def unload(self, key: int) -> None:
        """Forget a job's work, and the memory of its messages and totals."""
        super().unload(key)
        for worker in self._threads.values():
            worker.rooms.clear()

    def purge(self, round: int) -> None:
        """End a round."""
        self.over = round

    def stop(self, round: int, slot: int) -> None:
        """End a slot of a round."""
        self.stopped[slot] = round

    def poll(self, timeout_s: float | None) -> list[Report]:
        """Return what happened, after waiting for it at most this long."""
        reports: list[Report] = []
        end = None if timeout_s is None else self.now() + timeout_s
        while True:
            self._fill()
            try:
                report = self.reports.get(timeout=self._places.wait(end, self.now()))
                while report is not None:
                    self._hear(report, reports)
                    report = self.reports.get_nowait()
                return reports  # woken
            except Empty:
                pass
            if reports or (end is not None and self.now() >= end):
                return reports

    def _hear(self, report: Up | Down | Message | Trouble, reports: list[Report]) -> None:
        if report.worker not in self._threads:
            return  # it was given up, and what it still sends is dropped
        reports.append(report)
        if isinstance(report, Up):
            self._places.came_up(report.place)
        elif isinstance(report, Down):
            del self._threads[report.worker]
            self._places.died(report.worker, report.place, up=True, now=self.now(), reason=report.reason)
            self._fill()

    def _fill(self) -> None:
        for place in self._places.due(self.now()):
            try:
                self._spawn(place)
            except RuntimeError as error:  # no more threads now
                self._places.refused(place, now=self.now(), reason=str(error))

    def release(self, message: Message) -> None:
        """Do nothing: messages are ordinary arrays here."""

    def doing(self) -> list[Doing]:
        """Return what each worker computes; no thread is stopped alone."""
        found = []
        for worker in list(self._threads.values()):
            at, since = worker.doing or (None, None)
            found.append(Doing(worker.number, at, since, stopped=False))
        return found

    def kill(self, worker: int, reason: str = "killed") -> None:
        """Give a worker up: its thread ends before its next part, and if it never does, nobody waits for it."""
        known = self._threads.get(worker)
        if known is not None and not known.killed:
            known.killed = True
            known.inbox.put(None)
            at = None if known.doing is None else known.doing[0]
            self.reports.put(Down(known.number, known.place, reason, at))

    def wake(self) -> None:
        """End a `poll` that waits; from any thread."""
        self.reports.put(None)

    def close(self) -> None:
        """Stop all threads, and wait for them; those that were given up are not waited for."""
        if self._closed:
            return
        self._closed = True
        self.over = _ALL
        workers = [worker for worker in list(self._threads.values()) if not worker.killed]
        for worker in workers:
            worker.inbox.put(None)
        end = time.monotonic() + _GRACE_S
        for worker in workers:
            worker.thread.join(max(0.0, end - time.monotonic()))
        for worker in workers:
            if worker.thread.is_alive():
                log.warning("%s still computes a part that does not end; it is abandoned", worker.thread.name)
