"""What is expected of one strategy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from echelon.advice.strategy import Strategy
from echelon.arrays import FloatArray
from echelon.delays import Delay
from echelon.plan import Plan
from echelon.prediction import is_exact, predict_jobs
from echelon.profile import Profile
from echelon.schemes import Sequential
from echelon.simulation import CONFIDENCE
from echelon.theory import queue_delay, service_moments


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is expected of a strategy.

    iteration, error: mean time of an iteration and its half-width at 99 %, or what quadrature may be off by.
    method: how that was found, "exact" or "sampled".
    delay: mean time of a job from arrival to delivery; inf where jobs come faster than they are served.
    gain: share of the iteration time of uncoded work in equal shares that is saved, on the same draws where both are
        sampled.
    loading: seconds until the data is where it is needed, paid once: what the worker with the most must hold over the
        bandwidth, and encoding it; 0 unless the size of a part is known.
    """

    strategy: Strategy
    iteration: float
    error: float
    delay: float
    gain: float
    loading: float = 0.0
    method: str = "sampled"

    @property
    def name(self) -> str:
        """Name of the strategy."""
        return self.strategy.name

    @property
    def interval(self) -> tuple[float, float]:
        """Where the mean iteration is, at 99 %."""
        return self.iteration - self.error, self.iteration + self.error

    def plan(self) -> Plan | Sequential:
        """Return the plan of a `SumJob` or `LinearJob`; of products, the scheme of a `MatmulStream`."""
        made: Plan | Sequential = self.strategy.plan()
        return made


def outcome(
    profile: Profile, strategy: Strategy, times: FloatArray, base: FloatArray, loading: float = 0.0
) -> Outcome:  # fmt: skip
    """Return what times of iterations amount to, shape (histories, rounds), beside those of equal shares."""
    mean, second = float(times.mean()), float(np.square(times).mean())
    # histories are independent of one another, rounds of one need not be
    factor = float(stdtrit(len(times) - 1, (1 + CONFIDENCE) / 2))
    error = factor * float(times.mean(axis=1).std(ddof=1)) / len(times) ** 0.5
    delay = _delay(profile, mean, second)
    return Outcome(strategy, mean, error, delay, 1 - mean / float(base.mean()), loading)


def exactly(one: Outcome, profile: Profile, plan: Plan, laws: Sequence[Delay], more: float) -> Outcome:
    """Return an outcome by the exact law of its plan, with so many seconds a round on top, where there is one."""
    if not is_exact(plan, laws):
        return one
    found = predict_jobs(plan, profile, laws=laws)
    mean = found.iteration_mean + more
    second = found.iteration_second + 2 * more * found.iteration_mean + more**2
    delay = _delay(profile, mean, second)
    return replace(one, iteration=mean, error=found.iteration_error, delay=delay, method="exact")


def _delay(profile: Profile, mean: float, second: float) -> float:
    """Return the mean delay of a job from the moments of its iterations."""
    return queue_delay(profile.workload.arrivals, *service_moments(mean, second, profile.workload.iterations)).mean
