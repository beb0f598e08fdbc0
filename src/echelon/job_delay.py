"""How long jobs take from arrival to delivery, given what is known of an iteration: one answer for all callers.

Pollaczek and Khinchine's formula for Poisson arrivals, as exact as the iteration (the delta method turns sampled
moments into an interval); Kingman's for other independent times between jobs, an approximation of unknown error. Where
iterations depend on one another, or arrivals are a record, there is no formula: the delay is that of simulated streams.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtri

from echelon.arrays import FloatArray
from echelon.profile import Profile
from echelon.reprs import short_repr
from echelon.simulation import CONFIDENCE, RoundSampler
from echelon.simulation.simulated_jobs import simulate_sampled
from echelon.theory import TabulatedCdf, queue_delay, service_moments

_STREAM_SEEDS, _STREAM_JOBS, _STREAM_ROUNDS = 40, 1500, 3000
_STREAM_DRAWS = 100_000_000  # tasks of all simulated streams: a second or two
_FEWEST_JOBS = 20  # of a simulated stream; where even these would take too long, a formula is all there is
_WAIT = 1e-3  # share of a job's time that waiting must reach to be simulated
_Z = float(ndtri((1 + CONFIDENCE) / 2))


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of an iteration; either `bounds` on their errors, or the `covariance` of sampled ones.

    error: by how much the mean may be off.
    """

    mean: float
    second: float
    error: float
    bounds: FloatArray | None = None
    covariance: FloatArray | None = None

    __repr__ = short_repr

    @classmethod
    def of_law(cls, law: TabulatedCdf, more: float = 0.0) -> Self:
        """Return the moments of a law that is known, plus a constant."""
        mean, second = law.mean + more, law.second + 2 * more * law.mean + more**2
        bounds = np.array([law.error, law.second_error + 2 * more * law.error])
        return cls(mean, second, law.error, bounds=bounds)

    @property
    def method(self) -> str:
        """How they were found."""
        return "sampled" if self.bounds is None else "exact"

    def spread_of(self, slopes: FloatArray) -> float:
        """Return the error of a quantity with these derivatives; nan where it has none."""
        if not np.isfinite(slopes).all():
            return float("nan")
        if self.bounds is not None:
            return float(np.abs(slopes) @ self.bounds)
        assert self.covariance is not None
        return _Z * float(np.sqrt(slopes @ self.covariance @ slopes))


@dataclass(frozen=True, slots=True)
class JobDelay:
    """Mean time of a job from arrival to delivery.

    error: its error at 99 % confidence; nan where unknown. method: "exact", "approximate" or "sampled".
    """

    mean: float
    error: float
    stable: bool
    method: str
    formula: str


def needs_streams(profile: Profile, sampler: RoundSampler) -> bool:
    """Return whether there is no formula for the delay: arrivals are a record, or iterations depend on one another."""
    return bool(profile.workload.arrivals.times) or not sampler.independent


def job_delay(profile: Profile, moments: Moments, sampler: RoundSampler, seed: int) -> JobDelay:
    """Return the delay of the profile's jobs, whose iterations have these moments and are drawn by the sampler."""
    found = by_formula(profile, moments)
    if not found.stable or not needs_streams(profile, sampler) or _hardly_waits(profile, moments):
        return found
    most = _STREAM_DRAWS // (2 * _STREAM_SEEDS * profile.workload.iterations * sampler.plan.draws)
    if most < _FEWEST_JOBS:
        return JobDelay(found.mean, float("nan"), True, "approximate", f"{found.formula}; too large to be simulated")
    return _streams(profile, sampler, seed, moments.mean, min(most, _STREAM_JOBS))


def _hardly_waits(profile: Profile, moments: Moments) -> bool:
    """Return whether jobs that arrive at random wait so rarely that it does not matter how iterations depend.

    A job that finds another in service waits for what is left of it: E[S^2] / (2 E[S]) on average, where S is at most
    as spread out as if all its iterations took the same time.
    """
    workload = profile.workload
    load = moments.mean * workload.iterations / workload.arrivals.mean
    left = workload.iterations * moments.second / (2 * moments.mean)
    return workload.arrivals.poisson_process and load / (1 - load) * left < _WAIT * moments.mean * workload.iterations


def by_formula(profile: Profile, moments: Moments) -> JobDelay:
    """Return the delay as if iterations, and times between jobs, were independent."""
    service_mean, service_second = service_moments(moments.mean, moments.second, profile.workload.iterations)
    queue = queue_delay(profile.workload.arrivals, service_mean, service_second)
    if queue.exact:
        error = moments.spread_of(_slopes(profile, moments.mean, moments.second))
        return JobDelay(queue.mean, error, queue.stable, moments.method, queue.formula)
    return JobDelay(queue.mean, float("nan"), queue.stable, "approximate", queue.formula)


def _slopes(profile: Profile, mean: float, second: float) -> FloatArray:
    """Return the derivatives of the delay by the two moments of an iteration; inf at the edge of stability."""

    def delay(mean: float, second: float) -> float:
        return queue_delay(profile.workload.arrivals, *service_moments(mean, second, profile.workload.iterations)).mean

    step = 1e-6
    rises = np.array(
        [
            (delay(mean * (1 + step), second) - delay(mean * (1 - step), second)) / (2 * step * mean),
            (delay(mean, second * (1 + step)) - delay(mean, second * (1 - step))) / (2 * step * second),
        ]
    )
    return np.where(np.isfinite(rises), rises, np.inf)


def _streams(profile: Profile, sampler: RoundSampler, seed: int, iteration: float, most: int) -> JobDelay:
    """Return the delay of simulated streams of at most `most` jobs, and its half-width.

    A queue forgets its start after some 1 / (1 - load)^2 jobs. Where that is more than can be run here, the
    streams are still too short, and no interval is claimed. Short jobs are many, so that bursts are seen to end.
    """
    wanted = int(8 / (1 - iteration * profile.workload.iterations / profile.workload.arrivals.mean) ** 2)
    many = min(300, -(-_STREAM_ROUNDS // profile.workload.iterations))
    jobs = min(max(wanted, many), most)
    seen = simulate_sampled(sampler, profile, jobs=jobs, seeds=_STREAM_SEEDS, seed=seed, warmup=jobs).delay
    if wanted > most:
        return JobDelay(seen.mean, float("nan"), True, "sampled", "simulated streams, too short for this load")
    return JobDelay(seen.mean, seen.high - seen.mean, True, "sampled", "simulated streams")
