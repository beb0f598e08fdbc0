"""`echelon simulate`: a stream of jobs in virtual time."""

from typing import Annotated, Any

import typer

from echelon.cli.chains import chain_report, is_chain, show_chain
from echelon.cli.choices import chosen_plan, ended, profile_with
from echelon.cli.console import out, print_json, print_table, progress, show
from echelon.cli.options import AsJson, File, Law, NoPurge, OwnCode, Rule, Scheme, Tasks
from echelon.cli.scheme_report import unit_of_work
from echelon.errors import ArgumentError
from echelon.ports import stay_bytes
from echelon.prediction import plan_law
from echelon.simulation import CONFIDENCE, SimulatedJobs, simulate_jobs
from echelon.simulation import simulate_law as run_law


def simulate(
    file: File,
    scheme: Scheme = None,
    code: OwnCode = None,
    ending: Annotated[
        list[str] | None,
        typer.Option(
            help="When rounds end that may do without some rows, NAME:KEY=VALUE,… of `echelon schemes`; may be "
            "repeated: all must hold.",
            show_default=False,
        ),
    ] = None,
    split: Rule = "theorem2",
    tasks: Tasks = None,
    jobs: Annotated[int, typer.Option(help="Jobs counted per seed; products or gradients of a chain.")] = 1000,
    seeds: Annotated[int, typer.Option(help="Independent streams.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 1,
    warmup: Annotated[int, typer.Option(help="Jobs run first in each stream, and not counted.")] = 0,
    no_purge: NoPurge = False,
    law: Law = None,
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
    bytes_per_message: Annotated[
        float,
        typer.Option(help="Size of a row that is added up: over the profile's bandwidth, and port, by its plane."),
    ] = 0.0,
    bytes_of_state: Annotated[
        float, typer.Option(help="Size of what every worker is sent at the beginning of a round.")
    ] = 0.0,
    json: AsJson = False,
) -> None:
    """Simulate streams of jobs: delay with its interval, percentiles, how busy each worker is.

    By default an iteration ends with any K of the rows that the split hands out. Choose others by --scheme and --code:
    --scheme gradient_coding:load=2, --scheme pull:copies=2, --code cyclic:load=6, --scheme pull --code mds. For a chain
    of products (--scheme diagonal_interleaved:x=2,y=3,delay=2,waiting=fastest) or of gradients (--scheme
    m_sgc:workers_at_once=1,length=1,window=2): the time of one, without a queue.
    """
    profile = profile_with(file, law)
    if is_chain(scheme):
        given: dict[str, Any] = {
            "--code": code,
            "--ending": ending,
            "--tasks": tasks,
            "--warmup": warmup,
            "--no-purge": no_purge,
        }
        given |= {"--overlap": overlap, "--quick": quick}
        given |= {"--bytes-per-message": bytes_per_message, "--bytes-of-state": bytes_of_state}
        _refuse(given, "a chain of products or gradients")
        assert scheme is not None
        with progress("simulating") as tick:
            said = chain_report(scheme, profile, products=jobs, seeds=seeds, seed=seed, progress=tick)
        print_json(said) if json else show_chain(said)
        return
    plan = chosen_plan(profile, scheme=scheme, code=code, rule=split, tasks=tasks, purge=not no_purge, seed=seed)
    plan = ended(plan, ending or ())
    if quick and overlap:
        raise ArgumentError(
            "--overlap, --quick: not allowed together; which workers are idle is not known for whole iterations"
        )
    if quick:
        sizes = {"--bytes-per-message": bytes_per_message, "--bytes-of-state": bytes_of_state}
        _refuse(sizes, "--quick, which knows no costs")
        exact = plan_law(plan, profile, purge=not no_purge)
        seen = run_law(exact, profile, jobs=jobs, seeds=seeds, seed=seed, warmup=warmup)
    else:
        with progress("simulating") as tick:
            seen = simulate_jobs(
                plan, profile, jobs=jobs, seeds=seeds, seed=seed, warmup=warmup,
                purge=not no_purge, overlap=overlap, bytes_per_message=bytes_per_message,
                bytes_of_state=bytes_of_state, progress=tick,
            )  # fmt: skip
    if json:
        stable = seen.service.mean < profile.workload.arrivals.mean
        details = {
            "scheme": scheme, "code": code, "rule": split, "workers": profile.names, "split": plan.counts,
            "stable": stable, "residual": seen.residual,
            "plane": "responders" if bytes_per_message >= stay_bytes(profile.costs) else "master",
        }  # fmt: skip
        print_json(simulate_report(seen) | details | {"method": "law" if quick else "tasks"})
        return
    _show(seen, profile.names, plan.counts.tolist())
    if bytes_per_message:
        stays = bytes_per_message >= stay_bytes(profile.costs)
        out.print("The responders add." if stays else "The master adds.")
    if plan.ending is not None and plan.ending.approximate:
        out.print(f"Residual of a round, mean: {show(seen.residual, 3)} (ending: {plan.ending}).")
    if scheme is not None or code is not None:
        out.print(unit_of_work(profile))
    if seen.service.mean >= profile.workload.arrivals.mean:
        out.print(
            f"Unstable: a job needs {show(seen.service.mean)} s and one arrives every "
            f"{show(profile.workload.arrivals.mean)} s. Delays grow with --jobs and have no long-run mean."
        )


def _refuse(given: dict[str, Any], beside: str) -> None:
    """Refuse options that make no sense together with something else."""
    for name, value in given.items():
        if value:
            raise ArgumentError(f"{name}: not allowed for {beside}")


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
