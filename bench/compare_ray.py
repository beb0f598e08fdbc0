"""Ray as its documentation has it: a pool of actors that Ray restarts when they die, one part at a time to each."""

import os
import time
from functools import partial
from typing import Any

import numpy as np
import ray
from ray.util import ActorPool

from bench.compare_cases import VICTIM, Case, Run
from bench.compare_emulation import Place
from bench.compare_jobs import Job
from bench.compare_ray_session import started


class RayWorker:
    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place

    def pid(self) -> int:
        return os.getpid()

    def part(self, iteration: int, sent: float, request: np.ndarray, number: int) -> tuple[int, np.ndarray]:
        return number, self._place.do(self._job, iteration, sent, request, number)


def call(iteration: int, request: np.ndarray, actor: Any, number: int) -> Any:
    return actor.part.remote(iteration, time.monotonic(), request, number)


def run(case: Case) -> Run:
    work, ends = case.work, []
    with started(case.workers):
        job, remote = ray.put(work), ray.remote(RayWorker).options(num_cpus=1, max_restarts=-1, max_task_retries=-1)
        actors = [remote.remote(job, case.place(place)) for place in range(case.workers)]
        pids = ray.get([actor.pid.remote() for actor in actors])
        pool, state = ActorPool(actors), work.begin()
        for iteration in range(1, work.iterations + 1):
            found = dict(pool.map_unordered(partial(call, iteration, work.request(state)), range(work.parts)))
            state = work.step(state, work.whole([found[number] for number in range(work.parts)]))
            ends.append(time.monotonic())
            if iteration == case.kill_after:
                case.kill(pids[VICTIM])
    work.check(state)
    return Run(ends)
