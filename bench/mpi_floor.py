"""The least time of an MPI exchange with our Python: measured with frames handed over within one process.

It is a floor for this code, not for any code: caches are as warm as possible, nothing polls or waits for a processor.
Less Python between MPI and the caller, or Python that runs while bytes travel, could take less.
"""

import time
from collections import deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from echelon.clusters import mpi
from echelon.clusters.mpi_worker import Inbox, MpiWorker
from echelon.plan import Task

ROUNDS = 2000


class Handing:
    """A link whose frames are there at once."""

    def __init__(self, rank: int, queues: list[deque[Any]]) -> None:
        self.rank, self.size, self.lost, self.streams, self.user = rank, len(queues), set[int](), 1, None
        self.mpi = SimpleNamespace(Exception=ZeroDivisionError)
        self._queues = queues

    def send(self, rank: int, tag: int, frame: Any, buffers: Any = ()) -> None:
        assert not buffers
        self._queues[rank].append((self.rank, tag, bytearray(frame)))

    post = send

    def flush(self) -> bool:
        return True

    def receive(self) -> Any:
        queue = self._queues[self.rank]
        return queue.popleft() if queue else None


@dataclass(frozen=True, slots=True)
class Floor:
    """Seconds of our Python in a round: all orders on the master, a worker's tasks on it, all results on the master."""

    workers: int
    tasks: int
    orders: float
    worker: float
    results: float

    def least(self, bare: float, processors: int) -> float:
        """Return the least seconds of a round, if the same bytes take `bare` seconds without our Python.

        Steps that come one after another add to them: all that the master does, or all orders, the work of the last
        worker and its last result. And all ranks together have only the machine's processors.
        """
        master = self.orders + self.results
        last = self.orders + self.worker + self.results / (self.workers * self.tasks)
        return max(bare + master, bare + last, (master + self.workers * self.worker) / processors)


def measured(workers: int, tasks: int, work: Any) -> Floor:
    """Measure a round of some workers, each with this many tasks; medians."""
    queues: list[deque[Any]] = [deque() for _ in range(workers + 1)]
    links = [Handing(rank, queues) for rank in range(workers + 1)]
    with patch.object(mpi, "join", lambda: links[0]):
        cluster = mpi.MpiCluster()
    ranks = []
    for link in links[1:]:
        order = link.receive()
        ranks.append(MpiWorker(link, Inbox(link), order[1], None))  # type: ignore[arg-type]
    cluster.poll(0)
    for rank in ranks:
        rank._works[1] = work
    times = []
    for round in range(1, ROUNDS + 1):
        marks = [time.perf_counter()]
        cluster.broadcast(round, 1, np.zeros(4))
        for worker in range(workers):
            cluster.assign(worker, round, [Task(slot=0, row=tasks * worker + i) for i in range(tasks)])
        marks.append(time.perf_counter())
        for rank in ranks:
            rank.take(None)
            while rank._tasks:
                rank._step()
        marks.append(time.perf_counter())
        came = 0
        while came < workers * tasks:
            came += len(cluster.poll(0))
        cluster.purge(round)
        marks.append(time.perf_counter())
        times.append(np.diff(marks))
    orders, computed, results = np.median(times, axis=0).tolist()
    return Floor(workers, tasks, orders, computed / workers, results)
