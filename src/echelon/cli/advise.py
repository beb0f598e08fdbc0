"""`echelon advise`: which strategy wins on these workers, by how much, and why."""

from pathlib import Path
from typing import Annotated

import typer

from echelon import plots
from echelon.cli.console import out, print_json, print_table, show
from echelon.cli.options import AsJson
from echelon.endings import WAITING
from echelon.files import read_profile
from echelon.profile import Profile
from echelon.search import STRATEGIES, WORKS, Advice, checks_cost
from echelon.search import advise as find
from echelon.seeds import generators
from echelon.stream import read_record
from echelon.stream.traced import traced


def advise(
    file: Annotated[Path, typer.Argument(help="Profile in TOML, or the record of a run.", show_default=False)],
    work: Annotated[
        str,
        typer.Option(
            metavar="|".join(WORKS),
            help="What an iteration is: a sum over parts (gradient), a matrix times a vector (linear), or one of a "
            "chain of matrix products (product).",
        ),
    ] = "gradient",
    bytes_per_message: Annotated[
        float,
        typer.Option(
            help="Size of a result: sent over the profile's bandwidth, added up when rows are made and decoded."
        ),
    ] = 0.0,
    bytes_of_state: Annotated[
        float, typer.Option(help="Size of what every worker is sent at the beginning of a round.")
    ] = 0.0,
    bytes_per_part: Annotated[
        float, typer.Option(help="Size of the data of a part: tells how long it takes until all data is in place.")
    ] = 0.0,
    delay_rounds: Annotated[int, typer.Option(help="Rounds that a product may take after its first.")] = 3,
    waiting: Annotated[
        str,
        typer.Option(
            metavar="|".join(WAITING),
            help="When a round of products ends: with the due product, or with the fastest worker (the paper's rule).",
        ),
    ] = "due",
    models: Annotated[
        int, typer.Option(help="Models that are trained in turn: from two on, chains of gradients are tried, too.")
    ] = 1,
    top: Annotated[int, typer.Option(help="Strategies to list.", min=1)] = 12,
    picture: Annotated[Path | None, typer.Option(help="PNG to draw the strategies into.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 1,
    json: AsJson = False,
) -> None:
    """Predict every strategy on these workers, at true cost, and say which to take."""
    profile = _profile(file, seed)
    advice = find(
        profile,
        work=work,
        bytes_per_message=bytes_per_message,
        bytes_of_state=bytes_of_state,
        bytes_per_part=bytes_per_part,
        delay_rounds=delay_rounds,
        waiting=waiting,
        models=models,
        seed=seed,
    )
    checked = checks_cost(profile, work, seed=seed) if work in STRATEGIES and profile.workload.critical > 1 else None
    if picture is not None:
        _draw(advice, picture, top)
    if json:
        print_json(
            {
                "work": work,
                "best": advice.best.name,
                "why": advice.why,
                "coding_pays": advice.coding_pays,
                **({"refused": dict(advice.refused)} if advice.refused else {}),
                "checked": None if checked is None else {"vote": checked.vote, "spare": checked.spare},
                "strategies": [
                    {
                        "name": outcome.name,
                        "family": outcome.strategy.family,
                        "iteration": outcome.iteration,
                        "interval": outcome.interval,
                        "method": outcome.method,
                        "delay": outcome.delay,
                        "gain": outcome.gain,
                        "overlap": outcome.strategy.overlap,
                        "plane": outcome.plane,
                        **({"loading": outcome.loading} if bytes_per_part else {}),
                    }
                    for outcome in advice.ranked
                ],
            }
        )
        return
    print_table(
        f"The best of {len(advice.ranked)} strategies for {len(profile.workers)} workers; ± holds in 99 of 100 cases; "
        "saved: of an iteration in equal shares",
        ["strategy", "iteration (s)", "±", "saved", "delay (s)", *(["loading (s)"] if bytes_per_part else [])],
        [
            [
                outcome.name,
                show(outcome.iteration, 4),
                "exact" if outcome.method == "exact" else f"{outcome.error:.1g}",
                f"{outcome.gain:.1%}",
                show(outcome.delay),
                *([show(outcome.loading)] if bytes_per_part else []),
            ]
            for outcome in advice.ranked[:top]
        ],
    )
    if checked is not None:
        out.print(str(checked), soft_wrap=True)
    out.print(advice.why, soft_wrap=True)
    if bytes_per_message and work == "gradient":
        out.print("The responders add." if advice.best.plane == "responders" else "The master adds.")
    if advice.refused:
        reasons = dict.fromkeys(reason for _, reason in advice.refused)
        out.print(f"{len(advice.refused)} strategies were not tried: {'; '.join(reasons)}.", soft_wrap=True)


def _profile(file: Path, seed: int) -> Profile:
    """Return a profile, or what a record of a run says of the workers."""
    with file.open("rb") as opened:
        recorded = opened.read(1) == b"{"
    return traced(read_record(file), generators(seed)[1]).profile if recorded else read_profile(file)


def _draw(advice: Advice, picture: Path, top: int) -> None:
    listed = advice.ranked[:top]
    drawn, (axis,) = plots.figure(height=0.6 + 0.3 * len(listed))
    colours = {"uncoded": "tab:grey", "pull": "tab:blue", "copies": "tab:cyan", "coded": "tab:orange"}
    for place, outcome in enumerate(reversed(listed)):
        axis.barh(
            place, outcome.iteration, xerr=outcome.error, color=colours[outcome.strategy.family], height=0.7, capsize=2
        )
    axis.set_yticks(range(len(listed)), [outcome.name for outcome in reversed(listed)])
    axis.set_xlabel("mean time of an iteration (s), with its 99 % interval")
    axis.set_title(advice.why, loc="left", fontsize=8, wrap=True)
    plots.save(drawn, picture)
