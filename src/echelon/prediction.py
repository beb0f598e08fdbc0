"""What a plan will do on these workers: exact where the laws allow it, else sampled with an interval.

Exact: one slot of which any K rows are enough, tasks of cost one, laws with closed sums and no memory from
round to round. Then the law of an iteration is integrated to a relative error near 1e-10, and with Poisson
arrivals the mean delay is Pollaczek and Khinchine's (Kingman's approximation otherwise).

Sampled: everything else. Moments of an iteration come from `SAMPLED_ROUNDS` simulated rounds and go through the
same formulas; `iteration_error` and `delay_error` are half-widths at 99 % confidence (by the delta method for
the delay). Workers with memory from round to round make iterations dependent, so that the delay of their jobs
is taken from simulated streams instead of a formula.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from echelon.arrays import FloatArray
from echelon.delays import Delay, per_worker, task_laws
from echelon.plan import Plan
from echelon.profile import Arrivals, Profile
from echelon.simulation import CONFIDENCE, RoundSampler, simulate
from echelon.simulation.stream import generators
from echelon.theory import QueueDelay, TabulatedCdf, iteration_law, queue_delay, service_moments

SAMPLED_ROUNDS = 100_000
_STREAM_SEEDS, _STREAM_JOBS = 40, 500


@dataclass(frozen=True, slots=True)
class Prediction:
    """Moments of an iteration and of a job's service, and the mean delay from arrival to delivery.

    method: "exact" or "sampled"; errors are bounds on rounding and quadrature, or 99 % half-widths.
    formula: where the delay comes from; delay is inf where the queue is unstable.
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

    >>> from echelon.profile import Job, Worker
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
        return _from_moments(profile, law.mean, law.second, law.error)
    return _sampled(plan, profile, purge, chosen, seed)


def _queue(arrivals: Arrivals, mean: float, second: float, iterations: int) -> tuple[float, float, QueueDelay]:
    service_mean, service_second = service_moments(mean, second, iterations)
    queue = queue_delay(
        gap_mean=arrivals.mean,
        gap_second=arrivals.second,
        poisson=arrivals.poisson_process,
        service_mean=service_mean,
        service_second=service_second,
    )
    return service_mean, service_second, queue


def _from_moments(profile: Profile, mean: float, second: float, error: float) -> Prediction:
    service_mean, service_second, queue = _queue(profile.job.arrivals, mean, second, profile.job.iterations)
    slopes = _slopes(profile, mean, second)
    return Prediction(
        iteration_mean=mean,
        iteration_second=second,
        iteration_error=error,
        service_mean=service_mean,
        service_second=service_second,
        delay=queue.mean,
        # the integrals share their nodes, so the second moment is off by about 2 E[T] times as much
        delay_error=float(np.abs(slopes) @ np.array([error, 2 * mean * error])),
        stable=queue.stable,
        method="exact",
        formula=queue.formula,
    )


def _slopes(profile: Profile, mean: float, second: float) -> FloatArray:
    """Return the derivatives of the delay by the two moments of an iteration; 0 where it is infinite."""
    moments = np.array([mean, second])
    slopes = np.zeros(2)
    for i in range(2):
        step = 1e-6 * moments[i]
        ends = []
        for sign in (-1, 1):
            shifted = moments.copy()
            shifted[i] += sign * step
            ends.append(_queue(profile.job.arrivals, shifted[0], shifted[1], profile.job.iterations)[2].mean)
        if np.isfinite(ends).all():
            slopes[i] = (ends[1] - ends[0]) / (2 * step)
    return slopes


def _sampled(plan: Plan, profile: Profile, purge: bool, laws: list[Delay], seed: int) -> Prediction:
    independent = all(law.independent_rounds for law in laws)
    sampler = RoundSampler(plan, laws, profile.speeds.link, purge=purge)
    _, rng = generators(seed)
    runs = SAMPLED_ROUNDS if independent else 100
    step = max(1, (1 << 19) // plan.tasks)
    if independent:
        pieces = [min(step, runs - at) for at in range(0, runs, step)]
        state = sampler.begin(1, rng)
        times = np.concatenate([sampler.draw(state, 1, piece, rng)[0].times[0] for piece in pieces])[:, None]
    else:
        # many short histories, each from the long-run law: means over a history are independent
        length = SAMPLED_ROUNDS // runs
        histories = [sampler.draw(sampler.begin(1, rng), 1, length, rng)[0].times for _ in range(runs)]
        times = np.concatenate(histories)
    units = np.stack([times.mean(axis=1), np.square(times).mean(axis=1)])
    mean, second = (float(value) for value in units.mean(axis=1))
    spread = np.cov(units) / units.shape[1]
    z = float(ndtri((1 + CONFIDENCE) / 2))
    service_mean, service_second, queue = _queue(profile.job.arrivals, mean, second, profile.job.iterations)
    slopes = _slopes(profile, mean, second)
    delay, delay_error, formula = queue.mean, z * float(np.sqrt(slopes @ spread @ slopes)), queue.formula
    if not independent and queue.stable:
        seen = simulate(
            plan, profile, jobs=_STREAM_JOBS, seeds=_STREAM_SEEDS, seed=seed, purge=purge,
            warmup=_STREAM_JOBS // 5, laws=laws,
        )  # fmt: skip
        delay, delay_error, formula = seen.delay.mean, seen.delay.high - seen.delay.mean, "simulated streams"
    return Prediction(
        iteration_mean=mean,
        iteration_second=second,
        iteration_error=z * float(np.sqrt(spread[0, 0])),
        service_mean=service_mean,
        service_second=service_second,
        delay=delay,
        delay_error=delay_error,
        stable=queue.stable,
        method="sampled",
        formula=formula,
    )
