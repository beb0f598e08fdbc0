"""Workers as threads of this process: for tests, for small work, and where processes can't be had.

Python code takes turns, so nothing gets faster; but rounds, purges and losses are the same as anywhere.
"""

import logging
import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Thread
from typing import Any

from echelon.arrays import NumberArray
from echelon.clusters.base import Attached, Down, Message, Report, Trouble, Up, Work
from echelon.clusters.lane import LaneWorker
from echelon.clusters.pace import Pace, paces
from echelon.plan import Task
from echelon.profile import Profile

log = logging.getLogger("echelon.clusters")

_GRACE_S = 10.0  # what a part may still take when its cluster is closed
_ALL = 1 << 62  # a round after all rounds
_Order = tuple[int, float, Work, Any, tuple[Task, ...]]  # round, start, work, state, tasks


class ThreadCluster:
    """Workers as threads; `emulate` and `seed` as for processes.

    >>> cluster = ThreadCluster(1)
    >>> cluster.poll(None)
    [Up(worker=0, place=0)]
    >>> cluster.close()
    """

    def __init__(self, workers: int | None = None, *, emulate: Profile | None = None, seed: int = 1) -> None:
        self._paces = paces(workers, emulate, seed)
        self.workers = len(self._paces)
        self.over = 0
        self.stopped: dict[int, int] = {}  # the round in which a slot was last recovered
        # not a SimpleQueue, which may wait for ever where it is to wait for a moment (CPython 3.11)
        self.reports: Queue[Report | None] = Queue()
        self._works: dict[int, Any] = {}
        self._state: tuple[int, int, Any] = (0, 0, None)
        self._threads: dict[int, _Worker] = {}
        self._next = 0
        self._closed = False
        for place in range(self.workers):
            self._spawn(place)

    def _spawn(self, place: int) -> None:
        worker = _Worker(self, self._next, place, self._paces[place])
        self._threads[self._next] = worker
        self._next += 1
        worker.thread.start()

    def pack(self, value: Any) -> "_Packed":
        """Copy a value."""
        return _Packed(deepcopy(value))

    def load(self, key: int, work: Any) -> None:
        """Keep a job's work: threads share it."""
        self._works[key] = work.value if isinstance(work, _Packed) else work

    def unload(self, key: int) -> None:
        """Forget a job's work."""
        del self._works[key]

    def broadcast(self, round: int, key: int, state: Any) -> None:
        """Set what the parts of a round are computed from."""
        self._state = round, key, state
        if isinstance(state, Attached):
            state.attach(self._works.__getitem__)

    def assign(self, worker: int, round: int, tasks: Sequence[Task]) -> None:
        """Append tasks to a worker's lane."""
        of_state, key, state = self._state
        assert of_state == round, "broadcast before assign"
        if worker in self._threads:
            self._threads[worker].inbox.put((round, time.monotonic(), self._works[key], state, tuple(tasks)))

    def purge(self, round: int) -> None:
        """End a round."""
        self.over = round

    def stop(self, round: int, slot: int) -> None:
        """End a slot of a round."""
        self.stopped[slot] = round

    def poll(self, timeout_s: float | None) -> list[Report]:
        """Return what happened, after waiting for it for so long at most."""
        found: list[Report] = []
        try:
            report = self.reports.get(timeout=timeout_s)
            while report is not None:
                found.append(report)
                if isinstance(report, Down):
                    del self._threads[report.worker]
                    self._spawn(report.place)
                report = self.reports.get_nowait()
        except Empty:
            pass
        return found

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
        """Let all threads end, and wait for them."""
        if self._closed:
            return
        self._closed = True
        self.over = _ALL
        for worker in self._threads.values():
            worker.inbox.put(None)
        for worker in self._threads.values():
            worker.thread.join(_GRACE_S)
            if worker.thread.is_alive():
                log.warning("%s is still at a part that does not end; it is left to itself", worker.thread.name)


@dataclass(frozen=True, slots=True)
class _Packed:
    value: Any


class _Worker(LaneWorker):
    keeps = True

    def __init__(self, cluster: ThreadCluster, number: int, place: int, pace: Pace | None) -> None:
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
        return _ALL if self.killed else self._cluster.over

    def stopped(self, slot: int) -> bool:
        return self._cluster.stopped.get(slot) == self.round

    def take(self, timeout_s: float | None) -> None:
        try:
            order = self.inbox.get(timeout=timeout_s)
        except Empty:
            return
        if order is None:
            self.open = False
            return
        round, start, work, state, tasks = order
        bring = None if round == self.round else lambda: (work, state)
        self.begin(round, start, [(task.slot, task.row, task.cost) for task in tasks], bring)

    def send(self, slot: int, row: int, seconds: float, form: bytes, segments: list[NumberArray]) -> None:
        self._cluster.reports.put(Message(self.number, self.round, slot, row, seconds, form, segments))

    def complain(self, error: str) -> None:
        self._cluster.reports.put(Trouble(self.number, self.round, error))
