"""Arguments and options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

from echelon.delays import DELAYS
from echelon.schemes import RULES

File = Annotated[Path, typer.Argument(help="Profile of the job and the workers, in TOML.", show_default=False)]
Rule = Annotated[
    str, typer.Option("--split", metavar="|".join(RULES), help="Rule that says how many rows each worker gets.")
]
Tasks = Annotated[
    int | None,
    typer.Option("--tasks", help="Rows handed out an iteration; K*Omega where left out.", show_default=False),
]
NoPurge = Annotated[bool, typer.Option("--no-purge", help="Wait for every row instead of purging the rest.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Law = Annotated[
    str | None,
    typer.Option(
        "--delay",
        metavar="LAW",
        help=f"Law of all task times, fitted to each mean (and std, where the family can): {', '.join(DELAYS)}.",
        show_default=False,
    ),
]
