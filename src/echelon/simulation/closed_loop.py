"""Plan, observe, plan again: the loop in which speeds are learnt while jobs run, as a simulation."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.delays import task_laws
from echelon.errors import ArgumentError
from echelon.estimate import SpeedEstimator
from echelon.profile import Profile
from echelon.schemes import any_k, split_rows
from echelon.seeds import generators
from echelon.simulation.rounds import RoundSampler


@dataclass(frozen=True, slots=True)
class LoopResult:
    """What the loop did, plan by plan.

    counts: rows of each worker, shape (plans, workers).
    estimates: mean task time of each worker as believed when planning, shape (plans, workers).
    iteration_mean: mean time of the iterations under each plan, shape (plans,).
    """

    counts: IntArray
    estimates: FloatArray
    iteration_mean: FloatArray


def closed_loop(
    declared: Profile,
    truth: Profile | Callable[[int], Profile],
    *,
    plans: int = 20,
    rounds: int = 50,
    rule: str = "theorem2",
    prior: float = 10.0,
    memory: float | None = 500.0,
    purge: bool = True,
    seed: int = 1,
) -> LoopResult:
    """Return what happens when the master starts from `declared` speeds and re-plans from what it sees.

    `truth` is what the workers really do, or a function from the number of the plan to it, for drift. Each plan
    runs `rounds` iterations; then the estimator (see `SpeedEstimator`) takes them in and the split is made anew.
    A worker that gets no rows is not observed and keeps its last estimate.
    """
    checks.whole("plans", plans, least=1)
    checks.whole("rounds", rounds, least=1)
    _, rng = generators(seed)
    estimator = SpeedEstimator(declared.speeds, prior=prior, memory=memory)
    believed = declared
    counts, estimates, means = [], [], []
    for i in range(plans):
        real = truth(i) if callable(truth) else truth
        if len(real.workers) != len(declared.workers):
            raise ArgumentError(f"truth: {len(real.workers)} workers; must be {len(declared.workers)}, as declared")
        split = split_rows(believed, rule, purge=purge)
        sampler = RoundSampler(
            any_k(split.counts, declared.job.critical), task_laws(real), real.speeds.link, purge=purge
        )
        seen, _ = sampler.draw(sampler.begin(1, rng), 1, rounds, rng)
        counts.append(split.counts)
        estimates.append(believed.speeds.mean)
        means.append(float(seen.times.mean()))
        estimator.observe(busy=seen.busy[0], done=seen.done[0])
        # only two moments are known, and noise may put them outside the range of a family other than gamma
        believed = declared.with_speeds(estimator.estimate().speeds).with_law("gamma")
    return LoopResult(np.array(counts), np.array(estimates), np.array(means))
