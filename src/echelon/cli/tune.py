"""`echelon tune`: which number of critical tasks and which redundancy."""

from typing import Annotated, Any

import typer

from echelon import checks
from echelon.cli.choices import profile_with
from echelon.cli.console import out, print_json, print_table, progress, show
from echelon.cli.options import AsJson, File, Law, NoPurge, Rule
from echelon.search.codes import COSTS, Trial, algorithm1, best_code, code_grid, default_grid


def tune(
    file: File,
    split: Rule = "theorem2",
    cost: Annotated[
        str,
        typer.Option(
            metavar="|".join(COSTS),
            help="Work of a row: fixed, 1/K of an iteration; gradient, (n - K + 1)/n of it for n rows. The profile's "
            "task times are assumed to be those at its own K and Omega.",
        ),
    ] = "fixed",
    critical: Annotated[
        list[int] | None,
        typer.Option(help="A K to try; may be repeated. A quarter to four times the profile's own by default."),
    ] = None,
    redundancy: Annotated[
        list[float] | None, typer.Option(help="An Omega to try; may be repeated. 1 to 1.6 by default.")
    ] = None,
    top: Annotated[int, typer.Option(help="Codes to list.", min=1)] = 10,
    no_purge: NoPurge = False,
    law: Law = None,
    json: AsJson = False,
) -> None:
    """Search the code parameters K and Omega on the predicted delay, next to Algorithm 1 of the paper."""
    profile = profile_with(file, law)
    model = COSTS[checks.one_of("cost", cost, COSTS)]
    grid = default_grid(profile)
    if critical or redundancy:
        grid = code_grid(
            critical or sorted({code.critical for code in grid}),
            redundancy or sorted({code.redundancy for code in grid if code.critical == profile.workload.critical}),
        )
    with progress("searching codes") as tick:
        found = best_code(profile, grid, cost=model, rule=split, purge=not no_purge, progress=tick)
    printed = algorithm1(profile, grid, cost=model)[0]
    chosen = next(trial for trial in found if trial.code == printed.code)
    if json:
        print_json(
            {
                "best": _row(found[0]),
                "algorithm1": _row(chosen) | {"mismatch": printed.mismatch},
                "codes": [_row(trial) for trial in found],
                "cost": cost,
            }
        )
        return
    methods = {trial.prediction.delay_method for trial in found if trial.prediction is not None}
    rows = [("" if i else "best", trial) for i, trial in enumerate(found[:top])]
    print_table(
        f"Codes tried: {len(found)}, by mean delay ({', '.join(sorted(methods))}); cost model: {cost}",
        ["", "K", "Omega", "rows", "active", "iteration (s)", "delay (s)", "mismatch (10)"],
        [_cells(label, trial) for label, trial in [*rows, ("Algorithm 1", chosen)]],
    )
    for note in _notes(found):
        out.print(note)


def _notes(found: list[Trial]) -> list[str]:
    """Return what a reader of the table should know, too."""
    best, notes = found[0], []
    assert best.prediction is not None
    if not best.prediction.stable:
        notes.append("Unstable throughout: the order is that of the service time. Add workers, or slow the arrivals.")
    criticals = {trial.code.critical for trial in found}
    omegas = {trial.code.redundancy for trial in found if trial.code.critical == best.code.critical}
    for name, value, tried in (("K", best.code.critical, criticals), ("Omega", best.code.redundancy, omegas)):
        if len(tried) > 1 and value == max(tried):
            notes.append(f"The best {name} is the largest tried; a larger one may be better still, by less and less.")
    return notes


def _row(trial: Trial) -> dict[str, Any]:
    assert trial.prediction is not None
    return {
        "critical": trial.code.critical,
        "redundancy": trial.code.redundancy,
        "tasks": trial.code.tasks,
        "operations": trial.profile.workload.operations,
        "split": trial.split.counts,
        "active": trial.split.active,
        "iteration_mean": trial.prediction.iteration_mean,
        "delay": trial.prediction.delay,
        "stable": trial.prediction.stable,
        "mismatch": trial.mismatch,
        "method": trial.prediction.delay_method,
    }


def _cells(label: str, trial: Trial) -> list[str]:
    assert trial.prediction is not None
    code = trial.code
    return [
        label,
        str(code.critical),
        f"{code.redundancy:.3f}",
        str(code.tasks),
        str(trial.split.active),
        show(trial.prediction.iteration_mean, 4),
        show(trial.prediction.delay),
        f"{trial.mismatch:.3g}",
    ]
