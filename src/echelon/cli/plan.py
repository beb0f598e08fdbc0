"""`echelon plan`: how to split the rows over the workers, and what to expect of it."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from echelon.arrays import IntArray
from echelon.cli.choices import chosen_plan, profile_with
from echelon.cli.console import out, print_json, print_table, show
from echelon.cli.options import AsJson, File, Law, NoPurge, OwnCode, Rule, Scheme, Tasks
from echelon.cli.scheme_report import scheme_report, show_scheme
from echelon.delays import Delay, task_laws
from echelon.errors import ArgumentError, NoClosedForm
from echelon.prediction import PredictedJobs, predict_jobs
from echelon.profile import Profile
from echelon.schemes import any_k
from echelon.search.splits import split_rows
from echelon.search.workers import Enlarged, add_until_stable
from echelon.splits import Split
from echelon.theory import LowerBound, lower_bound, metric, mismatch, paper_bound, queued_bound

_BOUNDED = 10**5  # workers times critical rows up to which lower bounds are computed: a second or two


def plan(
    file: File,
    scheme: Scheme = None,
    code: OwnCode = None,
    split: Rule = "theorem2",
    tasks: Tasks = None,
    no_purge: NoPurge = False,
    law: Law = None,
    pool: Annotated[
        Path | None,
        typer.Option(help="Profile whose workers may be added until the queue is stable.", show_default=False),
    ] = None,
    json: AsJson = False,
) -> None:
    """Split the rows of an iteration over the workers and predict the delay of a job.

    With --scheme or --code, predict that plan instead: --scheme multi_message:load=4,order=2, --code cyclic:load=6.
    """
    profile = profile_with(file, law)
    if scheme is not None or code is not None:
        if pool is not None:
            raise ArgumentError(
                f"pool: '{pool}' is not allowed together with --scheme or --code, which set the workers"
            )
        made = chosen_plan(profile, scheme=scheme, code=code, rule=split, tasks=tasks, purge=not no_purge)
        found = {"scheme": scheme, "code": code, **scheme_report(made, profile, purge=not no_purge)}
        print_json(found) if json else show_scheme(found, profile)
        return
    enlarged = None
    if pool is not None:
        spare = profile_with(pool, law)
        # times, and not rates: the work of a task in the pool's own file is what its rates refer to
        workers = spare.with_speeds(spare.speeds).workers
        enlarged = add_until_stable(profile, workers, rule=split, tasks=tasks, purge=not no_purge)
        profile = enlarged.profile
    report, chosen = plan_report(profile, split, tasks, not no_purge)
    if enlarged is not None:
        report["pool"] = {"added": list(enlarged.added), "useless": list(enlarged.useless), "stable": enlarged.stable}
    if json:
        print_json(report)
    else:
        _show(profile, chosen, report, enlarged)


def plan_report(profile: Profile, rule: str, tasks: int | None, purge: bool) -> tuple[dict[str, Any], Split]:
    """Return everything that `echelon plan` says, by the keys of its JSON, and the split."""
    laws = task_laws(profile)
    job, speeds = profile.workload, profile.speeds
    split = split_rows(profile, rule, tasks=tasks, purge=purge, laws=laws)
    lanes = any_k(split.counts, job.critical)
    unpurged = predict_jobs(lanes, profile, purge=False, laws=laws)
    main = predict_jobs(lanes, profile, laws=laws) if purge else unpurged
    metrics = metric(speeds, split.counts, job.gamma)
    active = split.counts > 0
    bound, bound_active = (_bound(profile, laws, some) for some in (np.arange(len(laws)), np.flatnonzero(active)))
    paper = paper_bound(speeds, job.critical, job.iterations)
    report = {
        "rule": rule,
        "purge": purge,
        "workers": profile.names,
        "split": split.counts,
        "split_real": split.real,
        "theta": split.theta,
        "tasks": split.tasks,
        "active": split.active,
        "metric": metrics,
        "iteration_mean": main.iteration_mean,
        "iteration_second": main.iteration_second,
        "service_mean": main.service_mean,
        "delay": main.delay,
        "delay_error": main.delay_error,
        "delay_method": main.delay_method,
        "method": main.method,
        "formula": main.formula,
        "bound": bound.service,
        "bound_queued": bound.delay,
        "bound_active": bound_active.service,
        "bound_active_queued": bound_active.delay,
        "paper_bound": paper,
        "paper_bound_queued": queued_bound(job.arrivals, paper),
        "stable": main.stable,
        "unpurged": _brief(unpurged),
        "std_of_law": [law.std for law in laws],
        "mismatch": mismatch(metrics),
        "mismatch_active": mismatch(metrics[active]),
    }
    return report, split


def _bound(profile: Profile, laws: list[Delay], workers: IntArray) -> LowerBound:
    """Return the lower bound of any split over these workers; undefined where it is not known, or takes too long."""
    job = profile.workload
    if len(workers) * job.critical > _BOUNDED:
        return LowerBound(float("nan"), float("nan"))
    try:
        some = [laws[p] for p in workers]
        return lower_bound(some, profile.speeds.link[workers], job.critical, job.iterations, job.arrivals)
    except NoClosedForm:
        return LowerBound(float("nan"), float("nan"))


def _brief(seen: PredictedJobs) -> dict[str, Any]:
    return {
        "iteration_mean": seen.iteration_mean,
        "iteration_second": seen.iteration_second,
        "delay": seen.delay,
        "stable": seen.stable,
    }


def _show(profile: Profile, split: Split, report: dict[str, Any], enlarged: Enlarged | None) -> None:
    speeds = profile.speeds
    if enlarged is not None:
        stable = "the queue is stable without it" if enlarged.stable else "nothing was added"
        said = f"added {', '.join(enlarged.added)}" if enlarged.added else stable
        useless = f"; {', '.join(enlarged.useless)} can't help: their links alone take too long"
        out.print(f"Pool: {said}{useless if enlarged.useless else ''}.")
        if not enlarged.stable:
            out.print("No worker was found in the pool that makes the queue stable.", style="bold")
    print_table(
        f"Split by {report['rule']}: {split.tasks} rows, "
        f"{f'any {profile.workload.critical}' if report['purge'] else 'all'} of which end an iteration; "
        f"{split.active} of {len(profile.workers)} workers active",
        ["worker", "rows", "unrounded", "task mean (s)", "link (s)", "E[T] + γ E[T²]"],
        [
            [name, str(count), show(real, 2), show(mean, 4), show(link, 4), show(level, 3)]
            for name, count, real, mean, link, level in zip(
                profile.names, split.counts, split.real, speeds.mean, speeds.link, report["metric"], strict=True
            )
        ],
    )
    unpurged = report["unpurged"]
    sampled = report["stable"] and report["delay_method"] == "sampled"
    error = f" ± {show(report['delay_error'])}" if sampled else ""
    print_table(
        f"PredictedJobs (iteration {report['method']}; delay {report['delay_method']}, by {report['formula']})",
        ["", "as planned", "no purging"],
        [
            ["iteration, mean (s)", show(report["iteration_mean"], 4), show(unpurged["iteration_mean"], 4)],
            [
                "job in service, mean (s)",
                show(report["service_mean"]),
                show(unpurged["iteration_mean"] * profile.workload.iterations),
            ],
            ["job delay, mean (s)", show(report["delay"]) + error, show(unpurged["delay"])],
            ["stable", _yes(report["stable"]), _yes(unpurged["stable"])],
            ["lower bound, any split (s)", show(report["bound"]), ""],
            ["… with its queue (s)", show(report["bound_queued"]), ""],
            ["lower bound, active workers (s)", show(report["bound_active"]), ""],
            ["bound (9) of the paper (s)", show(report["paper_bound"]), ""],
            ["… with its queue (s)", show(report["paper_bound_queued"]), ""],
            ["mismatch (10), all / active", f"{report['mismatch']:.3g}", f"{report['mismatch_active']:.3g}"],
        ],
    )
    for note in _notes(profile, report):
        out.print(note)


def _notes(profile: Profile, report: dict[str, Any]) -> list[str]:
    """Return what a reader of the tables should know, too."""
    notes = []
    if not report["stable"]:
        remedies = "--split best, more workers (--pool FILE) or slower arrivals"
        if report["purge"]:
            remedies = "more redundancy, " + remedies
        notes.append(
            f"Unstable: a job needs {show(report['service_mean'])} s and one arrives every "
            f"{show(profile.workload.arrivals.mean)} s. What may help: {remedies}."
        )
    if report["service_mean"] < report["paper_bound"] or report["delay"] < report["paper_bound_queued"]:
        notes.append(
            "The paper's (9) is no bound here: it assumes independent tasks, and that every worker is worth its link."
        )
    if np.isnan(report["bound"]):
        why = "sums of task times have no closed form"
        if len(profile.workers) * profile.workload.critical > _BOUNDED:
            why = f"workers times critical rows are more than {_BOUNDED}, which would take too long"
        notes.append(f"No lower bound is known for all workers: {why}.")
    for worker, stated, real in zip(profile.workers, profile.speeds.std, report["std_of_law"], strict=True):
        if abs(real - stated) > 1e-6 * max(real, stated):
            notes.append(
                f"{worker.name}: the law {worker.law} has a deviation of {real:.4g} s, not the {stated:.4g} s stated; "
                "the split goes by what is stated, the prediction by the law."
            )
    return notes


def _yes(value: bool) -> str:
    return "yes" if value else "no"
