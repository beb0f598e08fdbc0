"""Arguments and options that several commands take; what they stand for is in `choices`."""

from pathlib import Path
from typing import Annotated

import typer

from echelon.clusters import CLUSTERS
from echelon.search.splits import RULES

SPEC = "NAME:KEY=VALUE,…"

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
    typer.Option("--tasks", help="Rows handed out per iteration; K*Omega by default.", show_default=False),
]
NoPurge = Annotated[bool, typer.Option("--no-purge", help="Wait for every row instead of purging the rest.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Law = Annotated[
    str | None,
    typer.Option(
        "--law",
        metavar=SPEC,
        help="Law of all task times instead of the profile's, fitted to each mean (and std, where it can), such as "
        "straggler:probability=0.2; 'echelon schemes' lists them.",
        show_default=False,
    ),
]
Scheme = Annotated[
    str | None,
    typer.Option(
        "--scheme",
        metavar=SPEC,
        help="Plan of an iteration instead of any K of the rows, such as multi_message:load=4,clusters=3,order=2; the "
        "profile tells it workers, parts, critical and counts. 'echelon schemes' lists all.",
        show_default=False,
    ),
]
OwnCode = Annotated[
    str | None,
    typer.Option(
        "--code",
        metavar=SPEC,
        help="Code whose rows are handed out, by the split or as the scheme says, such as cyclic:load=6; 'echelon "
        "schemes' lists them.",
        show_default=False,
    ),
]
PageAt = Annotated[
    str | None,
    typer.Option(
        "--page",
        metavar="[[ADDRESS:]PORT]",
        help="Show it as a page in a browser, at any free port of this machine unless one is given. The address that "
        "is printed has a token, without which nothing is shown.",
        show_default=False,
    ),
]
ClusterSpec = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="|".join(CLUSTERS),
        help="Where the workers are; what its class takes may follow, as in ray:address=HOST:PORT.",
    ),
]
