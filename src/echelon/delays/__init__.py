"""Laws of task times, one per file. A new law is one file and one line in `DELAYS`."""

from collections.abc import Sequence
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from echelon import checks
from echelon.delays.base import Delay
from echelon.delays.deterministic import Deterministic
from echelon.delays.exponential import Exponential
from echelon.delays.fritchman import Fritchman
from echelon.delays.gamma import Gamma
from echelon.delays.gilbert_elliott import GilbertElliott
from echelon.delays.pareto import Pareto
from echelon.delays.recorded import Recorded
from echelon.delays.recorded_times import RecordedTimes
from echelon.delays.round_pace import RoundPace
from echelon.delays.shifted_exponential import ShiftedExponential
from echelon.delays.straggler import Straggler
from echelon.delays.together import begin_all, common_cycle, sample_all
from echelon.delays.trace import Trace
from echelon.errors import ArgumentError, ProfileError
from echelon.profile import Arrivals, Profile


def _law(path: str) -> type[Delay]:
    """Return a law by file and class; a new one needs only one line below."""
    module, name = path.split(".")
    found: type[Delay] = getattr(import_module(f"echelon.delays.{module}"), name)
    return found


DELAYS: dict[str, type[Delay]] = {
    "deterministic": _law("deterministic.Deterministic"),
    "exponential": _law("exponential.Exponential"),
    "fritchman": _law("fritchman.Fritchman"),
    "gamma": _law("gamma.Gamma"),
    "gilbert_elliott": _law("gilbert_elliott.GilbertElliott"),
    "pareto": _law("pareto.Pareto"),
    "recorded": _law("recorded.Recorded"),
    "round_pace": _law("round_pace.RoundPace"),
    "shifted_exponential": _law("shifted_exponential.ShiftedExponential"),
    "straggler": _law("straggler.Straggler"),
    "trace": _law("trace.Trace"),
}

__all__ = [
    "DELAYS", "Delay", "Deterministic", "Exponential", "Fritchman", "Gamma", "GilbertElliott", "Pareto",
    "Recorded", "RecordedTimes", "RoundPace", "ShiftedExponential", "Straggler", "Trace", "arrival_law", "begin_all",
    "common_cycle", "fit", "sample_all", "task_laws",
]  # fmt: skip


def fit(law: str, mean: float, std: float, /, **parameters: Any) -> Delay:
    """Return the member of a registered family that has this mean, and this standard deviation where it can.

    A family of one parameter (exponential, constant times, a record) keeps its own spread.

    >>> fit("shifted_exponential", 1.0, 0.25)
    ShiftedExponential(shift=0.75, rate=4.0)
    """
    checks.one_of("law", law, DELAYS)
    checks.number("mean", mean, above=0)
    checks.number("std", std, least=0)
    family = DELAYS[law]
    known = [name for name, p in signature(family.fit).parameters.items() if p.kind is Parameter.KEYWORD_ONLY]
    if not set(parameters) <= set(known):
        allowed = f"must be among {', '.join(known)}" if known else "it takes none"
        raise ArgumentError(f"parameters: {', '.join(sorted(parameters))} not allowed for law {law}; {allowed}")
    return family.fit(mean, std, **parameters)


def task_laws(profile: Profile) -> list[Delay]:
    """Return the law of each worker of a profile."""
    laws = []
    checks.instance("profile", profile, Profile)
    columns = zip(profile.workers, profile.speeds.mean, profile.speeds.std, strict=True)
    for i, (worker, mean, std) in enumerate(columns):
        try:
            laws.append(fit(worker.law, float(mean), float(std), **worker.parameters))
        except ArgumentError as error:
            raise ProfileError(f"{profile.source}: worker[{i + 1}].{error}") from None
    return laws


def arrival_law(arrivals: Arrivals) -> Delay:
    """Return the law of the times between jobs: recorded, or gamma with the two moments.

    Poisson arrivals come out as the exponential law, a second moment of mean squared as constant gaps.
    """
    if checks.instance("arrivals", arrivals, Arrivals).times:
        return Trace(times=arrivals.times)
    if arrivals.poisson_process:
        return Exponential(rate=arrivals.rate)
    # a second moment given in decimals rarely hits mean squared to the last bit
    std = arrivals.std if arrivals.std > 1e-7 * arrivals.mean else 0.0
    return Gamma.fit(arrivals.mean, std)


def per_worker(laws: Delay | Sequence[Delay], workers: int, name: str = "laws") -> list[Delay]:
    """Return one law per worker; a single law stands for all of them."""
    if not isinstance(laws, Delay | Sequence):
        raise ArgumentError(
            f"{name}: {checks.shown(laws)} is not allowed; must be a Delay, or {workers} of them, one per worker"
        )
    listed = [laws] * workers if isinstance(laws, Delay) else list(laws)
    if len(listed) != workers or not all(isinstance(law, Delay) for law in listed):
        raise ArgumentError(f"{name}: {len(listed)} given; must be one Delay, or {workers} of them, one per worker")
    return listed
