"""The emulated clusters of the comparison, and what is known about a case before it runs."""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from threading import Timer

import numpy as np

from bench.compare_emulation import Place
from bench.compare_jobs import JOBS, Job
from bench.emulated import BURSTS, RARELY, SLOW, cluster, equal
from echelon.papers.stream_workers import example2
from echelon.plan import Plan
from echelon.profile import Profile
from echelon.search import advise
from echelon.splits import theorem2

VICTIM, KILL_AFTER_S = 2, 0.05  # who is killed, and how long after the first half: in the middle of an iteration
BY_HAND = ("uncoded", "pull", "copies")  # families of strategies that need no code: lanes, and a pool for idle workers
WHOLE = "uncoded, Theorem 2, one message each"

EXAMPLE2 = "Example 2, five unequal"
SLOWED = "ten equal, each five times slower in 10 % of rounds"
BURSTY = "eight in bursts (Gilbert-Elliott)"
STEADY = "six equal that hardly vary"
DEADLY = "six equal, one is killed half-way"
CLUSTERS: dict[str, Callable[[], Profile]] = {
    EXAMPLE2: lambda: example2().with_workload(arrivals=RARELY),
    SLOWED: lambda: cluster(40, equal(10, "straggler", 1.3, **SLOW)),
    BURSTY: lambda: cluster(32, equal(8, "gilbert_elliott", 2.1, **BURSTS)),
    STEADY: lambda: cluster(36, equal(6, "gamma", 0.02)),
    DEADLY: lambda: cluster(36, equal(6, "gamma", 0.3)),
}


@dataclass(frozen=True)
class Case:
    """A job on a cluster.

    scale: of the cluster's times. seed: what task times are drawn from.
    lanes, batches, ahead: the plan for contenders that carry it out by hand: the parts that each worker has from the
        start; those that it gets, a batch at a time, when it has no more than `ahead` left.
    together: whether what a worker has from the start comes as one message.
    """

    cluster: str
    job: str
    iterations: int
    scale: float
    lanes: list[list[int]]
    batches: list[list[int]]
    ahead: int
    together: bool
    seed: int = 0

    @cached_property
    def work(self) -> Job:
        return JOBS[self.job](CLUSTERS[self.cluster]().workload.critical, self.iterations)

    @cached_property
    def profile(self) -> Profile:
        return CLUSTERS[self.cluster]().scaled(self.scale)

    @property
    def workers(self) -> int:
        return len(self.profile.workers)

    @property
    def shares(self) -> list[int]:
        """How many parts each worker computes if nothing is handed out later: by Theorem 2."""
        work = self.profile.workload
        found = theorem2(self.profile.speeds, work.critical, work.gamma)
        return [int(count) for count in found.counts]

    @property
    def kill_after(self) -> int | None:
        """After how many iterations a worker is killed, if one is."""
        return self.work.iterations // 2 if self.cluster == DEADLY else None

    def messages(self, parts: Sequence[int]) -> list[list[int]]:
        """Return which parts come as one message, of those that a worker gets."""
        return [list(parts)] if self.together else [[part] for part in parts]

    def place(self, number: int) -> Place:
        return Place(self.profile, self.seed, number)

    def kill(self, pid: int) -> None:
        """Kill a process in the middle of the iteration that begins now."""
        Timer(KILL_AFTER_S, os.kill, (pid, signal.SIGKILL)).start()


@dataclass(frozen=True)
class Run:
    """When each iteration of a contender ended."""

    ends: list[float]

    @property
    def round_s(self) -> float:
        """Mean time of an iteration; the first one, which brings the data to the workers, is left out."""
        return (self.ends[-1] - self.ends[0]) / (len(self.ends) - 1)


@dataclass(frozen=True)
class Known:
    """What is known beforehand: echelon's strategy, and the best one that needs no code."""

    case: Case
    strategy: str
    by_hand: str


def known(name: str, job: str, round_s: float, iterations: int, together: bool) -> Known:
    """Return what advice finds for a job on a cluster, scaled so that the best iteration takes this long.

    together: whether contenders by hand send what a worker has as one message, in the shares of Theorem 2; else they
        get the best plan without a code.
    """
    profile, work = CLUSTERS[name](), JOBS[job].work
    advice = advise(profile, work=work)
    best = advice.best_for("LinearJob" if work == "linear" else "SumJob")
    plain = next(
        one
        for one in advice.ranked
        if one.strategy.family in BY_HAND and one.strategy.job is None and (one.name == WHOLE or not together)
    )
    plan = plain.plan()
    assert isinstance(plan, Plan)
    if plain.name == WHOLE:
        ends = np.cumsum([sum(task.cost for task in lane) for lane in plan.lanes]).astype(int).tolist()
        lanes = [list(range(first, end)) for first, end in pairwise([0, *ends])]
    else:
        lanes = [[task.row for task in lane] for lane in plan.lanes]
    batches = [[task.row for task in batch] for batch in plan.pool.batches] if plan.pool is not None else []
    ahead = plan.pool.ahead if plan.pool is not None else 0
    scale = round_s / best.iteration
    case = Case(name, job, iterations, scale, lanes, batches, ahead, plain.name == WHOLE)
    return Known(case, best.name, plain.name)
