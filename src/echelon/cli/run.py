"""`echelon run`: a stream of jobs on real workers, or in virtual time."""

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import cloudpickle
import numpy as np
import typer

from echelon.cli.choices import cluster_spec, profile_with, started_cluster
from echelon.cli.console import err, out, print_json, print_table, show
from echelon.cli.options import AsJson, ClusterSpec, Law, OwnCode, PageAt
from echelon.clusters import CLUSTERS
from echelon.errors import ArgumentError
from echelon.files import whole
from echelon.jobs import IterativeJob
from echelon.splits import SPLITS
from echelon.stream import Delivery, Stream
from echelon.stream.starting import as_profiled

Jobs = Annotated[
    str,
    typer.Argument(
        metavar="FILE.py:NAME",
        help="Where the jobs are: a list, or a function that returns or yields them; an entry is a job, or a pair of "
        "the second at which it arrives and the job.",
        show_default=False,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(help="How many workers; by default as many as profiles say or the machine has processors."),
]
Scale = Annotated[float, typer.Option(help="Multiply all times of the emulated profile by this.")]


def run(
    jobs: Jobs,
    workers: Workers = None,
    cluster: ClusterSpec = "processes",
    profile: Annotated[
        Path | None, typer.Option(help="What is known of the workers; without, they are measured.")
    ] = None,
    emulate: Annotated[
        Path | None, typer.Option(help="Let the workers take the times that this profile's laws draw.")
    ] = None,
    time_scale: Scale = 1.0,
    law: Law = None,
    code: OwnCode = None,
    split: Annotated[str, typer.Option(metavar="|".join(SPLITS), help="How rows are shared out.")] = "theorem2",
    redundancy: Annotated[
        float | None,
        typer.Option(
            help="Coded rows per needed row; by default none beforehand: what is late is repeated, and products are "
            "encoded as the workers' spread asks for.",
            show_default=False,
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(metavar="auto", help="Let each job run by what 'echelon advise' finds best; no split then."),
    ] = None,
    overlap: Annotated[
        bool | None,
        typer.Option(
            "--overlap/--no-overlap", help="Whether idle workers begin the next job; by default where advice says so."
        ),
    ] = None,
    verify: Annotated[
        str | None,
        typer.Option(
            metavar="spare|vote", help="Check results before each step: by rows to spare, or by two workers that agree."
        ),
    ] = None,
    record: Annotated[Path | None, typer.Option(help="File for the record of the run.")] = None,
    metrics: Annotated[
        Path | None, typer.Option(help="File for counts of what happens, for Prometheus; rewritten every 5 seconds.")
    ] = None,
    page: PageAt = None,
    journal: Annotated[Path | None, typer.Option(help="File from which a killed run goes on.")] = None,
    results: Annotated[Path | None, typer.Option(help="Folder for the results, one file per job.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 1,
    json: AsJson = False,
) -> None:
    """Run a stream of jobs on real workers, or in virtual time; they are delivered in order of arrival.

    With --cluster virtual and a profile, workers take the times that it says, in virtual seconds: a run does not wait
    for them, and two runs with one seed are the same. --code cyclic:load=3 protects all jobs by that code, whose rows
    are still shared out by speed. Ends with exit code 1 if a job failed, or its result could not be written.
    """
    where = cluster_spec(cluster)
    CLUSTERS[where.name].enter()
    if law is not None and profile is None and emulate is None:
        raise ArgumentError(f"law: {law!r} is not allowed without --profile or --emulate, whose laws it replaces")
    if time_scale != 1.0 and emulate is None:
        raise ArgumentError(f"time_scale: {time_scale} is not allowed without --emulate; it scales emulated times")
    if record is not None and journal is not None and journal.exists() and record.exists():
        raise ArgumentError(
            f"record: '{record}' is not allowed; must be another file, because this one holds what happened before "
            f"{journal} is resumed"
        )
    source = load_jobs(jobs)
    if results is not None:
        results.mkdir(parents=True, exist_ok=True)
    known = None if profile is None else profile_with(profile, law)
    emulated = None if emulate is None else profile_with(emulate, law).scaled(time_scale)
    delivered: list[Delivery] = []
    workers, emulated = as_profiled(where.name, workers, known, emulated)
    started = closing(started_cluster(where, workers=workers, emulate=emulated, seed=seed))
    with _interrupted(journal), started as workplace, Stream(
        workplace, redundancy=redundancy, profile=known, split=split, strategy=strategy, overlap=overlap, record=record,
        verify=verify, metrics=metrics, page=page or False, journal=journal, seed=seed,
    ) as stream:  # fmt: skip
        if stream.resumed:
            err.print(f"Resuming {len(stream.resumed)} jobs of {journal}.")
        submit_in_time(stream, islice(source, stream.taken, None), code)
        saving = Saving(results, journal)
        for done in stream.deliveries(save=saving.save):
            delivered.append(done)
            if done.error is not None:
                err.print(f"{done.name} failed", style="bold")
                err.print("\n".join([str(done.error), *getattr(done.error, "__notes__", ())]), highlight=False)
    if json:
        print_json({"jobs": [job_report(done) for done in delivered]})
    else:
        _show(delivered, record)
    if saving.unwritten or any(done.error is not None for done in delivered):
        raise typer.Exit(1)


@contextmanager
def _interrupted(journal: Path | None) -> Iterator[None]:
    """Say how to go on when Ctrl-C ends the run."""
    try:
        yield
    except KeyboardInterrupt:
        how = "" if journal is None else f" The jobs in {journal} go on when this is run again, with another --record."
        err.print(f"Interrupted.{how}")
        raise


def load_jobs(where: str) -> Iterator[tuple[float, IterativeJob]]:
    """Yield (second of arrival, job) from ``FILE.py:NAME``; the file is checked at once, jobs when they are due."""
    path, colon, name = where.rpartition(":")
    file = Path(path)
    if not colon or file.suffix != ".py" or not file.is_file():
        raise ArgumentError(f"jobs: {where!r} is not allowed; must be FILE.py:NAME, and the file must be there")
    module_name = f"echelon_jobs_{file.stem}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path.insert(0, str(file.resolve().parent))
    spec.loader.exec_module(module)
    # workers have no such module: its functions travel whole
    cloudpickle.register_pickle_by_value(module)
    if not hasattr(module, name):
        raise ArgumentError(f"jobs: {name!r} is not allowed; {file} has no such name")
    found: Any = getattr(module, name)
    found = found() if callable(found) and not isinstance(found, IterativeJob) else found
    if isinstance(found, IterativeJob):
        found = [found]
    if not isinstance(found, Iterable):
        raise ArgumentError(f"jobs: {name!r} is not allowed; must be jobs, or a function that returns or yields them")
    return (_entry(name, i, entry) for i, entry in enumerate(found))


def _entry(name: str, i: int, entry: Any) -> tuple[float, IterativeJob]:
    if isinstance(entry, IterativeJob):
        return 0.0, entry
    if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], IterativeJob):
        return float(entry[0]), entry[1]
    raise ArgumentError(f"{name}[{i}]: {type(entry).__name__} is not allowed; must be a job, or (second, job)")


def submit_in_time(stream: Stream, jobs: Iterable[tuple[float, IterativeJob]], code: str | None = None) -> None:
    """Submit each job when it arrives, protected by a code if one is given."""
    start = stream.now()
    for at, job in jobs:
        if code is not None:
            job.use_code(code)
        if at > 0:
            stream.sleep(max(0.0, start + at - stream.now()))
        stream.submit(job)


class Saving:
    """Writes results to a folder, each before its job counts as delivered.

    unwritten: how many could not be.
    """

    def __init__(self, folder: Path | None, journal: Path | None) -> None:
        self._folder, self._journal = folder, journal
        self.unwritten = 0

    def save(self, done: Delivery) -> None:
        """Write a result; what no disk could hold as arrays is only counted, it stays in a journal."""
        if self._folder is None or done.error is not None:
            return
        try:
            save_result(self._folder, done)
        except (OSError, TypeError, ValueError) as error:
            self.unwritten += 1
            text = f"{done.name}: its result can't be written: {error}"
            if self._journal is None:
                err.print(text, markup=False, soft_wrap=True)
                return
            if isinstance(error, OSError):
                err.print(f"{text}; {self._journal} has it: run again", markup=False, soft_wrap=True)
                raise typer.Exit(1) from None  # not delivered: the next run writes it
            err.print(
                f"{text}; 'echelon journal {self._journal} --export {done.number} OUT' gives it as a pickle",
                markup=False, soft_wrap=True,
            )  # fmt: skip


def save_result(folder: Path, done: Delivery) -> None:
    """Write a result: an array as .npy, several of them as .npz."""
    stem = folder / f"{done.number:04d}-{''.join(c if c.isalnum() or c in '-_' else '-' for c in done.name)}"
    several = isinstance(done.result, dict | list | tuple)
    with whole(f"{stem}.npz" if several else f"{stem}.npy") as beside:
        if isinstance(done.result, dict):
            arrays: Any = {str(key): np.asarray(value) for key, value in done.result.items()}
            np.savez(beside, **arrays)
        elif several:
            np.savez(beside, *[np.asarray(value) for value in done.result])
        else:
            np.save(beside, np.asarray(done.result))


def job_report(done: Delivery) -> dict[str, Any]:
    """Return what `echelon run` says of a job, by the keys of its JSON."""
    return {
        "name": done.name,
        "number": done.number,
        "delay": done.delay,
        "iterations": done.iterations,
        "error_relative_to_terms": done.error_estimate.relative_to_terms,
        "error_relative_to_result": done.error_estimate.relative_to_result,
        "failed": None if done.error is None else str(done.error),
        "traceback": None if done.error is None else done.error.traceback,
    }


def _show(delivered: list[Delivery], record: Path | None) -> None:
    rows = [
        [
            done.name,
            show(done.delay),
            str(done.iterations),
            f"{done.error_estimate.relative_to_terms:.1e}",
            f"{done.error_estimate.relative_to_result:.1e}",
            "done" if done.error is None else "failed",
        ]
        for done in delivered
    ]
    print_table(
        "Jobs, in order of arrival", ["job", "delay (s)", "iterations", "error/terms", "error/result", "outcome"], rows
    )
    if delivered:
        out.print(f"Mean delay: {show(float(np.mean([done.delay for done in delivered])))} s")
    if record is not None:
        out.print(f"Record: {record}; see 'echelon report {record}'.")
