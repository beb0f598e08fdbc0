"""Ray's side of the comparison: an actor for each worker, to whom the driver hands parts as they become free."""

import contextlib
import os
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.compare_cases import VICTIM, Case, Place, Run
from bench.compare_jobs import Job


class RayWorker:
    """An actor."""

    def __init__(self, job: Job, place: Place) -> None:
        self._job, self._place = job, place

    def pid(self) -> int:
        return os.getpid()

    def part(self, iteration: int, sent: float, request: np.ndarray, number: int) -> np.ndarray:
        return self._place.do(self._job, iteration, sent, request, number)


class Pool:
    """Actors, and the parts that they are at."""

    def __init__(self, case: Case) -> None:
        import ray

        self._ray, self._case = ray, case
        self._job = ray.put(case.work)
        self._actors: dict[int, Any] = {}
        self._starting: dict[Any, tuple[int, Any]] = {}
        for place in range(case.workers):
            self._start(place)
        self.pids: dict[int, int] = {}
        while self._starting:
            self._started(ray.wait(list(self._starting), num_returns=1)[0][0])

    def _start(self, place: int) -> None:
        made = self._ray.remote(RayWorker).options(num_cpus=1)
        actor = made.remote(self._job, self._case.place(place))
        self._starting[actor.pid.remote()] = place, actor

    def _started(self, reference: Any) -> None:
        place, actor = self._starting.pop(reference)
        self.pids[place] = self._ray.get(reference)
        self._actors[place] = actor

    def iterate(self, iteration: int, request: np.ndarray) -> list[np.ndarray]:
        """Return what all parts give."""
        left = deque(range(self._case.work.parts))
        flying: dict[Any, tuple[int, Any, int]] = {}
        held = dict.fromkeys(self._actors, 0)
        found: dict[int, np.ndarray] = {}
        while len(found) < self._case.work.parts:
            while left and held[place := min(held, key=held.__getitem__)] < self._case.depth:
                actor, part = self._actors[place], left.popleft()
                flying[actor.part.remote(iteration, time.monotonic(), request, part)] = place, actor, part
                held[place] += 1
            (reference,), _ = self._ray.wait([*flying, *self._starting], num_returns=1)
            if reference in self._starting:
                self._started(reference)
                held = dict.fromkeys(self._actors, 0) | held
                continue
            place, actor, part = flying.pop(reference)
            try:
                found[part] = self._ray.get(reference)
            except self._ray.exceptions.RayActorError:
                left.append(part)
                if self._actors.get(place) is actor:
                    del self._actors[place], held[place]
                    self._start(place)
            if self._actors.get(place) is actor:
                held[place] -= 1
        return [found[part] for part in range(self._case.work.parts)]


def run(case: Case) -> Run:
    job, ends = case.work, []
    with _ray(case.workers):
        pool, state = Pool(case), job.begin()
        for iteration in range(1, job.iterations + 1):
            state = job.step(state, job.whole(pool.iterate(iteration, job.request(state))))
            ends.append(time.monotonic())
            if iteration == case.kill_after:
                case.kill(pool.pids[VICTIM])
    return Run(ends, job.check(state))


@contextlib.contextmanager
def _ray(workers: int) -> Iterator[None]:
    """Start a Ray that only this machine can reach."""
    from echelon.clusters.ray_session import Session

    session = Session(None, workers)
    try:
        yield
    finally:
        session.close()
