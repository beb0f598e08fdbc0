"""Echelon's side of the comparison: a stream that knows its workers and chooses the strategy itself."""

import time
from typing import Any
from unittest.mock import patch

import echelon as ec
from bench.compare_cases import VICTIM, Case, Run
from bench.compare_emulation import whole_paces
from bench.compare_jobs import Job, Solve, Training, gradient
from echelon.clusters import processes
from echelon.stream.observer import Observer, RoundSeen, Running


def run(case: Case) -> Run:
    with patch.object(processes, "paces", whole_paces):
        cluster = ec.clusters.ProcessCluster(emulate=case.profile, seed=case.seed)
    watched = Watched(case, cluster)
    # the stream has a seed of its own: advice must not know what will be drawn
    with ec.Stream(cluster, profile=case.profile, strategy="auto", observers=[watched], progress=False) as stream:
        state = stream.submit(_job(case.work)).result()
    case.work.check(state)
    return Run(watched.ends)


def _job(job: Job) -> ec.SumJob | ec.LinearJob:
    common: dict[str, Any] = {"state": job.begin(), "update": job.step, "iterations": job.iterations}
    if isinstance(job, Solve):
        return ec.LinearJob(matrix=job.matrix, vector=job.request, parts=job.parts, **common)
    assert isinstance(job, Training)
    return ec.SumJob(partial=gradient, chunks=[job.chunk(number) for number in range(job.parts)], **common)


class Watched(Observer):
    """Notes when iterations end, and kills a worker where one must die."""

    def __init__(self, case: Case, cluster: ec.clusters.ProcessCluster) -> None:
        self._case, self._cluster = case, cluster
        self.ends: list[float] = []

    def stepped(self, running: Running, seen: RoundSeen, finished: bool) -> None:
        self.ends.append(time.monotonic())
        if len(self.ends) == self._case.kill_after:
            self._case.kill(self._cluster.pids()[VICTIM])  # the first workers have the numbers of their places
