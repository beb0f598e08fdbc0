"""`echelon report`: what a recorded run was like, in tables and pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from echelon.cli.console import out, print_json, print_table, show
from echelon.cli.options import AsJson
from echelon.cli.what_if_report import show_what_if
from echelon.errors import ArgumentError
from echelon.files import whole
from echelon.master.actions import Outcome
from echelon.stream import Record, read_record
from echelon.stream.planning import DEAR
from echelon.stream.recorded import busy, iterations, span
from echelon.stream.timeline import record_timeline
from echelon.stream.what_if import WhatIf, what_if

_JOBS_SHOWN = 20

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Record of a run, from Stream(record=…).", show_default=False)]


def report(
    run: Run,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for timeline.png and delays.png, made if missing; by default RUN's name without its "
            "suffix and with -report, or none with --json.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="File for the page of the run: one file, for any browser.", show_default=False)
    ] = None,
    json: AsJson = False,
) -> None:
    """Say how a recorded run went: jobs and their delays, iterations, workers and messages."""
    record = read_record(run)
    if not record.rounds:
        raise ArgumentError(f"{run}: no round is in this record; there is nothing to report")
    if folder is None and not json:
        folder = run.with_name(f"{run.stem}-report")
    said = run_report(record)
    replayed = what_if(record)
    pictures = [] if folder is None else _draw(record, said, folder)
    if html is not None:
        write_page(run, replayed, html)
    if json:
        written = None if html is None else str(html)
        print_json(
            said | {"what_if": replayed.as_dict(), "pictures": [str(path) for path in pictures], "html": written}
        )
        return
    _show(said)
    show_what_if(replayed)
    out.print(f"Pictures: {', '.join(map(str, pictures))}", soft_wrap=True)
    if html is not None:
        out.print(f"Page: {html}", soft_wrap=True)


def run_report(record: Record) -> dict[str, Any]:
    """Return what `echelon report` says, by the keys of its JSON (docs/record.md says what they mean)."""
    first, last = span(record)
    taken = iterations(record)
    jobs = [
        {
            "job": job,
            "name": record.job_names[job],
            "arrival": arrival,
            "delay": record.departures[job] - arrival if job in record.departures else None,
            "iterations": taken[job],
            "outcome": record.outcomes.get(job),
        }
        for job, arrival in record.arrivals.items()
    ]
    done = [job for job, outcome in record.outcomes.items() if outcome == Outcome.DONE.value]
    rounds = len(record.rounds)
    computing = busy(record)
    workers = [
        {
            "name": name,
            "rows": sum(len(seen.lanes.get(place, ())) for seen in record.rounds) / rounds,
            "results": sum(message[0] == place for seen in record.rounds for message in seen.messages) / rounds,
            "utilisation": computing[place] / (last - first) if last > first else None,
            "losses": sum(where == place for _, where in record.losses),
            "left_out": sum(place in seen.without for seen in record.rounds),
        }
        for place, name in enumerate(record.names)
    ]
    return {
        "split": record.split,
        "redundancy": record.redundancy,
        "parts_per_row": _parts_per_row(record),
        "span": last - first,
        "rounds": rounds,
        "delay": _summary([record.departures[job] - record.arrivals[job] for job in done]),
        "iteration": _summary([seen.end - seen.start for seen in record.rounds]),
        "messages": {
            "needed": sum(sum(seen.needed) for seen in record.rounds) / rounds,
            "received": sum(len(seen.messages) + seen.came for seen in record.rounds) / rounds,
            "planned": sum(len(lane) for seen in record.rounds for lane in seen.lanes.values()) / rounds,
        },
        "residual": {
            "rounds": sum(seen.residual > 0 for seen in record.rounds),
            "mean": float(np.mean([seen.residual for seen in record.rounds])),
            "most": max(seen.residual for seen in record.rounds),
        },
        "workers": workers,
        "jobs": jobs,
    }


def write_page(run: Path, replayed: WhatIf, path: Path) -> None:
    """Write the page of a run as one file."""
    from echelon.page.followed import whole_record
    from echelon.page.one_file import html

    with whole(path) as beside:
        beside.write_text(html(whole_record(run, replayed.as_dict()), title=run.name), encoding="utf-8")


def _parts_per_row(record: Record) -> float | None:
    costs = [cost for seen in record.rounds for lane in seen.lanes.values() for cost in lane]
    return float(np.mean(costs)) if costs else None


def _summary(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"mean": None, "p50": None, "p95": None}
    p50, p95 = np.percentile(values, [50, 95]).tolist()
    return {"mean": float(np.mean(values)), "p50": p50, "p95": p95}


def _show(said: dict[str, Any]) -> None:
    jobs = said["jobs"]
    print_table(
        f"{len(jobs)} jobs, {said['rounds']} rounds in {show(said['span'])} s; split {said['split']}",
        ["job", "arrival (s)", "delay (s)", "iterations", "outcome"],
        [
            [job["name"], show(job["arrival"]), show(job["delay"]), str(job["iterations"]), job["outcome"] or "open"]
            for job in jobs[:_JOBS_SHOWN]
        ],
    )
    if len(jobs) > _JOBS_SHOWN:
        out.print(f"… and {len(jobs) - _JOBS_SHOWN} more jobs; --json lists them all.")
    print_table(
        "Seconds",
        ["", "mean", "median", "95 %"],
        [
            [label, *(show(said[key][column], 4) for column in ("mean", "p50", "p95"))]
            for label, key in (("delay of a job that was done", "delay"), ("iteration", "iteration"))
        ],
    )
    print_table(
        "Workers",
        ["worker", "rows per round", "results per round", "computing", "losses"],
        [
            [
                worker["name"],
                show(worker["rows"], 2),
                show(worker["results"], 2),
                "–" if worker["utilisation"] is None else f"{worker['utilisation']:.1%}",
                str(worker["losses"]),
            ]
            for worker in said["workers"]
        ],
    )
    messages = said["messages"]
    out.print(
        f"Messages per round: {show(messages['needed'], 2)} needed, {show(messages['received'], 2)} received before it "
        f"ended, {show(messages['planned'], 2)} planned."
    )
    residual = said["residual"]
    if residual["rounds"]:
        out.print(
            f"{residual['rounds']} of {said['rounds']} rounds ended before they were exact: the residual of a round is "
            f"{show(residual['mean'])} in the mean, {show(residual['most'])} at most.",
            soft_wrap=True,
        )
        left = ", ".join(f"{one['name']} in {one['left_out']}" for one in said["workers"] if one["left_out"])
        out.print(f"Rounds that ended without rows of a worker: {left or 'none'}.", soft_wrap=True)
    if (said["parts_per_row"] or 0.0) > DEAR:
        out.print(f"A row costs {show(said['parts_per_row'], 1)} parts: without redundancy it would cost one.")


def _draw(record: Record, said: dict[str, Any], folder: Path) -> list[Path]:
    """Draw the pictures and return where they are."""
    from echelon import plots

    folder.mkdir(parents=True, exist_ok=True)
    seen = record_timeline(record)
    shown = len(set(zip(seen.job.tolist(), seen.iteration.tolist(), strict=True)))
    rounds = f"{shown} rounds" if shown == said["rounds"] else f"the first {shown} of {said['rounds']} rounds"
    paths = [folder / "timeline.png"]
    plots.save(plots.timelines({rounds: seen}, record.names, width=10.0), paths[0])
    ended = [job for job in said["jobs"] if job["delay"] is not None]
    those = {outcome.value: [job for job in ended if job["outcome"] == outcome.value] for outcome in Outcome}
    points = {name: ([job["job"] + 1 for job in some], [job["delay"] for job in some]) for name, some in those.items()}
    if ended:
        paths.append(folder / "delays.png")
        plots.save(plots.delays(points, said["delay"]["mean"]), paths[1])
    return paths
