"""What a plan will do on these workers: exact where the laws allow it, else sampled with an interval.

An iteration is exact where `theory.exact.can` says so: slots are recovered by counting rows that lanes send apart from
each other, tasks cost whole parts, and the laws have closed sums and no memory from round to round. Its law is then
integrated to a relative error near 1e-10, and has quantiles. Otherwise its moments come from `SAMPLED_ROUNDS` simulated
rounds, with half-widths at 99 % confidence.

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

from echelon import checks
from echelon.arrays import FloatArray
from echelon.can import Rules
from echelon.delays import Delay, per_worker, task_laws
from echelon.errors import ArgumentError, NoClosedForm
from echelon.html import facts, table
from echelon.job_delay import Moments, job_delay
from echelon.plan import Plan
from echelon.profile import Profile
from echelon.reprs import short_repr
from echelon.seeds import generators
from echelon.simulation import CONFIDENCE, RoundSampler, simulate_rounds
from echelon.simulation.rounds import checked_links
from echelon.theory import TabulatedCdf, exact_law, service_moments
from echelon.theory.exact import can as can_exactly

SAMPLED_ROUNDS = 100_000
SLOW_ROUNDS = 4_000  # where they are simulated message by message
_HISTORY = 1000  # rounds of one history, where rounds have memory
_DRAWS = 50_000_000  # tasks of all simulated rounds: a second or two
_FEWEST = 200  # simulated rounds, however large
_Z = float(ndtri((1 + CONFIDENCE) / 2))


@dataclass(frozen=True, slots=True)
class PredictedJobs:
    """Moments of an iteration and of a job's service, and the mean delay from arrival to delivery.

    method: how the iteration was found, "exact" or "sampled".
    delay_method: how the delay was found, "exact", "approximate" or "sampled"; `formula` says by what.
    iteration_error, delay_error: the error of quadrature, or a half-width at 99 %; nan where unknown.
    service_second: nan where iterations depend on one another, because it is then not known here.
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

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        rows = [
            ["iteration, mean (s)", self.iteration_mean, self.iteration_error, self.method],
            ["service of a job, mean (s)", self.service_mean, None, self.method],
            ["delay of a job, mean (s)", self.delay, self.delay_error, f"{self.delay_method}: {self.formula}"],
        ]
        title = "What to expect of a job" if self.stable else "Jobs come faster than they are served"
        return table(title, ["", "value", "±", "how it was found"], rows)


def plan_law(
    plan: Plan, profile: Profile, *, purge: bool = True, laws: Delay | Sequence[Delay] | None = None
) -> TabulatedCdf:
    """Return the exact law of an iteration of the plan, for `simulate_law` or for quantiles.

    Raises `NoClosedForm` where there is none.

    >>> from echelon.profile import Arrivals, Worker, Workload
    >>> from echelon.schemes import any_k
    >>> workload = Workload(critical=1, redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(1.0))
    >>> one = Profile(workload, [Worker("a", mean=1.0, std=1.0)])
    >>> round(float(plan_law(any_k([1], critical=1), one).quantile(0.5)), 6)
    0.693147
    """
    chosen = per_worker(task_laws(profile) if laws is None else laws, len(plan.lanes))
    if profile.costs.message or profile.costs.round:
        raise NoClosedForm("profile: no exact law, because messages or rounds cost time, too; sample instead")
    return exact_law(plan, chosen, profile.speeds.link, purge=purge)


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

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        said: dict[str, object] = {"mean (s)": self.mean, "± (s)": self.error, "std (s)": self.std}
        if self.law is not None:
            said |= {f"{share:.0%} are over within (s)": self.quantile(share) for share in (0.5, 0.95, 0.99)}
        return facts(f"What to expect of a round, {self.method}", said)

    def quantile(self, share: float) -> float:
        """Return the time within which this share of all rounds is over, where the law is known."""
        if self.law is None:
            raise NoClosedForm("quantile: the law of the round is not known; `simulate_rounds` samples its percentiles")
        return float(self.law.quantile(share))


def predict_rounds(
    plan: Plan,
    laws: Delay | Sequence[Delay],
    *,
    links: FloatArray | Sequence[float] | None = None,
    seed: int = 1,
) -> PredictedRounds:
    """Return the completion time of a round: exact where `exact_law` knows it, else over simulated rounds.

    Rounds with an ending of their own are simulated message by message, and are fewer.

    >>> from echelon.delays import RoundPace, ShiftedExponential
    >>> from echelon.schemes import lagrange
    >>> law = RoundPace(base=ShiftedExponential(shift=0.01, rate=10.0))
    >>> round(predict_rounds(lagrange(workers=40, load=10), law).mean, 4)
    0.2897
    """
    chosen = per_worker(laws, len(checks.instance("plan", plan, Plan).lanes))
    delays = checked_links(np.zeros(len(chosen)) if links is None else links, len(chosen))
    if can_exactly(plan, chosen):
        law = exact_law(plan, chosen, delays)
        return PredictedRounds(law.mean, max(law.second - law.mean**2, 0.0) ** 0.5, law.error, "exact", law)
    rounds = _rounds(RoundSampler(plan, chosen, delays))
    seen = simulate_rounds(plan, chosen, rounds=rounds, seed=seed, links=delays)
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

    `laws` replaces the task laws that the profile names; `seed` matters where sampling is needed.

    >>> from echelon.profile import Arrivals, Workload, Worker
    >>> from echelon.schemes import any_k
    >>> job = Workload(critical=1, redundancy=2.0, iterations=1, arrivals=Arrivals.poisson(1.0))
    >>> pair = Profile(job, [Worker("a", mean=1, std=1), Worker("b", mean=1, std=1)])
    >>> round(predict_jobs(any_k([1, 1], critical=1), pair).delay, 6)   # M/M/1 with rates 1 and 2
    1.0
    """
    checks.instance("plan", plan, Plan)
    checks.instance("profile", profile, Profile)
    checks.flag("purge", purge)
    if len(plan.lanes) != len(profile.workers):
        raise ArgumentError(
            f"plan: {len(plan.lanes)} lanes are not allowed; must be {len(profile.workers)}, one per worker"
        )
    chosen = per_worker(task_laws(profile) if laws is None else laws, len(plan.lanes))
    costs = profile.costs
    sampler = RoundSampler(
        plan, chosen, profile.speeds.link, purge=purge, beside=costs.message, more=costs.round
    )  # fmt: skip
    if can_exactly(plan, chosen, Rules(purge=purge)) and not costs.message and not costs.round:
        moments = Moments.of_law(plan_law(plan, profile, purge=purge, laws=chosen))
    else:
        moments = _sampled(sampler, purge, seed)
    service_mean, service_second = service_moments(moments.mean, moments.second, profile.workload.iterations)
    waiting = job_delay(profile, moments, sampler, seed)
    return PredictedJobs(
        iteration_mean=moments.mean,
        iteration_second=moments.second,
        iteration_error=moments.error,
        service_mean=service_mean,
        service_second=service_second if sampler.independent else float("nan"),
        delay=waiting.mean,
        delay_error=waiting.error,
        stable=waiting.stable,
        method=moments.method,
        delay_method=waiting.method,
        formula=waiting.formula,
    )


def _rounds(sampler: RoundSampler) -> int:
    """Return how many rounds to simulate: fewer where they are large, which widens the interval."""
    usual = SAMPLED_ROUNDS if sampler.quick else SLOW_ROUNDS
    return min(usual, max(_FEWEST, _DRAWS // sampler.plan.draws))


def _sampled(sampler: RoundSampler, purge: bool, seed: int) -> Moments:
    """Return moments over simulated rounds: all of them, or means over histories where rounds have memory."""
    plan, laws, independent, rounds = sampler.plan, sampler.laws, sampler.independent, _rounds(sampler)
    _, rng = generators(seed)
    length = max(1, min(rounds, (1 << 19) // plan.draws)) if independent else min(_HISTORY, rounds // 10)
    pieces = [
        sampler.draw(sampler.begin(1, rng), 1, min(length, rounds - at), rng)[0].times[0]
        for at in range(0, rounds, length)
    ]
    if independent:
        times = np.concatenate(pieces)
        units = np.stack([times, times**2])
    else:
        units = np.array([[piece.mean(), np.square(piece).mean()] for piece in pieces]).T
    mean, second = (float(value) for value in units.mean(axis=1))
    covariance = np.cov(units) / units.shape[1]
    if not purge and any(np.isinf(law.std) for law, lane in zip(laws, plan.lanes, strict=True) if lane):
        # the slowest lane has no second moment, and waiting for it has none either, whatever a sample shows
        return Moments(mean, float("inf"), float("nan"), covariance=np.full((2, 2), np.nan))
    return Moments(mean, second, _Z * float(np.sqrt(covariance[0, 0])), covariance=covariance)
