"""A stream of jobs in virtual time: arrivals, a first-come-first-served queue, rounds, delays; many seeds at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy.special import stdtrit

from echelon import checks
from echelon.arrays import FloatArray
from echelon.delays import Delay, arrival_law, task_laws
from echelon.errors import ArgumentError, CannotEvaluate
from echelon.plan import Plan
from echelon.profile import Profile
from echelon.reprs import short_repr
from echelon.seeds import generators
from echelon.simulation.beside import beside
from echelon.simulation.overlapped import Overlapped
from echelon.simulation.rounds import RoundSampler
from echelon.theory import TabulatedCdf

CONFIDENCE = 0.99
CHUNK = 1 << 17  # task times drawn at once: they and their results stay in the second-level cache
_MOST_JOBS = 10**8  # the delay of every job is kept
_MOST_DRAWS = 10**11  # half an hour or so

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over independent seeds with its 99 % interval (nan where one seed gives none)."""

    mean: float
    low: float
    high: float

    __repr__ = short_repr

    @classmethod
    def of(cls, values: FloatArray) -> "Interval":
        """Return Student's interval for independent values."""
        mean = float(values.mean())
        if len(values) < 2:
            return cls(mean, float("nan"), float("nan"))
        spread = float(values.std(ddof=1)) / len(values) ** 0.5
        half = spread * float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
        return cls(mean, mean - half, mean + half)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class SimulatedJobs:
    """What a simulated stream showed.

    delay: mean time of a job from arrival to delivery, with its interval over seeds.
    delays: the delay of every job that counts, shape (seeds, jobs).
    service: mean service time of a job, with its interval.
    iteration_mean: mean time of an iteration.
    utilisation: share of all time that each worker computed, shape (workers,); None for the quick path and overlap.
    idle: mean time per seed that each worker did not compute; None for the quick path and overlap.
    makespan: mean time from the first arrival to the last delivery.
    residual: how far what a round gives is from the exact sum, in the mean of all rounds; 0 but for plans that end by a
        policy (`echelon.endings`).
    """

    delay: Interval
    delays: FloatArray
    service: Interval
    iteration_mean: float
    utilisation: FloatArray | None
    idle: FloatArray | None
    makespan: float
    jobs: int
    seeds: int
    residual: float = 0.0

    __repr__ = short_repr

    def percentile(self, percent: float) -> float:
        """Return a percentile of the delay over all jobs of all seeds."""
        return float(np.percentile(self.delays, percent))


def simulate_jobs(
    plan: Plan,
    profile: Profile,
    *,
    jobs: int = 1000,
    seeds: int = 200,
    seed: int = 1,
    purge: bool = True,
    warmup: int = 0,
    laws: Delay | Sequence[Delay] | None = None,
    overlap: bool = False,
    bytes_per_message: float = 0.0,
    bytes_of_state: float = 0.0,
    progress: Progress | None = None,
) -> SimulatedJobs:
    """Return what a stream of jobs sees when every iteration of every job runs `plan` on these workers.

    Every task is sampled, and the costs of messages and rounds (`Profile.costs`) are added: with the sizes of messages
    and state, of rows that are added up, also those of links, port and plane. Each seed starts with
    an empty queue; the first `warmup` jobs of each are run but not counted. `laws` replace what the profile says
    about tasks. With `overlap`, workers for whom a round has nothing more begin the next job, if one waits: for plans
    of one slot, whose rows are all different, cost the same and are handed out one by one where there is a pool.
    `progress` is called with (rounds done, rounds in all).
    """
    checks.instance("plan", plan, Plan)
    laws = task_laws(checks.instance("profile", profile, Profile)) if laws is None else laws
    checks.flag("purge", purge)
    checks.flag("overlap", overlap)
    if progress is not None:
        checks.function("progress", progress)
    cost = beside(
        plan,
        profile.costs,
        message=checks.number("bytes_per_message", bytes_per_message, least=0),
        state=checks.number("bytes_of_state", bytes_of_state, least=0),
        added=True,
    )
    sampler = RoundSampler(
        plan, laws, profile.speeds.link, purge=purge, beside=cost.tasks or 0.0, more=cost.more, port=cost.port,
        adding=cost.adding,
    )  # fmt: skip
    if overlap and not purge:
        raise ArgumentError("overlap: not allowed without a purge; no worker is idle before all is done")
    if overlap and (cost.tasks or cost.more or cost.port or cost.adding is not None):
        raise CannotEvaluate("overlap: can't be simulated where messages or rounds cost time; run it in virtual time")
    if not overlap:
        return simulate_sampled(sampler, profile, jobs=jobs, seeds=seeds, seed=seed, warmup=warmup, progress=progress)
    jobs, seeds, warmup = _sizes(jobs, seeds, warmup, profile.workload.iterations * plan.draws)
    gap_rng, rng = generators(seed)
    arrivals = _arrivals(profile, jobs + warmup, seeds, gap_rng)
    rounds = Overlapped(plan, sampler.laws, sampler.links)
    left = rounds.departures(arrivals, profile.workload.iterations, rng, overlap=True, progress=progress)
    return _result(arrivals, left, _served(arrivals, left), None, profile.workload.iterations, warmup)


def simulate_sampled(
    sampler: RoundSampler,
    profile: Profile,
    *,
    jobs: int,
    seeds: int,
    seed: int,
    warmup: int,
    progress: Progress | None = None,
) -> SimulatedJobs:
    """Return what a stream of the profile's jobs sees when every iteration is drawn by this sampler."""
    jobs, seeds, warmup = _sizes(jobs, seeds, warmup, profile.workload.iterations * sampler.plan.draws)
    gap_rng, rng = generators(seed)
    arrivals = _arrivals(profile, jobs + warmup, seeds, gap_rng)
    services, busy, missed = _run(sampler, profile.workload.iterations, jobs + warmup, seeds, rng, progress)
    return _result(
        arrivals, departures(arrivals, services), services, busy, profile.workload.iterations, warmup, missed
    )  # fmt: skip


def simulate_law(
    law: TabulatedCdf,
    profile: Profile,
    *,
    jobs: int = 1000,
    seeds: int = 200,
    seed: int = 1,
    warmup: int = 0,
) -> SimulatedJobs:
    """Return delays alone, each iteration drawn at once from its exact law: the quick path.

    The law comes from `echelon.theory.iteration_law`; nothing is known about single workers afterwards.
    """
    iterations = profile.workload.iterations
    jobs, seeds, warmup = _sizes(jobs, seeds, warmup, iterations)
    gap_rng, rng = generators(seed)
    arrivals = _arrivals(profile, jobs + warmup, seeds, gap_rng)
    services = np.empty(arrivals.size)
    step = max(1, CHUNK // iterations)
    for at in range(0, services.size, step):
        some = services[at : at + step]
        law.sample((len(some), iterations), rng).sum(axis=1, out=some)
    by_job = services.reshape(arrivals.shape)
    return _result(arrivals, departures(arrivals, by_job), by_job, None, iterations, warmup)


def _sizes(jobs: int, seeds: int, warmup: int, draws: int) -> tuple[int, int, int]:
    jobs, seeds = checks.whole("jobs", jobs, least=1), checks.whole("seeds", seeds, least=1)
    warmup = checks.whole("warmup", warmup, least=0)
    if (jobs + warmup) * seeds > _MOST_JOBS:
        raise ArgumentError(f"jobs: {jobs + warmup} times {seeds} seeds are not allowed; must be at most {_MOST_JOBS}")
    if (jobs + warmup) * seeds * draws > _MOST_DRAWS:
        raise ArgumentError(
            f"jobs: {jobs + warmup} times {seeds} seeds are not allowed; a job draws {draws} times, and all may "
            f"draw {_MOST_DRAWS:.0e} times; ask for fewer jobs, or fewer seeds"
        )
    return jobs, seeds, warmup


def _arrivals(profile: Profile, jobs: int, seeds: int, rng: Generator) -> FloatArray:
    law = arrival_law(profile.workload.arrivals)
    # consecutive gaps lie along the axis on which a law keeps its memory
    times = law.sample((seeds, jobs, 1), rng)[..., 0]
    return np.cumsum(times, axis=1, out=times)


def _run(
    sampler: RoundSampler,
    iterations: int,
    jobs: int,
    seeds: int,
    rng: Generator,
    progress: Progress | None,
) -> tuple[FloatArray, FloatArray, float]:
    """Return service times (seeds, jobs), the total computing time of each worker, and the mean residual of a round.

    In chunks of rounds.
    """
    ending = sampler.plan.ending
    approximate, missed = ending is not None and ending.approximate, 0.0
    rounds = jobs * iterations
    fit = max(1, CHUNK // sampler.plan.draws)
    together = max(1, min(seeds, fit // rounds))
    services = np.zeros((seeds, jobs))
    busy = np.zeros(len(sampler.plan.lanes))
    for first in range(0, seeds, together):
        block = services[first : first + together]
        state = sampler.begin(len(block), rng)
        for start in range(0, rounds, fit):
            stop = min(start + fit, rounds)
            seen, state = sampler.draw(state, len(block), stop - start, rng)
            _add_to_jobs(block, seen.times, start, iterations)
            busy += seen.busy.sum(axis=(0, 1))
            missed += float(seen.residual.sum()) if approximate else 0.0
            if progress is not None:
                progress(first * rounds + len(block) * stop, seeds * rounds)
    return services, busy, missed / (seeds * rounds)


def _add_to_jobs(services: FloatArray, times: FloatArray, start: int, iterations: int) -> None:
    """Add the rounds from number `start` on to the jobs they belong to."""
    stop = start + times.shape[1]
    first, last = start // iterations, -(-stop // iterations)
    cuts = np.maximum(np.arange(first, last) * iterations - start, 0)
    services[:, first:last] += np.add.reduceat(times, cuts, axis=1)


def _served(arrivals: FloatArray, left: FloatArray) -> FloatArray:
    """Return how long each job was in service: from when it came, or the one before it left."""
    free = np.hstack([np.zeros((len(left), 1)), left[:, :-1]])
    return left - np.maximum(arrivals, free)


def _result(
    arrivals: FloatArray,
    left: FloatArray,
    services: FloatArray,
    busy: FloatArray | None,
    iterations: int,
    warmup: int,
    residual: float = 0.0,
) -> SimulatedJobs:
    delays = (left - arrivals)[:, warmup:]
    counted = services[:, warmup:]
    spans = left[:, -1] - arrivals[:, 0]
    total = float(spans.sum())
    seeds, jobs = delays.shape
    return SimulatedJobs(
        delay=Interval.of(delays.mean(axis=1)),
        delays=delays,
        service=Interval.of(counted.mean(axis=1)),
        iteration_mean=float(counted.mean()) / iterations,
        utilisation=None if busy is None else busy / total,
        idle=None if busy is None else (total - busy) / seeds,
        makespan=total / seeds,
        jobs=jobs,
        seeds=seeds,
        residual=residual,
    )


def departures(arrivals: FloatArray, services: FloatArray) -> FloatArray:
    """Return when each job leaves a single server, for arrays of shape (seeds, jobs).

    Job j leaves at the latest, over i <= j, of the arrival of i plus the services of i … j.

    >>> departures(np.array([[0.0, 1.0, 9.0]]), np.array([[3.0, 2.0, 1.0]])).tolist()
    [[3.0, 5.0, 10.0]]
    """
    worked = np.cumsum(services, axis=1)
    slack = arrivals - worked
    slack += services
    np.maximum.accumulate(slack, axis=1, out=slack)
    slack += worked
    return slack
