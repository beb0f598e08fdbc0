"""`echelon journal`: what a journal holds, and what to do with a job that can't go on."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from echelon.cli.console import err, out, print_json, print_table
from echelon.cli.options import AsJson
from echelon.errors import ArgumentError, JournalError
from echelon.files import whole
from echelon.stream import Journal

_LONGEST = 60  # characters of a reason in the table

File = Annotated[Path, typer.Argument(metavar="FILE", help="The journal of a stream.", show_default=False)]


def journal(
    file: File,
    drop: Annotated[int | None, typer.Option(metavar="N", help="Forget job N, its state and its key.")] = None,
    retry: Annotated[
        int | None, typer.Option(metavar="N", help="Let job N, which failed or was set aside, go on in the next run.")
    ] = None,
    export: Annotated[
        tuple[int, Path] | None,
        typer.Option(metavar="N OUT", help="Write the last state of job N to OUT, as a pickle."),
    ] = None,
    json: AsJson = False,
) -> None:
    """List the jobs of a journal; drop one, let it go on, or export its state.

    Nothing is unpickled. A journal that a program holds is listed as it is just now, and can't be changed.
    """
    if sum(asked is not None for asked in (drop, retry, export)) > 1:
        raise ArgumentError("drop, retry, export: not allowed together; must be one at a time")
    if not file.is_file():
        raise ArgumentError(f"file: {str(file)!r} is not allowed; must be the journal of a stream, and be there")
    with closing(_opened(file, look=drop is None and retry is None)) as held:
        if drop is not None:
            name = held.entry(drop).name
            held.dropped(drop, "dropped by hand")
            out.print(f"Job {drop} ({name}) is forgotten.", markup=False)
        elif retry is not None:
            held.retry(retry)
            out.print(f"Job {retry} ({held.entry(retry).name}) goes on when the journal is opened again.", markup=False)
        elif export is not None:
            _export(held, *export)
        else:
            _show(held, file, as_json=json)


def _opened(file: Path, *, look: bool) -> Journal:
    """Return the journal; to look at it, also while another program holds it."""
    try:
        return Journal(file, timeout_s=0.0)
    except ArgumentError:
        if not look:
            raise
        return Journal(file, look=True)


def _export(held: Journal, number: int, to: Path) -> None:
    entry = held.entry(number)
    blob = held.pickled(number, "state")
    if blob is None:
        raise JournalError(f"job {number} ({entry.name}) has no state yet, or is dropped: there is nothing to export")
    with whole(to) as beside:
        beside.write_bytes(blob)
    out.print(f"{to}: the state of job {number} ({entry.name}) after {entry.iteration} iterations.", markup=False)


def _show(held: Journal, file: Path, *, as_json: bool) -> None:
    entries = held.entries()
    if as_json:
        keys = ("number", "key", "name", "status", "iteration", "nbytes", "reason")
        print_json({"jobs": [{key: getattr(entry, key) for key in keys} for entry in entries]})
        return
    rows = [
        [
            str(entry.number),
            entry.name,
            entry.key or "–",
            entry.status,
            str(entry.iteration),
            f"{entry.nbytes:,}",
            _short(entry.reason),
        ]
        for entry in entries
    ]
    print_table(
        f"Jobs of {file}", ["number", "job", "key", "status", "iteration", "bytes", "reason"], rows, numbers=False
    )
    if any(entry.status == "set aside" for entry in entries):
        err.print(
            "Jobs that are set aside wait: --retry N lets one go on, --export N OUT writes its state, --drop N "
            "forgets it.", markup=False,
        )  # fmt: skip


def _short(reason: str) -> str:
    """Return the last line of a reason, where tracebacks say what happened, in a length for a table."""
    last = (reason.strip().splitlines() or [""])[-1]
    return last if len(last) <= _LONGEST else f"{last[: _LONGEST - 1]}…"
