"""Who is busy when: every stretch of computing of every worker, for a picture like the paper's Fig. 3."""

from dataclasses import dataclass

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.delays import arrival_law, task_laws
from echelon.plan import Plan
from echelon.profile import Profile
from echelon.seeds import generators
from echelon.simulation.queueing import departures
from echelon.simulation.rounds import RoundSampler


@dataclass(frozen=True, slots=True)
class Timeline:
    """One simulated stream, stretch by stretch.

    worker, job, iteration: whose stretch it is and what for, shape (stretches,).
    start, stop: when it computes; between them the worker is active, elsewhere idle, shape (stretches,).
    arrivals, starts, departures: of each job, shape (jobs,).
    """

    worker: IntArray
    job: IntArray
    iteration: IntArray
    start: FloatArray
    stop: FloatArray
    arrivals: FloatArray
    starts: FloatArray
    departures: FloatArray


def timeline(plan: Plan, profile: Profile, *, jobs: int = 3, seed: int = 1, purge: bool = True) -> Timeline:
    """Return the first `jobs` jobs of a stream in full; a split does not change when jobs arrive."""
    checks.whole("jobs", jobs, least=1)
    gap_rng, rng = generators(seed)
    iterations = profile.job.iterations
    arrivals = arrival_law(profile.job.arrivals).sample((1, jobs, 1), gap_rng)[0, :, 0].cumsum()
    sampler = RoundSampler(plan, task_laws(profile), profile.speeds.link, purge=purge)
    seen, _ = sampler.draw(sampler.begin(1, rng), 1, jobs * iterations, rng)
    times = seen.times.reshape(jobs, iterations)
    left = departures(arrivals[None], times.sum(axis=1)[None])[0]
    starts = np.maximum(arrivals, np.concatenate([[0.0], left[:-1]]))
    opened = (starts[:, None] + times.cumsum(axis=1) - times).ravel()
    round_of, worker = np.nonzero(seen.busy[0] > 0)
    begun = opened[round_of] + profile.speeds.link[worker]
    return Timeline(
        worker=worker,
        job=round_of // iterations,
        iteration=round_of % iterations,
        start=begun,
        stop=begun + seen.busy[0, round_of, worker],
        arrivals=arrivals,
        starts=starts,
        departures=left,
    )
