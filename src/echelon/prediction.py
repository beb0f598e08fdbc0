"""What a plan will do on these workers: exact where the laws allow it, else sampled with an interval.

An iteration is exact where one slot, any K of its rows, makes up the plan, tasks cost one, and the laws have closed
sums and no memory from round to round: its law is then integrated to a relative error near 1e-10. Otherwise its
moments come from `SAMPLED_ROUNDS` simulated rounds, with half-widths at 99 % confidence.

The delay of a job is Pollaczek and Khinchine's for Poisson arrivals, as exact as the iteration (the delta method
turns sampled moments into an interval). For other independent times between jobs it is Kingman's, an approximation
of unknown error. Where iterations depend on one another, or arrivals are a record, there is no formula: the delay is
that of simulated streams, with its interval (none is claimed near saturation, where streams would have to be longer).

Intervals rest on the central limit theorem; with a heavy tail (Pareto of a shape below 4, nothing purged) they are
narrower than they should be, and where a moment is infinite the delay is said to be infinite.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from echelon.arrays import FloatArray
from echelon.delays import Delay, per_worker, task_laws
from echelon.errors import ArgumentError
from echelon.plan import Plan
from echelon.profile import Profile
from echelon.schemes import CodedPlan
from echelon.seeds import generators
from echelon.simulation import CONFIDENCE, RoundSampler, simulate_jobs, simulate_rounds
from echelon.simulation.rounds import checked_links
from echelon.simulation.spans import complete_by_span
from echelon.theory import TabulatedCdf, completion_law, has_completion_law, iteration_law, queue_delay, service_moments

SAMPLED_ROUNDS = 100_000
SPAN_ROUNDS = 4_000
_HISTORY = 1000  # rounds of one history, where rounds have memory
_STREAM_SEEDS, _STREAM_JOBS = 40, 1500
_Z = float(ndtri((1 + CONFIDENCE) / 2))


@dataclass(frozen=True, slots=True)
class PredictedJobs:
    """Moments of an iteration and of a job's service, and the mean delay from arrival to delivery.

    method: how the iteration was found, "exact" or "sampled".
    delay_method: how the delay was found, "exact", "approximate" or "sampled"; `formula` says by what.
    iteration_error, delay_error: what quadrature may be off by, or a half-width at 99 %; nan where unknown.
    service_second: nan where iterations depend on one another, as nothing here knows it then.
    delay: inf where the queue is unstable, or where waiting has no finite mean.
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
        raise ArgumentError("plan: not allowed; an exact law needs one slot, every row once, and tasks of cost 1")
    critical = plan.slots[0].threshold if purge else plan.tasks
    return iteration_law(chosen, profile.speeds.link, plan.counts, critical)


@dataclass(frozen=True, slots=True)
class PredictedRounds:
    """What to expect of a round.

    mean, std: of its completion time; error: of the mean, from quadrature, or a half-width at 99 %.
    method: "exact" or "sampled".
    law: the distribution, where it is exact.
    """

    mean: float
    std: float
    error: float
    method: str
    law: TabulatedCdf | None


def predict_rounds(
    plan: Plan,
    laws: Delay | Sequence[Delay],
    *,
    links: FloatArray | Sequence[float] | None = None,
    seed: int = 1,
) -> PredictedRounds:
    """Return the completion time of a round: exact where `completion_law` knows it, else over simulated rounds.

    Where fewer rows than a slot's threshold may do, rounds are gone through message by message, and there are fewer.
    """
    chosen = per_worker(laws, len(plan.lanes))
    delays = checked_links(np.zeros(len(chosen)) if links is None else links, len(chosen))
    if has_completion_law(plan, chosen):
        law = completion_law(plan, chosen, delays)
        return PredictedRounds(law.mean, max(law.second - law.mean**2, 0.0) ** 0.5, law.error, "exact", law)
    independent = all(law.independent_rounds for law in chosen)
    if isinstance(plan, CodedPlan) and independent and not all(slot.counting for slot in plan.slots):
        times = complete_by_span(plan, chosen, delays, SPAN_ROUNDS, generators(seed)[1])
        error = _Z * float(times.std(ddof=1)) / SPAN_ROUNDS**0.5
        return PredictedRounds(float(times.mean()), float(times.std()), error, "sampled", None)
    seen = simulate_rounds(plan, chosen, rounds=SAMPLED_ROUNDS, seed=seed, links=delays)
    return PredictedRounds(seen.mean, float(seen.times.std()), _Z * seen.error, "sampled", None)


def predict_jobs(
    plan: Plan,
    profile: Profile,
    *,
    purge: bool = True,
    laws: Delay | Sequence[Delay] | None = None,
    seed: int = 1,
) -> PredictedJobs:
    """Return what to expect of every job of the profile when its iterations run `plan`.

    `laws` takes the place of the task laws that the profile names; `seed` matters where sampling is needed.

    >>> from echelon.profile import Arrivals, Workload, Worker
    >>> from echelon.schemes import any_k
    >>> job = Workload(critical=1, redundancy=2.0, iterations=1, arrivals=Arrivals.poisson(1.0))
    >>> pair = Profile(job, [Worker("a", mean=1, std=1), Worker("b", mean=1, std=1)])
    >>> round(predict_jobs(any_k([1, 1], critical=1), pair).delay, 6)   # M/M/1 with rates 1 and 2
    1.0
    """
    if len(plan.lanes) != len(profile.workers):
        raise ArgumentError(f"plan: {len(plan.lanes)} lanes are not allowed; must be {len(profile.workers)}, one each")
    chosen = per_worker(task_laws(profile) if laws is None else laws, len(plan.lanes))
    if is_exact(plan, chosen):
        law = plan_law(plan, profile, purge=purge, laws=chosen)
        moments = _Moments(law.mean, law.second, law.error, bounds=np.array([law.error, law.second_error]))
    else:
        moments = _sampled(plan, profile, purge, chosen, seed)
    service_mean, service_second = service_moments(moments.mean, moments.second, profile.workload.iterations)
    queue = queue_delay(profile.workload.arrivals, service_mean, service_second)
    independent = _independent(plan, chosen)
    if queue.stable and (profile.workload.arrivals.times or not independent):
        delay, error, formula = _streams(plan, profile, purge, chosen, seed, service_mean)
        how = "sampled"
    elif queue.exact:
        delay, how, formula = queue.mean, moments.method, queue.formula
        error = moments.spread_of(_slopes(profile, moments.mean, moments.second))
    else:
        delay, how, formula, error = queue.mean, "approximate", queue.formula, float("nan")
    return PredictedJobs(
        iteration_mean=moments.mean,
        iteration_second=moments.second,
        iteration_error=moments.error,
        service_mean=service_mean,
        service_second=service_second if independent else float("nan"),
        delay=delay,
        delay_error=error,
        stable=queue.stable,
        method=moments.method,
        delay_method=how,
        formula=formula,
    )


def _independent(plan: Plan, laws: Sequence[Delay]) -> bool:
    return all(law.independent_rounds for law, lane in zip(laws, plan.lanes, strict=True) if lane)


@dataclass(frozen=True, slots=True)
class _Moments:
    """Moments of an iteration; either `bounds` on their errors, or the `covariance` of sampled ones."""

    mean: float
    second: float
    error: float
    bounds: FloatArray | None = None
    covariance: FloatArray | None = None

    @property
    def method(self) -> str:
        return "sampled" if self.bounds is None else "exact"

    def spread_of(self, slopes: FloatArray) -> float:
        """Return what a quantity with these derivatives may be off by; nan where it has none."""
        if not np.isfinite(slopes).all():
            return float("nan")
        if self.bounds is not None:
            return float(np.abs(slopes) @ self.bounds)
        assert self.covariance is not None
        return _Z * float(np.sqrt(slopes @ self.covariance @ slopes))


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


def _sampled(plan: Plan, profile: Profile, purge: bool, laws: list[Delay], seed: int) -> _Moments:
    """Return moments over simulated rounds: all of them, or means over histories where rounds have memory."""
    sampler = RoundSampler(plan, laws, profile.speeds.link, purge=purge)
    _, rng = generators(seed)
    independent = _independent(plan, laws)
    length = max(1, min(SAMPLED_ROUNDS, (1 << 19) // plan.draws)) if independent else _HISTORY
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
    if not purge and any(np.isinf(law.std) for law, lane in zip(laws, plan.lanes, strict=True) if lane):
        # the slowest lane has no second moment, and waiting for it has none either, whatever a sample says
        return _Moments(mean, float("inf"), float("nan"), covariance=np.full((2, 2), np.nan))
    return _Moments(mean, second, _Z * float(np.sqrt(covariance[0, 0])), covariance=covariance)


def _streams(
    plan: Plan, profile: Profile, purge: bool, laws: list[Delay], seed: int, service_mean: float
) -> tuple[float, float, str]:
    """Return the delay of simulated streams, its half-width, and what to call that.

    A queue forgets its start after some 1 / (1 - load)^2 jobs. Where that is more than can be run here, the
    streams are still too short, and no interval is claimed.
    """
    wanted = int(8 / (1 - service_mean / profile.workload.arrivals.mean) ** 2)
    jobs = min(max(wanted, 300), _STREAM_JOBS)
    seen = simulate_jobs(plan, profile, jobs=jobs, seeds=_STREAM_SEEDS, seed=seed, purge=purge, warmup=jobs, laws=laws)
    if wanted > _STREAM_JOBS:
        return seen.delay.mean, float("nan"), "simulated streams, too short for so high a load"
    return seen.delay.mean, seen.delay.high - seen.delay.mean, "simulated streams"
