"""Dask's side of the comparison: a future for each part, which the scheduler hands to whoever is free."""

import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from distributed import Client, LocalCluster, WorkerPlugin, get_worker

from bench.compare_cases import VICTIM, Case, Place, Run
from bench.compare_jobs import Job


class Emulation(WorkerPlugin):
    """What a worker knows of the cluster that it is to be part of, and when its orders came."""

    name = "emulation"

    def __init__(self, case: Case) -> None:
        self._case = case
        self.came: dict[Any, float] = {}

    def setup(self, worker: Any) -> None:
        self.place: Place = self._case.place(worker.name)

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        if start == "released":
            self.came[key] = time.monotonic()
        elif finish == "released":
            self.came.pop(key, None)


def part(number: int, job: Job, iteration: int, request: np.ndarray) -> np.ndarray:
    """Compute a part, on whichever worker this is."""
    worker = get_worker()
    emulation = worker.plugins[Emulation.name]
    return emulation.place.do(job, iteration, emulation.came[worker.get_current_task()], request, number)


def run(case: Case) -> Run:
    job, ends = case.work, []
    with _client(case) as client:
        pids = client.run(lambda dask_worker: (dask_worker.name, os.getpid())).values()
        (data,) = client.scatter([job], broadcast=True)
        state = job.begin()
        for iteration in range(1, job.iterations + 1):
            request = job.request(state)
            futures = client.map(part, range(job.parts), job=data, iteration=iteration, request=request, pure=False)
            state = job.step(state, job.whole(client.gather(futures)))
            ends.append(time.monotonic())
            if iteration == case.kill_after:
                case.kill(dict(pids)[VICTIM])
    return Run(ends, job.check(state))


@contextlib.contextmanager
def _client(case: Case) -> Iterator[Client]:
    import dask

    with (
        tempfile.TemporaryDirectory(prefix="dask-", ignore_cleanup_errors=True) as folder,
        # how many tasks the scheduler sends to a worker of one thread
        dask.config.set({"distributed.scheduler.worker-saturation": case.depth}),
        LocalCluster(
            n_workers=case.workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            local_directory=folder,
        ) as cluster,
        Client(cluster) as client,
    ):
        client.register_plugin(Emulation(case))
        yield client
