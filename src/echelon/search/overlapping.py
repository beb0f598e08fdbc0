"""What it is worth to let idle workers begin the next job (`Stream(overlap=True)`), where jobs wait."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from echelon.arrays import FloatArray
from echelon.can import Rules
from echelon.delays import Delay, arrival_law
from echelon.plan import Plan
from echelon.profile import Profile, Workload
from echelon.search.outcome import Outcome
from echelon.seeds import generators
from echelon.simulation.overlapped import Overlapped

LOAD = 0.2  # share of all time that a job is in service, below which hardly any waits
STEPS, SEEDS = 6_000, 40  # rows handed out one after another in a simulated stream, for all seeds at once
JOBS = (15, 300)  # in a stream, at least and at most
MATTERS = 0.01  # share of an iteration, or a delay, below which one strategy is as good as another


def overlapping(profile: Profile, laws: Sequence[Delay], ranked: Sequence[Outcome], seed: int) -> list[Outcome]:
    """Return, of each family's best that can be simulated so, what is expected where jobs overlap, if that is a gain.

    Only those are tried that may come out before the best of all. Two streams that begin with an empty queue are
    compared, on the same draws: what is saved in the long run is rather more. What messages and rounds take beside
    computing is left out of that share. Where a stream of long jobs would take long to simulate, little can be saved,
    and nothing is tried.
    """
    job, found, tried = profile.workload, list[Outcome](), set[str]()
    best = next(one for one in ranked if one.strategy.job is None)
    for one in sorted(ranked, key=lambda one: one.interval[1]):  # of some only few rounds were seen: luck is no merit
        family = one.strategy.family
        if family in tried or not np.isfinite(one.delay) or _busy(one, job) < LOAD:
            continue
        if _at_best(one, job) > (1 - MATTERS) * best.delay:
            continue
        plan = (one.strategy.lighter or one.strategy.plan)()
        jobs = STEPS // (job.iterations * (len(plan.pooled) + len(plan.lanes)))
        if jobs < JOBS[0] or not Overlapped.can(plan, laws, Rules(overlap=True)):
            continue
        tried.add(family)
        share = _share(profile, laws, plan, min(jobs, JOBS[1]), seed)
        if share < 1 - MATTERS:
            strategy = replace(one.strategy, name=f"{one.name}, jobs overlapping", overlap=True)
            found.append(replace(one, strategy=strategy, delay=one.delay * share, method="sampled"))
    return found


def _busy(one: Outcome, job: Workload) -> float:
    """Return the share of all time that a job is in service."""
    return one.iteration * job.iterations / job.arrivals.mean


def _at_best(one: Outcome, job: Workload) -> float:
    """Return the mean delay if the first iteration of every job were done before its turn.

    The time in service is shorter by that, and the time in the queue as Pollaczek and Khinchine have it.
    """
    left, load, service = 1 - 1 / job.iterations, _busy(one, job), one.iteration * job.iterations
    return left * service + (one.delay - service) * left**2 * (1 - load) / (1 - left * load)


def _share(profile: Profile, laws: Sequence[Delay], plan: Plan, jobs: int, seed: int) -> float:
    """Return the mean delay of jobs that overlap, as a share of what it is where they do not."""
    iterations = profile.workload.iterations
    rounds = Overlapped(plan, laws, profile.speeds.link)

    def delay(*, overlap: bool) -> float:
        gap_rng, rng = generators(seed)
        gaps: FloatArray = arrival_law(profile.workload.arrivals).sample((SEEDS, jobs, 1), gap_rng)[..., 0]
        arrivals = np.cumsum(gaps, axis=1)
        return float((rounds.departures(arrivals, iterations, rng, overlap=overlap) - arrivals).mean())

    return delay(overlap=True) / delay(overlap=False)
