"""`echelon reproduce`: the figures, tables and claims of a paper."""

from pathlib import Path
from typing import Annotated

import typer

from echelon import checks
from echelon.cli.console import err, out, print_json, print_table, progress, show
from echelon.cli.options import AsJson
from echelon.errors import ArgumentError
from echelon.papers import PAPERS


def reproduce(
    paper: Annotated[str, typer.Argument(metavar="|".join(PAPERS), help="Which paper.", show_default=False)],
    folder: Annotated[Path, typer.Option("--out", help="Folder for PNG and CSV files; made if missing.")] = Path(
        "reproduction"
    ),
    table: Annotated[
        Path | None,
        typer.Option(
            help="Of traces: what codes take on this table, one array of rounds x workers per key family@load.",
            show_default=False,
        ),
    ] = None,
    family: Annotated[
        str | None, typer.Option(help="Of a table: which family, if there are several.", show_default=False)
    ] = None,
    slope: Annotated[
        float | None,
        typer.Option(
            help="Of a table: seconds per unit of load; by default of the line through the medians.", show_default=False
        ),
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(
            help="Of a table: the load at which times are taken, to which the line adds; lower ones are left out. By "
            "default 0, or the next where any data at all has a fixed cost.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 1,
    json: AsJson = False,
) -> None:
    """Regenerate a paper's figures and tables, and say of each claim whether it holds."""
    make = PAPERS[checks.one_of("paper", paper, PAPERS)]
    checks.whole("seed", seed, least=0)
    if table is not None:
        if paper != "traces":
            raise ArgumentError(f"table: not allowed for {paper}; it is for traces")
        _on_table(table, family, slope, load, seed, json)
        return
    for name, value in (("family", family), ("slope", slope), ("load", load)):
        if value is not None:
            raise ArgumentError(f"{name}: needs a table, --table FILE.npz")
    folder.mkdir(parents=True, exist_ok=True)
    with progress(f"reproducing {paper}") as tick:
        claims = make(folder, seed=seed, progress=tick)
    if json:
        print_json({"paper": paper, "out": str(folder), "claims": claims})
        return
    from echelon.papers.claims import table as shown

    out.print(shown(claims))
    out.print(f"Figures and tables are in {folder}.")


def _on_table(path: Path, family: str | None, slope: float | None, load: float | None, seed: int, json: bool) -> None:
    """Print what codes take on a table of one's own."""
    from echelon.files import read_times
    from echelon.papers.trace_codes import Recording

    try:
        whole = read_times(path, family)
        if load is None and whole.step:
            load = float(whole.loads[1])
            err.print(
                f"Any data at all costs {whole.step:.3g} s more than none: load 0 is left out, and times are taken "
                f"from load {load:g} on; --load says otherwise.",
                soft_wrap=True,
            )
        table = whole if load is None else whole.above(checks.number("load", load, least=0))
        found = Recording(table, load=0.0 if load is None else load, slope=slope).figures(seed=seed)
    except ArgumentError as error:
        raise ArgumentError(f"{'' if str(path) in str(error) else f'{path}: '}{error}") from None
    if json:
        print_json(found)
        return
    rows = [("uncoded", found.uncoded), (f"cyclic, any but {found.cyclic.s} rows", found.cyclic.seconds)]
    rows += [(f"repetition, {copies} copies", seconds) for copies, seconds in found.repetition.items()]
    rows += [(f"graph, {copies} copies", seconds) for copies, seconds in found.graph.items()]
    rows += [("the median worker, uncoded", found.median)]
    title = f"{found.rounds} recorded rounds, with {found.slope:.4g} s times the share of the data"
    print_table(
        title, ["code", "seconds", "of uncoded"], [[name, show(s), show(s / found.uncoded)] for name, s in rows]
    )
