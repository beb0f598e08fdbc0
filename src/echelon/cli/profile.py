"""`echelon profile`: measure real workers, and write what is known of them."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer

from echelon.cli.choices import cluster_spec, started_cluster
from echelon.cli.console import out, print_json, print_table, show
from echelon.cli.options import AsJson, ClusterSpec
from echelon.cli.run import Workers, load_jobs
from echelon.clusters import Cluster
from echelon.errors import ArgumentError
from echelon.files import write_profile
from echelon.jobs import IterativeJob, LinearJob
from echelon.profile import Arrivals, Costs, Profile, Worker, Workload
from echelon.seeds import place_generator
from echelon.stream import Record, Stream, read_record
from echelon.stream.measuring import measure_costs
from echelon.stream.recorded import links

_LOAD = 0.5  # share of the time that the jobs of the written profile keep the workers busy
_SIZE = 2000  # of the matrix that is multiplied where no job is given
_PARTS_PER_WORKER = 10
_ENDLESS = 10**9


def profile(
    out_file: Annotated[Path, typer.Option("--out", help="File for the profile, in TOML.", show_default=False)],
    workers: Workers = None,
    cluster: ClusterSpec = "processes",
    job: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:NAME",
            help="Measure the tasks of the first of these jobs (see 'echelon run'); without, those of a product of a "
            "matrix and a vector.",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long to measure.", min=0.1)] = 5.0,
    redundancy: Annotated[float, typer.Option(help="Redundancy to write down.", min=1.0)] = 1.1,
    json: AsJson = False,
) -> None:
    """Measure real workers: mean and spread of their task times, their links, what messages and rounds cost.

    While it measures, rounds wait for every row, so that no task is cut short.
    """
    with closing(started_cluster(cluster_spec(cluster), workers=workers)) as workplace:
        record, parts, iterations, costs = measured_run(workplace, job, seconds)
    measured = replace(measured_profile(record, parts, iterations, redundancy), costs=costs)
    write_profile(measured, out_file)
    if json:
        print_json(profile_report(measured, len(record.rounds), out_file))
        return
    rows = [[w.name, f"{w.mean:.3g}", f"{w.std:.3g}", f"{w.link:.3g}"] for w in measured.workers]
    print_table(f"Seen in {len(record.rounds)} rounds", ["worker", "mean of a task (s)", "std (s)", "link (s)"], rows)
    out.print(
        f"A message takes a worker {show(costs.message * 1e6)} µs and {show(costs.bandwidth / 1e6)} MB are sent per "
        f"second; between two rounds the master needs {show(costs.round * 1e3)} ms; adding up a GB takes "
        f"{show(costs.combining * 1e9)} s."
    )
    out.print(
        f"Written to {out_file}. Nothing was seen of arrivals: a job every {show(measured.workload.arrivals.mean)} s, "
        f"which keeps the workers busy for {_LOAD:.0%} of the time, is a guess; change it there."
    )


def measured_run(
    workplace: Cluster,
    job: str | None,
    seconds: float,
    *,
    with_costs: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Record, int, int, Costs]:
    """Run a job for some seconds; return the record of its rounds, its parts, its iterations, and costs.

    with_costs: whether they are measured, too.
    progress: told of milliseconds that are over, and of all; without it, the stream shows what it does on a terminal.
    """
    shown = None if progress is None else False
    with TemporaryDirectory() as folder, Stream(
        workplace, redundancy=1.0, split="uniform", record=Path(folder) / "run", progress=shown
    ) as stream:  # fmt: skip
        chosen = _standard_job(stream.workers) if job is None else _first(job)
        if chosen.parts < stream.workers:
            raise ArgumentError(
                f"job: {chosen.parts} parts are not allowed; {stream.workers} workers need at least one each"
            )
        iterations = chosen.iterations or 10
        chosen.iterations = _ENDLESS
        handle = stream.submit(_until(chosen, stream.now, stream.now() + seconds, progress))
        handle.result()
        costs = measure_costs(stream) if with_costs else Costs()
        stream.close()
        record = read_record(Path(folder) / "run")
        record.rounds = [seen for seen in record.rounds if seen.job == handle.number]
    return record, chosen.parts, iterations, costs


def _standard_job(workers: int) -> IterativeJob:
    matrix = place_generator(1, 0).standard_normal((_SIZE, _SIZE)) / _SIZE**0.5
    return LinearJob(
        matrix=matrix,
        parts=_PARTS_PER_WORKER * workers,
        state=np.ones(_SIZE),
        update=lambda state, product: product / np.linalg.norm(product),
        iterations=10,
    )


def _first(where: str) -> IterativeJob:
    for _, job in load_jobs(where):
        return job
    raise ArgumentError(f"job: {where!r} is not allowed; there is no job in it")


def _until(
    job: IterativeJob, now: Callable[[], float], end: float, progress: Callable[[int, int], None] | None
) -> IterativeJob:
    begun = now()

    def over(state: Any) -> bool:
        if progress is not None:
            progress(round(1e3 * (now() - begun)), round(1e3 * (end - begun)))
        return now() >= end

    job.until = over
    return job


def measured_profile(record: Record, parts: int, iterations: int, redundancy: float) -> Profile:
    """Return the profile of a run in which every task was finished; the first round, which warms up, is left out."""
    rounds = record.rounds[1:] or record.rounds
    seconds: list[list[float]] = [[] for _ in record.names]
    for seen in rounds:
        for place, _, _, _, spent, cost in seen.messages:
            seconds[place].append(spent / cost)
    workers = [
        Worker(name, mean=float(np.mean(times)), std=float(np.std(times)), link=float(link))
        for name, times, link in zip(record.names, seconds, links(record), strict=True)
    ]
    service = iterations * float(np.mean([seen.end - seen.start for seen in rounds]))
    arrivals = Arrivals.poisson(_LOAD / service)
    return Profile(Workload(critical=parts, redundancy=redundancy, iterations=iterations, arrivals=arrivals), workers)


def profile_report(measured: Profile, rounds: int, path: Path) -> dict[str, Any]:
    """Return what `echelon profile` says, by the keys of its JSON."""
    return {
        "file": str(path),
        "rounds": rounds,
        "workers": [
            {"name": w.name, "mean": w.mean, "std": w.std, "link": w.link} for w in measured.workers
        ],
        "costs": asdict(measured.costs),
    }  # fmt: skip
