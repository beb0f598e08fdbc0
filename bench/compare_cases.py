"""The emulated clusters of the comparison, and how a worker of one of them passes its time, whoever drives it."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from threading import Timer

import numpy as np

import echelon as ec
from bench.compare_jobs import JOBS, Job
from bench.emulated import BURSTS, RARELY, SLOW, cluster, equal
from echelon.advice import advise
from echelon.clusters.pace import paces
from echelon.delays import task_laws
from echelon.papers.stream_workers import example2
from echelon.profile import Profile

TIME_S = 0.12  # mean time of an iteration under the best strategy, to which clusters are scaled
DEPTHS, ROUNDS = (1, 2, 3), 4000  # tasks that a worker may hold where they are pulled, and rounds to find the best
VICTIM, KILL_AFTER_S = 2, 0.05  # who is killed, and how long after the first half: in the middle of an iteration


CLUSTERS: dict[str, Callable[[], Profile]] = {
    "Example 2, five unequal": lambda: example2().with_workload(arrivals=RARELY),
    "ten equal, each five times slower in 10 % of rounds": lambda: cluster(40, equal(10, "straggler", 1.3, **SLOW)),
    "eight in bursts (Gilbert-Elliott)": lambda: cluster(32, equal(8, "gilbert_elliott", 2.1, **BURSTS)),
    "six equal, one is killed half-way": lambda: cluster(36, equal(6, "gamma", 0.3)),
}
DEADLY = "six equal, one is killed half-way"


@dataclass(frozen=True)
class Case:
    """A job on a cluster.

    seed: what task times are drawn from. scale: of the cluster's times. depth: how many tasks a worker should hold
    where they are pulled.
    """

    cluster: str
    job: str
    seed: int
    scale: float
    depth: int

    @cached_property
    def work(self) -> Job:
        return JOBS[self.job](CLUSTERS[self.cluster]().workload.critical)

    @cached_property
    def profile(self) -> Profile:
        return CLUSTERS[self.cluster]().scaled(self.scale)

    @property
    def workers(self) -> int:
        return len(self.profile.workers)

    @property
    def kill_after(self) -> int | None:
        """After how many iterations a worker is killed, if one is."""
        return self.work.iterations // 2 if self.cluster == DEADLY else None

    def place(self, number: int) -> "Place":
        return Place(self.profile, self.seed, number)

    def kill(self, pid: int) -> None:
        """Kill a process in the middle of the iteration that begins now."""
        Timer(KILL_AFTER_S, os.kill, (pid, signal.SIGKILL)).start()


def plan(name: str, job: str) -> tuple[float, int, str]:
    """Return scale and depth for a job on a cluster, and the strategy that echelon takes there."""
    profile = CLUSTERS[name]()
    best = advise(profile, work=JOBS[job].work).best_for("LinearJob" if JOBS[job].work == "linear" else "SumJob")
    scale = TIME_S / best.iteration
    return scale, _depth(profile.scaled(scale)), best.name


def _depth(profile: Profile) -> int:
    """Return how many tasks a worker should hold: more hide the delay of its link, fewer wait behind slow ones."""
    laws, times = task_laws(profile), {}
    for held in DEPTHS:
        pulled = ec.schemes.pull(workers=len(laws), parts=profile.workload.critical, ahead=held - 1)
        times[held] = ec.simulate_jobs(pulled, laws, links=profile.speeds.link, rounds=ROUNDS).mean
    return min(times, key=lambda held: times[held])


class Place:
    """A worker of an emulated cluster: the j-th task of a round takes the j-th draw of seed, worker and round.

    Orders that find it idle reach it after the delay of its link; echelon's own workers do the same (`Pace`).
    """

    def __init__(self, profile: Profile, seed: int, number: int) -> None:
        pace = paces(None, profile, seed)[number]
        assert pace is not None
        self._pace, self._round = pace, 0

    def due(self, iteration: int, sent: float) -> float:
        """Return when a task that was sent then is done; iterations count from 1."""
        if iteration == self._round:
            self._pace.resume(sent)
        while self._round < iteration:  # draws of rounds in which it had nothing to do are passed over
            self._pace.begin(sent, 1)
            self._round += 1
        return self._pace.due(1.0)[0]

    def do(self, job: Job, iteration: int, sent: float, request: np.ndarray, number: int) -> np.ndarray:
        """Compute a part, in the time that it takes here."""
        due = self.due(iteration, sent)
        found = job.part(request, number)
        wait(due)
        return found


def wait(due: float) -> None:
    """Sleep until then."""
    time.sleep(max(0.0, due - time.monotonic()))


@dataclass(frozen=True)
class Run:
    """When each iteration of a contender ended, and where the last one left the job."""

    ends: list[float]
    reached: float

    @property
    def seconds(self) -> float:
        """From the end of the first iteration, which brings the data to the workers, to the end of the last."""
        return self.ends[-1] - self.ends[0]
