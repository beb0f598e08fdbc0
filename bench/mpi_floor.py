"""What our Python takes for an MPI exchange if MPI took no time at all: frames are handed over within one process.

No master in Python can be quicker than that, however its messages travel.
"""

import time
from collections import deque
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


def floor_seconds(workers: int, tasks: int, work: Any) -> tuple[float, float]:
    """Return the seconds of a round: on the master, and on each of the workers, which work side by side."""
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
    of_master = of_workers = 0.0
    for round in range(1, ROUNDS + 1):
        began = time.perf_counter()
        cluster.broadcast(round, 1, np.zeros(4))
        for worker in range(workers):
            cluster.assign(worker, round, [Task(slot=0, row=tasks * worker + i) for i in range(tasks)])
        ordered = time.perf_counter()
        for rank in ranks:
            rank.take(None)
            while rank._tasks:
                rank._step()
        computed = time.perf_counter()
        came = 0
        while came < workers * tasks:
            came += len(cluster.poll(0))
        cluster.purge(round)
        of_master += time.perf_counter() - computed + ordered - began
        of_workers += computed - ordered
    return of_master / ROUNDS, of_workers / ROUNDS / workers
