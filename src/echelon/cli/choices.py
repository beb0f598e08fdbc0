"""What options of the form NAME:KEY=VALUE,… stand for: entries of the registries, completed by a profile."""

from collections.abc import Sequence
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import Any

from echelon.arrays import IntArray
from echelon.clusters import CLUSTERS, Cluster
from echelon.codes import Code, named_code
from echelon.delays import DELAYS
from echelon.endings import ENDINGS, Policy
from echelon.errors import ArgumentError
from echelon.files import read_profile
from echelon.plan import Plan
from echelon.profile import Profile
from echelon.schemes import SCHEMES, any_k, split_code
from echelon.search.splits import split_rows
from echelon.seeds import place_generator
from echelon.spec import Spec, parameters

USUAL = ("workers", "emulate", "seed")  # arguments of every cluster that have options of their own


def profile_with(file: Path, law: str | None) -> Profile:
    """Return the profile in a file, with another law of task times if one is given."""
    profile = read_profile(file)
    if law is None:
        return profile
    spec = Spec.read("law", law, DELAYS)
    return profile.with_law(spec.name, **spec.values(DELAYS[spec.name].fit, without=("mean", "std")))


def cluster_spec(text: str) -> Spec:
    """Return the cluster that a text asks for; nothing is started."""
    return Spec.read("cluster", text, CLUSTERS)


def started_cluster(spec: Spec, **usual: Any) -> Cluster:
    """Return a cluster, started with its own options and those of every cluster."""
    kind = CLUSTERS[spec.name]
    return kind(**usual, **spec.values(kind.type, without=USUAL))


def chosen_plan(
    profile: Profile, *, scheme: str | None, code: str | None, rule: str, tasks: int | None, purge: bool, seed: int = 1
) -> Plan:
    """Return the plan that options ask for: a scheme, the rows of a code, or any K of the rows by the split rule.

    What a scheme needs and is not given comes from the profile: workers, parts, critical, and counts by the rule.
    """
    if scheme is None and code is None:
        return any_k(split_rows(profile, rule, tasks=tasks, purge=purge).counts, profile.workload.critical)
    made = None if code is None else _code(profile, code, tasks, seed)
    spec = Spec.read("scheme", "coded_rows" if scheme is None else scheme, SCHEMES)
    function = SCHEMES[spec.name]
    defaults = {parameter.name: parameter.default for parameter in parameters(function)}
    if "code" in spec.arguments or (made is None and defaults.get("code") is Parameter.empty):
        raise ArgumentError(f"scheme: {scheme!r} is not allowed; its code must be given by --code NAME:KEY=VALUE,…")
    taken = defaults.keys() - spec.arguments.keys()
    if made is not None:
        if "code" not in taken:
            raise ArgumentError(f"code: {code!r} is not allowed; {spec.name} has codes of its own")
        function = partial(function, code=made)
    if "rule" in taken:
        function = partial(function, rule=rule)
    job = profile.workload
    known: dict[str, Any] = {
        "workers": len(profile.workers), "parts": job.critical if made is None else made.rows, "critical": job.critical,
        "profile": profile, "rng": place_generator(seed, 1),
    }  # fmt: skip
    if "counts" in taken:
        known["counts"] = _counts(profile, made, rule, tasks, purge)
    plan: Plan = spec.call(function, **known)
    if len(plan.lanes) != len(profile.workers):
        raise ArgumentError(
            f"scheme: {len(plan.lanes)} lanes are not allowed; must be {len(profile.workers)}, one per worker of the "
            "profile"
        )
    return plan


def ended(plan: Plan, texts: Sequence[str]) -> Plan:
    """Return a plan with the ending that these texts name; several policies must all hold.

    >>> from echelon.codes import uncoded
    >>> from echelon.schemes import coded_rows
    >>> ended(coded_rows(uncoded(parts=4), [2, 2]), ["deadline:seconds=2", "quorum:share=0.9"]).ending
    Deadline(seconds=2) & Quorum(share=0.9, least=0, grace=0.0, stretch=0.0)
    """
    found: Policy | None = None
    for text in texts:
        spec = Spec.read("ending", text, ENDINGS)
        made = spec.call(ENDINGS[spec.name])
        if not isinstance(made, Policy):
            policies = ", ".join(name for name, ending in ENDINGS.items() if issubclass(ending, Policy))
            raise ArgumentError(
                f"ending: {text!r} is not allowed; must be one of {policies}; others leave work to later rounds, and "
                "are for chains: --scheme NAME:waiting=…"
            )
        found = made if found is None else found & made
    return plan if found is None else plan.ended(found)


def _code(profile: Profile, text: str, tasks: int | None, seed: int) -> Code:
    job = profile.workload
    rows = job.tasks if tasks is None else tasks
    return named_code(text, parts=job.critical, rows=rows, critical=job.critical, rng=place_generator(seed, 0))


def _counts(profile: Profile, code: Code | None, rule: str, tasks: int | None, purge: bool) -> IntArray:
    """Return the rows of each worker: all rows of a code, or as many as the profile asks for."""
    if code is None:
        return split_rows(profile, rule, tasks=tasks, purge=purge).counts
    return split_code(code, profile.speeds, rule, profile.workload.gamma).counts
