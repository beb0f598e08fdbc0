"""Echelon's side of the comparison: a stream that knows its workers and chooses the strategy itself."""

import time
from typing import Any
from unittest.mock import patch

import echelon as ec
from bench.compare_cases import VICTIM, Case, Run, wait
from bench.compare_jobs import Job, Solve, Training, gradient
from echelon.clusters import processes
from echelon.clusters.pace import Pace, paces
from echelon.profile import Profile
from echelon.stream.observer import Observer, Running


class WholeParts(Pace):
    """The pace of a worker that finishes its parts, needed or not, as those of the other contenders do."""

    def begin(self, start: float, tasks: int) -> None:
        super().begin(start, tasks)
        self._due = max(self._due, time.monotonic())

    def due(self, cost: float) -> tuple[float, float]:
        found = super().due(cost)
        wait(found[0])
        return found


def whole_paces(workers: int | None, emulate: Profile | None, seed: int) -> list[Pace | None]:
    made = [pace for pace in paces(workers, emulate, seed) if pace is not None]
    return [WholeParts(pace.law, pace.link, pace.rng) for pace in made]


def run(case: Case) -> Run:
    with patch.object(processes, "paces", whole_paces):
        cluster = ec.clusters.ProcessCluster(emulate=case.profile, seed=case.seed)
    watched = _Watched(case, cluster)
    # the stream has a seed of its own: advice must not know what will be drawn
    with ec.Stream(cluster, profile=case.profile, strategy="auto", progress=False) as stream:
        stream._driver.watch(watched)
        state = stream.submit(_job(case.work)).result()
    return Run(watched.ends, case.work.check(state))


def _job(job: Job) -> ec.SumJob | ec.LinearJob:
    common: dict[str, Any] = {"state": job.begin(), "update": job.step, "iterations": job.iterations}
    if isinstance(job, Solve):
        return ec.LinearJob(matrix=job.matrix, vector=job.request, parts=job.parts, **common)
    assert isinstance(job, Training)
    return ec.SumJob(partial=gradient, chunks=[job.chunk(number) for number in range(job.parts)], **common)


class _Watched(Observer):
    """Notes when iterations end, and kills a worker where one is to die."""

    def __init__(self, case: Case, cluster: ec.clusters.ProcessCluster) -> None:
        self._case, self._cluster = case, cluster
        self.ends: list[float] = []

    def stepped(self, running: Running, finished: bool) -> None:
        self.ends.append(time.monotonic())
        if len(self.ends) == self._case.kill_after:
            self._case.kill(self._cluster.pids()[VICTIM])  # the first workers have the numbers of their places
