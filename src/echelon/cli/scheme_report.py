"""What `echelon plan` says of the plan of a scheme: which worker computes what, and what to expect of it."""

from typing import Any

from echelon.cli.console import out, print_table, show
from echelon.plan import Plan
from echelon.prediction import predict_jobs
from echelon.profile import Profile


def scheme_report(plan: Plan, profile: Profile, *, purge: bool) -> dict[str, Any]:
    """Return what is known of a plan on these workers, by the keys of the JSON."""
    seen = predict_jobs(plan, profile, purge=purge)
    return {
        "purge": purge,
        "workers": profile.names,
        "tasks": plan.counts,
        "parts": [float(costs.sum()) for costs in plan.costs],
        "pooled": len(plan.pooled),
        "slots": [{"rows": slot.rows, "threshold": slot.threshold} for slot in plan.slots],
        "iteration_mean": seen.iteration_mean,
        "iteration_second": seen.iteration_second,
        "service_mean": seen.service_mean,
        "delay": seen.delay,
        "delay_error": seen.delay_error,
        "delay_method": seen.delay_method,
        "method": seen.method,
        "formula": seen.formula,
        "stable": seen.stable,
    }


def unit_of_work(profile: Profile) -> str:
    """Return a note on what a part is in tasks of a profile, to compare schemes that cut data differently."""
    return (
        f"A part takes one task time of the profile, whose iterations are {profile.workload.critical} tasks: where a "
        "scheme cuts the data into fewer parts, they are smaller iterations."
    )


def show_scheme(report: dict[str, Any], profile: Profile) -> None:
    """Print the report as tables."""
    chosen = " of ".join(text for text in (report["scheme"], report["code"]) if text is not None)
    slots = report["slots"]
    kinds = sorted({(slot["threshold"], slot["rows"]) for slot in slots})
    needs = ", ".join(f"{threshold} of {rows} rows" for threshold, rows in kinds)
    pooled = f"; {report['pooled']} tasks to be handed out on demand" if report["pooled"] else ""
    print_table(
        f"{chosen}: {'1 slot' if len(slots) == 1 else f'{len(slots)} slots, each'} recovered from {needs}{pooled}",
        ["worker", "tasks", "parts", "part mean (s)", "link (s)"],
        [
            [name, str(tasks), show(parts, 2), show(mean, 4), show(link, 4)]
            for name, tasks, parts, mean, link in zip(
                profile.names, report["tasks"].tolist(), report["parts"], profile.speeds.mean, profile.speeds.link,
                strict=True,
            )
        ],
    )  # fmt: skip
    sampled = report["stable"] and report["delay_method"] == "sampled"
    error = f" ± {show(report['delay_error'])}" if sampled else ""
    print_table(
        f"Predicted (iteration {report['method']}; delay {report['delay_method']}, by {report['formula']})",
        ["", "seconds"],
        [
            ["iteration, mean", show(report["iteration_mean"], 4)],
            ["job in service, mean", show(report["service_mean"])],
            ["job delay, mean", show(report["delay"]) + error],
        ],
    )
    out.print(unit_of_work(profile))
    if not report["stable"]:
        out.print(
            f"Unstable: a job needs {show(report['service_mean'])} s and one arrives every "
            f"{show(profile.workload.arrivals.mean)} s."
        )
