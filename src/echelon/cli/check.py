"""`echelon check`: measure workers before a run, and name those that will hold it up."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from echelon.cli.choices import cluster_spec, started_cluster
from echelon.cli.console import out, print_json, print_table, progress, show
from echelon.cli.options import AsJson, ClusterSpec
from echelon.cli.profile import measured_profile, measured_run
from echelon.cli.run import Workers
from echelon.clusters import CLUSTERS
from echelon.files import read_profile, write_profile
from echelon.stream.checkup import CheckedWorker, checkup

FAULTY = 3  # exit code


def check(
    cluster: ClusterSpec = "processes",
    workers: Workers = None,
    seconds: Annotated[float, typer.Option(help="How long to measure.", min=0.1)] = 60.0,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:NAME",
            help="Measure the tasks of the first of these jobs; without, those of a product of a matrix and a vector.",
        ),
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(help="File for the profile that was measured, in TOML.", show_default=False)
    ] = None,
    emulate: Annotated[
        Path | None, typer.Option(help="Let the workers take the times that this profile's laws draw.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Measure workers before a run: who is slow, who is far, who keeps changing.

    Ends with exit code 3 if a worker is slow, far or flapping, and 0 if all are fine.
    """
    where = cluster_spec(cluster)
    CLUSTERS[where.name].enter()
    emulated = None if emulate is None else read_profile(emulate)
    started = closing(started_cluster(where, workers=workers, emulate=emulated))
    with started as workplace, progress("Measuring") as told:
        record, parts, iterations, costs = measured_run(
            workplace, job, seconds, with_costs=profile is not None, progress=told
        )
    found = checkup(record)
    if profile is not None:
        write_profile(replace(measured_profile(record, parts, iterations, 1.0), costs=costs), profile)
    if json:
        print_json(
            {
                "rounds": len(record.rounds),
                "fine": not any(worker.faults for worker in found),
                "sentence": sentence(found),
                "workers": found,
                "profile": None if profile is None else str(profile),
            }
        )
    else:
        _show(found, len(record.rounds), profile)
    if any(worker.faults for worker in found):
        raise typer.Exit(FAULTY)


def sentence(found: tuple[CheckedWorker, ...]) -> str:
    """Return who is not fine, and why."""
    said = []
    for worker in found:
        why = {
            "slow": f"slow (a part takes {show(worker.score, 1)} times as long as on the fastest)",
            "far": f"far ({show(1e3 * worker.link, 1)} ms late)",
            "flapping": f"flapping (lost {worker.losses} times)"
            if worker.losses
            else f"flapping (up to {show(worker.spread, 1)} times as slow as at its best)",
        }
        if worker.faults:
            said.append(f"{worker.name} is {' and '.join(why[fault] for fault in worker.faults)}")
    if not said:
        return "The worker is fine." if len(found) == 1 else f"All {len(found)} workers are fine."
    return f"{'; '.join(said)}."


def _show(found: tuple[CheckedWorker, ...], rounds: int, profile: Path | None) -> None:
    print_table(
        f"Seen in {rounds} rounds",
        ["worker", "mean of a part (s)", "std (s)", "score", "link (s)", "spread", "losses", "verdict"],
        [
            [
                worker.name,
                f"{worker.mean:.3g}",
                f"{worker.std:.3g}",
                show(worker.score, 2),
                f"{worker.link:.3g}",
                show(worker.spread, 2),
                str(worker.losses),
                ", ".join(worker.faults) or "fine",
            ]
            for worker in found
        ],
    )
    out.print(sentence(found), soft_wrap=True)
    if profile is not None:
        out.print(f"Written to {profile}.", soft_wrap=True)
