"""`echelon trace`: a profile of the workers from a recorded run, for `echelon plan` and `echelon simulate`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from echelon import checks
from echelon.cli.console import out, print_json, print_table, show
from echelon.cli.options import AsJson
from echelon.cli.report import Run
from echelon.errors import ArgumentError
from echelon.files import write_profile
from echelon.profile import Workload
from echelon.seeds import generators
from echelon.stream import read_record
from echelon.stream.traced import Traced, traced


def trace(
    run: Run,
    file: Annotated[
        Path,
        typer.Option("--out", help="Profile to write, in TOML; an existing one is replaced.", show_default=False),
    ],
    times: Annotated[int, typer.Option(help="Times in each worker's law.")] = 200,
    together: Annotated[
        bool,
        typer.Option(
            "--together",
            help="Keep rounds as they were: one pace per worker and round, replayed jointly by the law 'recorded'.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the order of these times.")] = 1,
    json: AsJson = False,
) -> None:
    """Turn a recorded run into a profile: laws of task times, corrected for the tasks that purges cut short."""
    checks.whole("times", times, least=2, most=10**5)
    rng = generators(seed)[1]
    record = read_record(run)
    try:
        found = traced(record, rng, times=times, together=together)
    except ArgumentError as error:
        raise ArgumentError(f"{run}: {error}") from None
    write_profile(found.profile, file)
    job = found.profile.workload
    if json:
        print_json(
            {
                "out": str(file),
                "critical": job.critical,
                "redundancy": job.redundancy,
                "iterations": job.iterations,
                "arrivals": job.arrivals.rate,
                "arrivals_method": _method(job),
                "workers": [asdict(worker) for worker in found.workers],
                "left_out": found.left_out,
                "notes": found.notes,
            }
        )
        return
    _show(found)
    out.print(f"Written to {file}.", soft_wrap=True)


def _method(job: Workload) -> str:
    return "recorded" if job.arrivals.times else "Poisson"


def _show(found: Traced) -> None:
    job = found.profile.workload
    print_table(
        f"Any {job.critical} of {job.tasks} rows, {job.iterations} iterations per job, "
        f"{job.arrivals.rate:.4g} jobs per second ({_method(job)})",
        ["worker", "finished", "cut short", "ms per part", "finished only", "time over parts", "beyond", "link (ms)"],
        [
            [
                worker.name,
                str(worker.finished),
                str(worker.cut),
                *(show(time * 1e3) for time in (worker.mean, worker.mean_finished, worker.mean_busy)),
                f"{worker.beyond:.1%}",
                show(worker.link * 1e3),
            ]
            for worker in found.workers
        ],
    )
    for note in found.notes:
        out.print(note)
