"""`echelon tune`: which number of critical tasks and which redundancy."""

from typing import Annotated, Any

import typer

from echelon import checks
from echelon.cli.console import print_json, print_table, progress, show
from echelon.cli.options import AsJson, File, NoPurge, Rule
from echelon.files import read_profile
from echelon.tune import COSTS, Trial, algorithm1, best_code, code_grid, default_grid


def tune(
    file: File,
    split: Rule = "theorem2",
    cost: Annotated[
        str,
        typer.Option(
            metavar="|".join(COSTS), help="Work of a row: fixed, 1/K of an iteration; gradient, d/n of the data."
        ),
    ] = "fixed",
    critical: Annotated[
        list[int] | None, typer.Option(help="A K to try; may be repeated. Around the profile's own where left out.")
    ] = None,
    redundancy: Annotated[
        list[float] | None, typer.Option(help="An Omega to try; may be repeated. 1 to 1.6 where left out.")
    ] = None,
    top: Annotated[int, typer.Option(help="Codes to list.", min=1)] = 10,
    no_purge: NoPurge = False,
    json: AsJson = False,
) -> None:
    """Search the code parameters K and Omega on the predicted delay; Algorithm 1 of the paper stands beside it."""
    profile = read_profile(file)
    model = COSTS[checks.one_of("cost", cost, COSTS)]
    grid = default_grid(profile)
    if critical or redundancy:
        grid = code_grid(
            critical or sorted({code.critical for code in grid}),
            redundancy or sorted({code.redundancy for code in grid if code.critical == profile.job.critical}),
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
        f"{len(found)} codes by mean delay ({', '.join(sorted(methods))}); the work of a row is {cost}",
        ["", "K", "Omega", "rows", "active", "iteration (s)", "delay (s)", "mismatch (10)"],
        [_cells(label, trial) for label, trial in [*rows, ("Algorithm 1", chosen)]],
    )


def _row(trial: Trial) -> dict[str, Any]:
    assert trial.prediction is not None
    return {
        "critical": trial.code.critical,
        "redundancy": trial.code.redundancy,
        "tasks": trial.code.tasks,
        "operations": trial.profile.job.operations,
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
