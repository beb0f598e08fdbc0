"""Workers as threads of this process: for tests, for small work, and where processes are not available.

Python code takes turns, so nothing gets faster; but rounds, purges and losses are the same as anywhere.
"""

import logging
from collections.abc import Sequence
from copy import deepcopy
from queue import Empty, Queue
from threading import Thread
from typing import Any

from echelon.arrays import NumberArray
from echelon.cause import Cause
from echelon.clusters.base import Down, Message, RealTime, Report, Trouble, Up, Work
from echelon.clusters.inside import Inside
from echelon.clusters.lane import LaneWorker
from echelon.clusters.pace import Pace, paces
from echelon.clusters.places import Places
from echelon.plan import Task
from echelon.profile import Profile

log = logging.getLogger("echelon.clusters")

_GRACE_S = 10.0  # time that a part may still take when its cluster is closed
_ALL = 1 << 62  # a round after all rounds
_Order = tuple[int, float, tuple[Work, Any], tuple[Task, ...]]  # round, start, work and state, tasks


class ThreadWorker(LaneWorker):
    """A worker in a thread of its own."""

    keeps = True

    def __init__(self, cluster: "ThreadCluster", number: int, place: int, pace: Pace | None) -> None:
        super().__init__(pace)
        self.number, self.place, self.killed = number, place, False
        self.inbox: Queue[_Order | None] = Queue()
        self._cluster = cluster
        self.thread = Thread(target=self._serve, name=f"echelon-worker-{number}", daemon=True)

    def _serve(self) -> None:
        self._cluster.reports.put(Up(self.number, self.place))
        reason = "killed"
        try:
            self.run()
        except BaseException as error:
            self.killed, reason = True, f"its thread ended: {error!r}"
            raise
        finally:
            if self.killed:
                self._cluster.reports.put(Down(self.number, self.place, reason))

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

    def send(self, slot: int, row: int, seconds: float, form: bytes, segments: list[NumberArray]) -> None:
        """Report the message of a row."""
        self._cluster.reports.put(Message(self.number, self.round, slot, row, seconds, form, segments))

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
        self.over = 0
        self.stopped: dict[int, int] = {}  # the round in which a slot was last recovered
        # not a SimpleQueue, whose wait with a timeout may last for ever (CPython 3.11)
        self.reports: Queue[Report | None] = Queue()
        self._threads: dict[int, ThreadWorker] = {}
        self._places = Places(self.workers)
        self._closed = False
        for place in range(self.workers):
            self._spawn(place)

    def _spawn(self, place: int) -> None:
        worker = self.worker(self, self._places.next_number(), place, deepcopy(self._paces[place]))
        self._threads[worker.number] = worker
        worker.thread.start()

    def assign(self, worker: int, round: int, tasks: Sequence[Task]) -> None:
        """Append tasks to a worker's lane."""
        if worker in self._threads:
            self._threads[worker].inbox.put((round, self.now(), self._brought(round), tuple(tasks)))

    def purge(self, round: int) -> None:
        """End a round."""
        self.over = round

    def stop(self, round: int, slot: int) -> None:
        """End a slot of a round."""
        self.stopped[slot] = round

    def poll(self, timeout_s: float | None) -> list[Report]:
        """Return what happened, after waiting for it at most this long."""
        found: list[Report] = []
        try:
            report = self.reports.get(timeout=timeout_s)
            while report is not None:
                found.append(report)
                if isinstance(report, Down):
                    self._replace(report)
                report = self.reports.get_nowait()
        except Empty:
            pass
        return found

    def _replace(self, down: Down) -> None:
        del self._threads[down.worker]
        self._places.died(down.worker, down.place, up=True, now=self.now(), reason=down.reason)
        for place in self._places.due(self.now()):
            self._spawn(place)

    def release(self, message: Message) -> None:
        """Do nothing: messages are ordinary arrays here."""

    def kill(self, worker: int) -> None:
        """Let a worker end before its next part, as if it had died."""
        self._threads[worker].killed = True
        self._threads[worker].inbox.put(None)

    def wake(self) -> None:
        """End a `poll` that waits; from any thread."""
        self.reports.put(None)

    def close(self) -> None:
        """Stop all threads, and wait for them."""
        if self._closed:
            return
        self._closed = True
        self.over = _ALL
        for worker in self._threads.values():
            worker.inbox.put(None)
        for worker in self._threads.values():
            worker.thread.join(_GRACE_S)
            if worker.thread.is_alive():
                log.warning("%s still computes a part that does not end; it is abandoned", worker.thread.name)
