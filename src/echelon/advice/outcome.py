"""What is expected of one strategy."""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from echelon.advice.strategies import Strategy
from echelon.arrays import FloatArray
from echelon.plan import Plan
from echelon.profile import Profile
from echelon.schemes import Sequential
from echelon.simulation import CONFIDENCE
from echelon.theory import queue_delay, service_moments


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is expected of a strategy.

    iteration, error: mean time of an iteration and its half-width at 99 %.
    delay: mean time of a job from arrival to delivery; inf where jobs come faster than they are served.
    gain: share of the iteration time of uncoded work in equal shares that is saved, on the same draws.
    """

    strategy: Strategy
    iteration: float
    error: float
    delay: float
    gain: float

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


def outcome(profile: Profile, strategy: Strategy, times: FloatArray, base: FloatArray) -> Outcome:
    """Return what times of iterations amount to, shape (histories, rounds), beside those of equal shares."""
    mean, second = float(times.mean()), float(np.square(times).mean())
    # histories are independent of one another, rounds of one need not be
    factor = float(stdtrit(len(times) - 1, (1 + CONFIDENCE) / 2))
    error = factor * float(times.mean(axis=1).std(ddof=1)) / len(times) ** 0.5
    service = service_moments(mean, second, profile.job.iterations)
    return Outcome(
        strategy, mean, error, queue_delay(profile.job.arrivals, *service).mean, 1 - mean / float(base.mean())
    )
