"""What a plan will do on these workers: exact where the laws allow it, else sampled with an interval.

An iteration is exact where one slot, any K of its rows, makes up the plan, tasks cost one, and the laws have closed
sums and no memory from round to round: its law is then integrated to a relative error near 1e-10. Otherwise its
moments come from `SAMPLED_ROUNDS` simulated rounds, with half-widths at 99 % confidence.

The delay of a job is Pollaczek and Khinchine's for Poisson arrivals, as exact as the iteration (the delta method
turns sampled moments into an interval). For other independent times between jobs it is Kingman's, an approximation
of unknown error. Where iterations depend on one another, or arrivals are a record, there is no formula: the delay is
that of simulated streams, with its interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from echelon.arrays import FloatArray
from echelon.delays import Delay, per_worker, task_laws
from echelon.plan import Plan
from echelon.profile import Profile
from echelon.simulation import CONFIDENCE, RoundSampler, simulate
from echelon.simulation.stream import generators
from echelon.theory import QueueDelay, TabulatedCdf, iteration_law, queue_delay, service_moments

SAMPLED_ROUNDS = 100_000
_HISTORY = 1000  # rounds of one history, where rounds have memory
_STREAM_SEEDS, _STREAM_JOBS = 40, 500
_Z = float(ndtri((1 + CONFIDENCE) / 2))


@dataclass(frozen=True, slots=True)
class Prediction:
    """Moments of an iteration and of a job's service, and the mean delay from arrival to delivery.

    method: how the iteration was found, "exact" or "sampled".
    delay_method: how the delay was found, "exact", "approximate" or "sampled"; `formula` says by what.
    iteration_error, delay_error: what quadrature may be off by, or a half-width at 99 %; nan where unknown.
    delay: inf where the queue is unstable.
    """

    iteration_mean: float
    iteration_second: float
    iteration_error: float
    service_mean: float
    service_second: float
    delay: float
    delay_error: float
    stable: bool
    method: str
    delay_method: str
    formula: str


def is_exact(plan: Plan, laws: Sequence[Delay]) -> bool:
    """Return whether `predict` needs no sampling for this plan on workers with these laws."""
    return (
        plan.counts_suffice
        and plan.unit_costs
        and all(law.closed and law.independent_rounds for law, lane in zip(laws, plan.lanes, strict=True) if lane)
    )


def plan_law(
    plan: Plan, profile: Profile, *, purge: bool = True, laws: Delay | Sequence[Delay] | None = None
) -> TabulatedCdf:
    """Return the exact law of an iteration of the plan, for `simulate_law` or for quantiles.

    Raises `NoClosedForm` where there is none.
    """
    chosen = per_worker(task_laws(profile) if laws is None else laws, len(plan.lanes))
    if not plan.counts_suffice or not plan.unit_costs:
        raise ValueError("plan: not allowed; an exact law needs one slot, every row once, and tasks of cost 1")
    critical = plan.slots[0].threshold if purge else plan.tasks
    return iteration_law(chosen, profile.speeds.link, plan.counts, critical)


def predict(
    plan: Plan,
    profile: Profile,
    *,
    purge: bool = True,
    laws: Delay | Sequence[Delay] | None = None,
    seed: int = 1,
) -> Prediction:
    """Return what to expect of every job of the profile when its iterations run `plan`.

    `laws` takes the place of the task laws that the profile names; `seed` matters where sampling is needed.

    >>> from echelon.profile import Arrivals, Job, Worker
    >>> from echelon.schemes import any_k
    >>> job = Job(critical=1, redundancy=2.0, iterations=1, arrivals=Arrivals.poisson(1.0))
    >>> pair = Profile(job, [Worker("a", mean=1, std=1), Worker("b", mean=1, std=1)])
    >>> round(predict(any_k([1, 1], critical=1), pair).delay, 6)   # M/M/1 with rates 1 and 2
    1.0
    """
    if len(plan.lanes) != len(profile.workers):
        raise ValueError(f"plan: {len(plan.lanes)} lanes are not allowed; must be {len(profile.workers)}, one a worker")
    chosen = per_worker(task_laws(profile) if laws is None else laws, len(plan.lanes))
    if is_exact(plan, chosen):
        law = plan_law(plan, profile, purge=purge, laws=chosen)
        moments = _Moments(law.mean, law.second, law.error, np.array([law.error, law.second_error]), None)
    else:
        moments = _sampled(plan, profile, purge, chosen, seed)
    service_mean, service_second = service_moments(moments.mean, moments.second, profile.job.iterations)
    queue = _queue(profile, moments.mean, moments.second)
    independent = all(law.independent_rounds for law in chosen)
    delay, error, how, formula = queue.mean, float("nan"), "approximate", queue.formula
    if queue.stable and (profile.job.arrivals.times or not independent):
        seen = simulate(
            plan, profile, jobs=_STREAM_JOBS, seeds=_STREAM_SEEDS, seed=seed, purge=purge,
            warmup=_STREAM_JOBS // 5, laws=chosen,
        )  # fmt: skip
        delay, error, how, formula = seen.delay.mean, seen.delay.high - seen.delay.mean, "sampled", "simulated streams"
    elif queue.exact:
        error, how = moments.spread_of(_slopes(profile, moments.mean, moments.second)), moments.method
    return Prediction(
        iteration_mean=moments.mean,
        iteration_second=moments.second,
        iteration_error=moments.error,
        service_mean=service_mean,
        service_second=service_second,
        delay=delay,
        delay_error=error,
        stable=queue.stable,
        method=moments.method,
        delay_method=how,
        formula=formula,
    )


@dataclass(frozen=True, slots=True)
class _Moments:
    """Moments of an iteration; either `bounds` on their errors, or the `covariance` of sampled ones."""

    mean: float
    second: float
    error: float
    bounds: FloatArray | None
    covariance: FloatArray | None

    @property
    def method(self) -> str:
        return "exact" if self.covariance is None else "sampled"

    def spread_of(self, slopes: FloatArray) -> float:
        """Return what a quantity with these derivatives may be off by."""
        if self.covariance is not None:
            return _Z * float(np.sqrt(slopes @ self.covariance @ slopes))
        assert self.bounds is not None
        return float(np.abs(slopes) @ self.bounds)


def _queue(profile: Profile, mean: float, second: float) -> QueueDelay:
    service_mean, service_second = service_moments(mean, second, profile.job.iterations)
    return queue_delay(
        gap_mean=profile.job.arrivals.mean,
        gap_second=profile.job.arrivals.second,
        poisson=profile.job.arrivals.poisson_process,
        service_mean=service_mean,
        service_second=service_second,
    )


def _slopes(profile: Profile, mean: float, second: float) -> FloatArray:
    """Return the derivatives of the delay by the two moments of an iteration; 0 where it is infinite."""
    moments = np.array([mean, second])
    slopes = np.zeros(2)
    for i in range(2):
        step = np.zeros(2)
        step[i] = 1e-6 * moments[i]
        below, above = (_queue(profile, *(moments + sign * step)).mean for sign in (-1, 1))
        if np.isfinite(below) and np.isfinite(above):
            slopes[i] = (above - below) / (2 * step[i])
    return slopes


def _sampled(plan: Plan, profile: Profile, purge: bool, laws: list[Delay], seed: int) -> _Moments:
    """Return moments over simulated rounds: all of them, or means over histories where rounds have memory."""
    sampler = RoundSampler(plan, laws, profile.speeds.link, purge=purge)
    _, rng = generators(seed)
    independent = all(law.independent_rounds for law in laws)
    length = max(1, min(SAMPLED_ROUNDS, (1 << 19) // plan.tasks)) if independent else _HISTORY
    pieces = [
        sampler.draw(sampler.begin(1, rng), 1, min(length, SAMPLED_ROUNDS - at), rng)[0].times[0]
        for at in range(0, SAMPLED_ROUNDS, length)
    ]
    if independent:
        times = np.concatenate(pieces)
        units = np.stack([times, times**2])
    else:
        units = np.array([[piece.mean(), np.square(piece).mean()] for piece in pieces]).T
    mean, second = (float(value) for value in units.mean(axis=1))
    covariance = np.cov(units) / units.shape[1]
    return _Moments(mean, second, _Z * float(np.sqrt(covariance[0, 0])), None, covariance)
