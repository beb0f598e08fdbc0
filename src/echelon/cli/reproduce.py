"""`echelon reproduce`: the figures, tables and claims of a paper."""

from pathlib import Path
from typing import Annotated

import typer

from echelon import checks
from echelon.cli.console import out, print_json, progress
from echelon.cli.options import AsJson
from echelon.papers import PAPERS


def reproduce(
    paper: Annotated[str, typer.Argument(metavar="|".join(PAPERS), help="Which paper.", show_default=False)],
    folder: Annotated[Path, typer.Option("--out", help="Folder for PNG and CSV files; made if missing.")] = Path(
        "reproduction"
    ),
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 1,
    json: AsJson = False,
) -> None:
    """Regenerate a paper's figures and tables, and say of each claim whether it holds."""
    make = PAPERS[checks.one_of("paper", paper, PAPERS)]
    folder.mkdir(parents=True, exist_ok=True)
    with progress(f"reproducing {paper}") as tick:
        claims = make(folder, seed=seed, progress=tick)
    if json:
        print_json({"paper": paper, "out": str(folder), "claims": claims})
        return
    from echelon.papers.claims import table

    out.print(table(claims))
    out.print(f"Figures and tables are in {folder}.")
