"""Arguments and options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

from echelon import checks
from echelon.delays import DELAYS
from echelon.files import read_profile
from echelon.profile import Profile
from echelon.schemes import RULES

File = Annotated[Path, typer.Argument(help="Profile of the job and the workers, in TOML.", show_default=False)]
Rule = Annotated[
    str,
    typer.Option(
        "--split",
        metavar="|".join(RULES),
        help="Rule that says how many rows each worker gets; best searches, and needs laws with closed sums.",
    ),
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
        help="Law of all task times instead of the profile's, fitted to each mean (and std, where it can): "
        f"{', '.join(DELAYS)}.",
        show_default=False,
    ),
]


def profile_with(file: Path, delay: str | None) -> Profile:
    """Return the profile in a file, with another law of task times where one is asked for."""
    profile = read_profile(file)
    return profile if delay is None else profile.with_law(checks.one_of("delay", delay, DELAYS))
