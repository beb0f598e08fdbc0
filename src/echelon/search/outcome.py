"""What is expected of one strategy."""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from echelon.arrays import FloatArray
from echelon.job_delay import Moments
from echelon.plan import Plan
from echelon.reprs import short_repr
from echelon.schemes import GradientChain, Sequential
from echelon.search.strategy import Strategy
from echelon.simulation import CONFIDENCE


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is expected of a strategy.

    iteration, error: mean time of an iteration and its half-width at 99 %, or what quadrature may be off by.
    method: how that was found, "exact" or "sampled".
    delay: mean time of a job from arrival to delivery; inf where jobs come faster than they are served.
    delay_method: how that was found, "exact", "sampled" or "approximate".
    gain: share of the iteration time of uncoded work in equal shares that is saved, on the same draws where both are
        sampled.
    loading: seconds until the data is where it is needed, paid once: what the worker with the most must hold over the
        bandwidth, and encoding it; 0 unless the size of a part is known.
    plane: who adds up rows, "master" or "responders", the workers that sent them.
    """

    strategy: Strategy
    iteration: float
    error: float
    delay: float
    gain: float
    loading: float = 0.0
    method: str = "sampled"
    delay_method: str = "approximate"
    plane: str = "master"

    __repr__ = short_repr

    @property
    def name(self) -> str:
        """Name of the strategy."""
        return self.strategy.name

    @property
    def interval(self) -> tuple[float, float]:
        """Where the mean iteration is, at 99 %."""
        return self.iteration - self.error, self.iteration + self.error

    def plan(self) -> Plan | Sequential | GradientChain:
        """Return the plan of a `SumJob` or `LinearJob`; the scheme of a `MatmulStream`, or of a `TurnJob`."""
        made: Plan | Sequential | GradientChain = self.strategy.plan()
        return made


def sampled(times: FloatArray) -> Moments:
    """Return the moments of rehearsed iterations, shape (histories, rounds); one history is all that there is."""
    if len(times) == 1:
        return Moments(float(times.mean()), float(np.square(times).mean()), 0.0, bounds=np.zeros(2))
    units = np.stack([times.mean(axis=1), np.square(times).mean(axis=1)])
    mean, second = units.mean(axis=1).tolist()
    # histories are independent of one another, rounds of one need not be
    covariance = np.cov(units) / len(times)
    factor = float(stdtrit(len(times) - 1, (1 + CONFIDENCE) / 2))
    return Moments(mean, second, factor * float(np.sqrt(covariance[0, 0])), covariance=covariance)
