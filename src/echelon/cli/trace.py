"""`echelon trace`: a recorded run as a profile of its workers, for `plan` and `simulate`; or as a Chrome trace."""

import json as encoding
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.random import Generator

from echelon import checks
from echelon.cli.console import out, print_json, print_table, show
from echelon.cli.options import AsJson
from echelon.cli.report import Run
from echelon.delays import RecordedTimes
from echelon.errors import ArgumentError
from echelon.files import whole, write_profile, write_times
from echelon.profile import Profile, Workload
from echelon.seeds import generators
from echelon.stream import Record, read_record
from echelon.stream.chrome import chrome_trace
from echelon.stream.traced import Traced, traced


def trace(
    run: Run,
    file: Annotated[
        Path | None,
        typer.Option("--out", help="Profile to write, in TOML; an existing one is replaced.", show_default=False),
    ] = None,
    chrome: Annotated[
        Path | None,
        typer.Option(help="Trace to write, as Perfetto and chrome://tracing open it: a lane per worker."),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="Table to write, .npz or .csv: seconds per part of each worker and round, at the load of one part.",
            show_default=False,
        ),
    ] = None,
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
    """Turn a recorded run into a profile: laws of task times, corrected for the tasks that purges cut short.

    With --chrome, also or only into a trace of who computed what and when, for Perfetto.
    """
    if file is None and chrome is None and table is None:
        raise ArgumentError("out, chrome, table: missing; one of them must say where to write")
    checks.whole("times", times, least=2, most=10**5)
    rng = generators(seed)[1]
    record = read_record(run)
    if chrome is not None:
        _write_chrome(run, record, chrome)
    said: dict[str, Any] = {"out": None, "chrome": None if chrome is None else str(chrome), "table": None}
    if table is not None:
        _write_table(_traced(run, record, rng, times, together=True).profile, table)
        said["table"] = str(table)
    if file is not None:
        found = _traced(run, record, rng, times, together=together)
        write_profile(found.profile, file)
        said |= _said(found) | {"out": str(file)}
    if json:
        print_json(said)
        return
    if file is not None:
        _show(found)
    out.print(
        f"Written to {' and '.join(str(path) for path in (file, chrome, table) if path is not None)}.", soft_wrap=True
    )


def _traced(run: Path, record: Record, rng: Generator, times: int, *, together: bool) -> Traced:
    try:
        return traced(record, rng, times=times, together=together)
    except ArgumentError as error:
        raise ArgumentError(f"{run}: {error}") from None


def _write_table(profile: Profile, path: Path) -> None:
    """Write the paces of the workers in each round, as of calls with one part of the data."""
    columns = [worker.parameters["times"] for worker in profile.workers]
    load = 1 / profile.workload.critical
    write_times(RecordedTimes({load: np.array(columns).T}, profile.names), path)


def _write_chrome(run: Path, record: Record, chrome: Path) -> None:
    if not record.rounds:
        raise ArgumentError(f"{run}: no round is in this record; there is nothing to trace")
    with whole(chrome) as beside:
        beside.write_text(encoding.dumps(chrome_trace(record), separators=(",", ":")), encoding="utf-8")


def _said(found: Traced) -> dict[str, Any]:
    job = found.profile.workload
    return {
        "critical": job.critical,
        "redundancy": job.redundancy,
        "iterations": job.iterations,
        "arrivals": job.arrivals.rate,
        "arrivals_method": _method(job),
        "workers": [asdict(worker) for worker in found.workers],
        "left_out": found.left_out,
        "notes": found.notes,
    }


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
