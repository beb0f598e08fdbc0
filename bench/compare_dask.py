"""Dask as its documentation has it: scattered data, and in an iteration one `map` over the parts and one `gather`."""

import os
import time

import numpy as np
from distributed import Client, get_worker

from bench.compare_cases import VICTIM, Case, Run
from bench.compare_dask_session import Emulation, cluster
from bench.compare_jobs import Job


def part(number: int, job: Job, iteration: int, request: np.ndarray) -> np.ndarray:
    """Compute a part, on whichever worker this is."""
    worker = get_worker()
    emulation = worker.plugins[Emulation.name]
    return emulation.place.do(job, iteration, emulation.came[worker.get_current_task()], request, number)


def run(case: Case) -> Run:
    job, ends = case.work, []
    with cluster(case.workers) as workers, Client(workers) as client:
        client.register_plugin(Emulation(case))
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
    job.check(state)
    return Run(ends)
