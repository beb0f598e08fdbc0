"""What a schedule consists of, drawn from its seed: workers, jobs with their serial results, what the user does."""

import math
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.random import Generator

from echelon.clusters.faults import Crash, Endless, Faults, Hang, Incident, MasterCrash, Partition, Raise, Slowdown
from echelon.endings import Deadline, Quorum, Residual
from echelon.errors import ArgumentError
from echelon.jobs import BlockJob, IterativeJob, LinearJob, SumJob
from echelon.jobs.base import VERIFY
from echelon.profile import PLANES, Costs
from echelon.schemes import (
    CodedPlan,
    backups,
    block_coordinate,
    fractional_repetition,
    gradient_coding,
    multi_message,
    pull,
    uncoded_multi_message,
)
from echelon.stream.coding import Coding
from echelon.stream.verifying import check_choice

SIZE = 3  # numbers of a state
SEED = 1  # of the stream: codes are the same in all schedules, so that what is known about them is kept


def grown(state: np.ndarray, chunk: np.ndarray) -> np.ndarray:
    return np.tanh(state) * chunk


def block_grown(state: np.ndarray, chunk: np.ndarray, at: slice) -> np.ndarray:
    return np.tanh(state[at]) * chunk[at]


def moved(state: np.ndarray, total: np.ndarray) -> np.ndarray:
    return 0.5 * state + 0.1 * total + 0.01


def unit(state: np.ndarray, chunk: np.ndarray) -> np.ndarray:
    return chunk


def farthest(state: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return how far the weights of a sum were from 1 at most, so far."""
    return np.maximum(state, np.linalg.norm(total - 1) / len(total) ** 0.5)


@dataclass
class Planned:
    """A job, when it arrives, and its state after every iteration as one process computes it.

    The parts of a job that ends its rounds by a policy are the unit vectors: its state is the residual that it must be
    told, and no other process computes it.
    """

    job: IterativeJob
    arrives: float
    states: list[np.ndarray] | None


@dataclass
class World:
    """A schedule. Times are virtual seconds of the life in which they come."""

    seed: int
    places: int
    means: list[float]
    links: list[float]
    jobs: list[Planned]
    options: dict[str, Any]
    journalled: bool
    reads: float  # mean time between two looks at the deliveries
    cancels: dict[int, float] = field(default_factory=dict)  # job to time
    closes: float | None = None  # when the stream is closed, and opened again
    full_journal: float | None = None  # when the journal's disk is full
    full_record: float | None = None
    liar: int | None = None  # the place whose worker sends wrong results now and then
    stay_bytes: float | None = None  # size from which rows stay with their workers, and are added up there
    costs: Costs = field(default_factory=Costs)


def drawn(seed: int) -> World:
    """Return the schedule of a seed."""
    rng = np.random.default_rng(seed)
    places, count = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    given = float(rng.choice([1.0, 1.3, 2.0]))
    redundancy = None if seed % 4 == 3 else given
    jobs = [_job(rng, places, redundancy) for _ in range(count)]
    arrivals = np.cumsum(rng.exponential(1.5, count)).tolist()
    horizon = arrivals[-1] + 2.0 * sum(len(states) for _, states in jobs)
    listed = [Planned(job, at, states) for (job, states), at in zip(jobs, arrivals, strict=True)]
    liar = _liar(np.random.default_rng([seed, 1]), places, redundancy, [job for job, _ in jobs])
    by_policy = np.random.default_rng([seed, 3])
    if liar is None and by_policy.random() < 0.25:
        listed.append(Planned(_ended(by_policy, places), arrivals[-1] + 0.1, None))

    def some(chance: float) -> float | None:
        return float(rng.uniform(0, horizon)) if rng.random() < chance else None

    journalled = bool(rng.random() < 0.8)
    return World(
        seed, places,
        means=[0.2 * (1 + place) for place in range(places)],
        links=rng.uniform(0, 0.3, places).tolist(),
        jobs=listed,
        options={
            "redundancy": redundancy, "seed": SEED, "patience_s": 2.0 if rng.random() < 0.5 else None,
            "overlap": bool(rng.random() < 0.5), "adapt": bool(rng.random() < 0.5),
            "split": str(rng.choice(["theorem2", "uniform"])),
        },
        journalled=journalled,
        reads=float(rng.choice([0.3, 2.0, 8.0])),
        cancels={job: float(rng.uniform(0, horizon)) for job in range(count) if rng.random() < 0.15},
        closes=some(0.2),
        full_journal=some(0.2) if journalled else None,
        full_record=some(0.15),
        liar=liar,
        **_planes(np.random.default_rng([seed, 2])),
    )  # fmt: skip


def _planes(rng: Generator) -> dict[str, Any]:
    """Have rows stay with their workers in some schedules, and links and ports take their time in some."""
    never = math.inf
    slow = {name: float(rng.choice([never, never, 5e3])) for name in ("bandwidth", "port")}
    if rng.random() < 0.5:
        return {"costs": Costs(**slow)} if rng.random() < 0.2 else {}
    plane = str(rng.choice(PLANES))
    return {"stay_bytes": 1.0, "costs": Costs(combining=float(rng.choice([0.0, 0.02])), plane=plane, **slow)}


def _liar(rng: Generator, places: int, redundancy: float | None, jobs: list[IterativeJob]) -> int | None:
    """Have the results of some jobs checked; return the place of a liar, if those of all jobs are."""
    coding, wanted = Coding(redundancy, SEED), rng.random() < 0.3
    for job in jobs:
        for verify in rng.permutation(VERIFY).tolist() if wanted or rng.random() < 0.2 else ():
            try:
                check_choice(verify, job, coding.of(job, job.plan)[1], job.plan, places)
                job.verify = verify
            except ArgumentError:
                pass
    several = places >= 3  # a liar alone is not found out
    return int(rng.integers(places)) if several and all(job.verify is not None for job in jobs) else None


def _job(rng: Generator, places: int, redundancy: float | None) -> tuple[IterativeJob, list[np.ndarray]]:
    """Return a job of some kind, and the states that it passes through."""
    iterations = int(rng.integers(1, 5))
    state = rng.uniform(-1, 1, SIZE)
    kind = int(rng.integers(4))
    often = {"state": state, "iterations": iterations, "update": moved}
    if kind == 0:
        matrix = rng.uniform(-1, 1, (SIZE, SIZE))
        parts = int(rng.integers(1, SIZE + 1))
        plan = backups(workers=places, parts=parts) if rng.random() < 0.3 else None
        job: IterativeJob = LinearJob(matrix=matrix, parts=parts, plan=plan, **often)
        step = partial(_product_step, matrix)
    elif kind == 1:
        plan = _blocks(places, bool(rng.integers(2)))
        chunks = rng.uniform(-1, 1, (places, SIZE))
        job = BlockJob(partial=block_grown, chunks=list(chunks), plan=plan, **often)
        step = partial(_sum_step, chunks)
    else:
        plan = _sum_plan(places, int(rng.integers(5))) if kind == 2 else None
        parts = int(rng.integers(1, 9)) if plan is None else plan.parts
        chunks = rng.uniform(-1, 1, (parts, SIZE))
        lend = plan is not None and bool(rng.integers(2))
        job = SumJob(partial=grown, chunks=list(chunks), plan=plan, lend=lend, **often)
        step = partial(_sum_step, chunks)
    if rng.random() < 0.3:
        job.tolerance = _tight(job, redundancy)
    states = [state]
    for _ in range(iterations):
        states.append(step(states[-1]))
    return job, states


def _ended(rng: Generator, places: int) -> SumJob:
    """Return a job whose rounds end by some policy."""
    policies = (
        Residual(float(rng.uniform(0, 0.9))), Deadline(float(rng.uniform(0.1, 4.0))), Deadline("auto"),
        Quorum(float(rng.uniform(0, 1)), grace=float(rng.uniform(0, 1))), Quorum(0.5, grace="auto"),
    )  # fmt: skip
    policy, other = (policies[i] for i in rng.integers(len(policies), size=2))
    policy = (policy, policy & other, policy | other)[rng.integers(3)]
    plan = _sum_plan(places, int(rng.integers(5))) if rng.random() < 0.5 else None
    parts = int(rng.integers(1, 9)) if plan is None else plan.parts
    return SumJob(
        partial=unit, update=farthest, state=np.zeros(()), chunks=list(np.eye(parts)), plan=plan, ending=policy,
        unbiased=bool(rng.integers(2)), iterations=int(rng.integers(1, 12)),
    )  # fmt: skip


def _product_step(matrix: np.ndarray, state: np.ndarray) -> np.ndarray:
    return moved(state, matrix @ state)


def _sum_step(chunks: np.ndarray, state: np.ndarray) -> np.ndarray:
    return moved(state, sum(grown(state, chunk) for chunk in chunks))


@cache
def _blocks(places: int, several: bool) -> CodedPlan:
    return block_coordinate(places, levels=[0, min(1, places - 1), places - 1] if several else [places - 1] * SIZE)


@cache
def _sum_plan(places: int, kind: int) -> CodedPlan:
    if kind == 0:
        return pull(workers=places, parts=2 * places + 1, batch=1 + places % 2, ahead=places % 2)
    if kind == 1 and places % 2 == 0:
        return fractional_repetition(workers=places, load=2)
    if kind == 2 and places % 2 == 0 and places > 2:
        return multi_message(workers=places, load=2, clusters=2, order=2)
    if kind == 3:
        return uncoded_multi_message(workers=places, load=min(2, places))
    return gradient_coding(workers=places, load=min(2, places))


def _tight(job: IterativeJob, redundancy: float | None) -> float:
    """Return a tolerance that all rows meet, and some of them may not."""
    codes, decoders = Coding(redundancy, SEED).of(job, job.plan)
    errors = (
        decoder.weights(range(code.rows)).relative_to_terms() for code, decoder in zip(codes, decoders, strict=True)
    )
    return 1.2 * max(errors)


def faults(rng: Generator, *, places: int, horizon: float, crashes: bool, liar: int | None = None) -> Faults:
    """Return faults of every kind, some of them absent; `crashes`: the master may also be killed."""
    some = rng.integers(0, 3, 6)

    def when() -> float:
        return float(rng.uniform(0, horizon))

    def where() -> int:
        return int(rng.integers(places))

    def length(mean: float) -> float:
        return float(rng.exponential(mean))

    incidents: list[Incident] = [Crash(when(), where(), length(0.3), length(3.0)) for _ in range(some[0])]
    incidents += [Partition(when(), where(), length(3.0), bool(rng.random() < 0.5)) for _ in range(some[1])]
    incidents += [Slowdown(when(), where(), length(6.0), float(rng.uniform(2, 20))) for _ in range(some[2])]
    incidents += [Raise(when(), where()) for _ in range(some[3])]
    incidents += [Hang(when(), where(), length(4.0)) for _ in range(some[4])]
    for _ in range(int(rng.integers(0, 3))):  # those that never end
        incidents.append(Hang(when(), where(), math.inf, bool(rng.random() < 0.5)))
    incidents += [Endless(when(), where()) for _ in range(int(rng.integers(0, 2)))]
    if crashes:
        incidents += [MasterCrash(when(), int(rng.integers(40))) for _ in range(some[5])]
    quiet = rng.random(6) < 0.4
    most = (0.4, 0.4, 0.4, 1.0, 0.5, 0.2)
    lose, repeat, delay, start, stillborn, loading = (
        0.0 if still else float(rng.uniform(0, top)) for still, top in zip(quiet, most, strict=True)
    )
    return Faults(
        rng, lose=lose, repeat=repeat, delay=delay, start=start, stillborn=stillborn, loading=loading,
        incidents=tuple(incidents), wrong={} if liar is None else {liar: 0.2},
    )  # fmt: skip
