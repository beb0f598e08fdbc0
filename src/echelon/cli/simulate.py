"""`echelon simulate`: a stream of jobs in virtual time."""

from typing import Annotated, Any

import typer

from echelon.cli.console import out, print_json, print_table, progress, show
from echelon.cli.options import AsJson, File, Law, NoPurge, Rule, Tasks, profile_with
from echelon.errors import ArgumentError
from echelon.prediction import plan_law
from echelon.schemes import any_k, split_rows
from echelon.simulation import CONFIDENCE, SimulatedJobs, simulate_jobs
from echelon.simulation import simulate_law as run_law


def simulate(
    file: File,
    split: Rule = "theorem2",
    tasks: Tasks = None,
    jobs: Annotated[int, typer.Option(help="Jobs counted a seed.")] = 1000,
    seeds: Annotated[int, typer.Option(help="Independent streams.")] = 200,
    seed: Annotated[int, typer.Option(help="Number from which all chance follows.")] = 1,
    warmup: Annotated[int, typer.Option(help="Jobs run first in each stream, and not counted.")] = 0,
    no_purge: NoPurge = False,
    delay: Law = None,
    overlap: Annotated[
        bool,
        typer.Option("--overlap", help="Let idle workers begin the next job, if one waits; no utilisation."),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Draw whole iterations from their exact law (laws with closed sums only); no utilisation."
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Simulate streams of jobs: delay with its interval, percentiles, how busy each worker is."""
    profile = profile_with(file, delay)
    chosen = split_rows(profile, split, tasks=tasks, purge=not no_purge)
    plan = any_k(chosen.counts, profile.workload.critical)
    if quick and overlap:
        raise ArgumentError(
            "--overlap, --quick: not allowed together; who is idle when is not known of whole iterations"
        )
    if quick:
        law = plan_law(plan, profile, purge=not no_purge)
        seen = run_law(law, profile, jobs=jobs, seeds=seeds, seed=seed, warmup=warmup)
    else:
        with progress("simulating") as tick:
            seen = simulate_jobs(
                plan, profile, jobs=jobs, seeds=seeds, seed=seed, warmup=warmup,
                purge=not no_purge, overlap=overlap, progress=tick,
            )  # fmt: skip
    if json:
        stable = seen.service.mean < profile.workload.arrivals.mean
        details = {"rule": split, "workers": profile.names, "split": chosen.counts, "stable": stable}
        print_json(simulate_report(seen) | details | {"method": "law" if quick else "tasks"})
        return
    _show(seen, profile.names, [int(count) for count in chosen.counts])
    if seen.service.mean >= profile.workload.arrivals.mean:
        out.print(
            f"Unstable: a job needs {show(seen.service.mean)} s and one arrives every "
            f"{show(profile.workload.arrivals.mean)} s. Delays grow with --jobs and have no long-run mean."
        )


def simulate_report(seen: SimulatedJobs) -> dict[str, Any]:
    """Return what `echelon simulate` says, by the keys of its JSON."""
    return {
        "delay": {
            "mean": seen.delay.mean,
            "low": seen.delay.low,
            "high": seen.delay.high,
            "p50": seen.percentile(50),
            "p99": seen.percentile(99),
        },
        "confidence": CONFIDENCE,
        "service_mean": seen.service.mean,
        "iteration_mean": seen.iteration_mean,
        "utilisation": seen.utilisation,
        "idle": seen.idle,
        "makespan": seen.makespan,
        "jobs": seen.jobs,
        "seeds": seen.seeds,
    }


def _show(seen: SimulatedJobs, names: list[str], counts: list[int]) -> None:
    interval = f"{show(seen.delay.low)} … {show(seen.delay.high)}"
    print_table(
        f"{seen.seeds} streams of {seen.jobs} jobs (sampled)",
        ["", "seconds"],
        [
            ["job delay, mean", show(seen.delay.mean)],
            [f"… {CONFIDENCE:.0%} interval", interval],
            ["job delay, median", show(seen.percentile(50))],
            ["job delay, 99th percentile", show(seen.percentile(99))],
            ["job in service, mean", show(seen.service.mean)],
            ["iteration, mean", show(seen.iteration_mean, 4)],
        ],
    )
    if seen.utilisation is None or seen.idle is None:
        return
    print_table(
        "Workers",
        ["worker", "rows", "computing", "idle (s)"],
        [
            [name, str(count), f"{share:.1%}", show(idle, 0)]
            for name, count, share, idle in zip(names, counts, seen.utilisation, seen.idle, strict=True)
        ],
    )
