"""`echelon block`: how much redundancy for how many coordinates of a gradient."""

import tomllib
from collections.abc import Sequence
from dataclasses import fields
from json import loads as parse_json
from pathlib import Path
from typing import Annotated, Any

import typer

from echelon import checks
from echelon.blocks import METHODS, LayerCosts, LayerLevels, Partition, baselines, is_continuous, optimise_layers
from echelon.cli.console import out, print_json, print_table, progress, show
from echelon.cli.options import AsJson
from echelon.delays import Delay, ShiftedExponential, task_laws
from echelon.errors import ArgumentError
from echelon.files import read_profile

_FOR_ALL_LAWS = ("subgradient", "lp")  # methods that take any workers


def block(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="Profile whose workers' task times are cycle times; or give --workers.", show_default=False
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Number of workers, all alike.", show_default=False)] = None,
    rate: Annotated[float, typer.Option(help="Rate of the cycle times, shift + Exp(rate).")] = 1e-3,
    shift: Annotated[float, typer.Option(help="Shift of the cycle times.")] = 50.0,
    coordinates: Annotated[int, typer.Option(help="Number of coordinates of the gradient, L.")] = 20_000,
    work: Annotated[
        float, typer.Option(help="Cycles for one coordinate over all samples, M b; a worker's subset takes 1/N of it.")
    ] = 50.0,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(METHODS),
            help="How to find the partition: exact (certified), subgradient or lp (from draws, any workers), t or f "
            "(the paper's closed forms). exact where all workers are alike and their law has a continuous distribution "
            "function, else lp.",
            show_default=False,
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Share of the time that the exact method may leave to gain; 1e-5 by default.", show_default=False
        ),
    ] = None,
    layers: Annotated[
        Path | None,
        typer.Option(
            help="File with what the layers of a network cost, in the order of back-propagation: forward, deltas and "
            "weights, TOML or JSON. Finds their levels; the whole gradient of a chunk takes as long as that of all "
            "coordinates.",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Partition the coordinates of a gradient into blocks of rising redundancy, and say what that gains."""
    law, count = _law(file, workers, rate, shift)
    unit = checks.number("work", work, above=0) / count
    if layers is not None:
        for name, value in (("method", method), ("tolerance", tolerance)):
            if value is not None:
                raise ArgumentError(
                    f"{name}: {value!r} is not allowed with --layers; their levels are found by a search"
                )
        whole = unit * checks.whole("coordinates", coordinates, least=1)
        _tell_layers(optimise_layers(count, read_layer_costs(layers), law, whole), json)
        return
    alike = isinstance(law, Delay)
    known = isinstance(law, Delay) and is_continuous(law)
    chosen = checks.one_of("method", method or ("exact" if known else "lp"), METHODS)
    if not alike and chosen not in _FOR_ALL_LAWS:
        raise ArgumentError(f"method: {chosen!r} needs workers that are all alike; use {' or '.join(_FOR_ALL_LAWS)}")
    if tolerance is not None and chosen != "exact":
        raise ArgumentError(f"tolerance: {tolerance!r} is not allowed with the method {chosen}; only exact uses one")
    options: dict[str, Any] = {} if tolerance is None else {"tolerance": tolerance}
    with progress("searching partitions") as tick:
        if chosen == "lp":
            options["progress"] = tick
        found = METHODS[chosen](count, coordinates, law, unit, **options)
    others = baselines(count, coordinates, law, unit) if isinstance(law, Delay) else {}
    if json:
        print_json(
            {
                "x": found.counts,
                "expected": found.expected,
                "certificate": found.certificate,
                "baselines": {name: partition.expected for name, partition in others.items()},
                "method": found.method,
                "gap": found.gap,
                "converged": found.converged,
            }
        )
        return
    _show(found, others)


def _law(
    file: Path | None, workers: int | None, rate: float, shift: float
) -> tuple[Delay | Sequence[Delay], int]:  # fmt: skip
    """Return one law for all workers, or one per worker, and how many there are."""
    if (file is None) == (workers is None):
        raise ArgumentError("FILE, --workers: one of them must be given, not both")
    if file is None:
        return ShiftedExponential(shift=shift, rate=rate), checks.whole("workers", workers, least=1)
    laws = task_laws(read_profile(file))
    return (laws[0] if all(law == laws[0] for law in laws) else laws), len(laws)


def read_layer_costs(path: Path) -> LayerCosts:
    """Return the costs in a TOML or JSON file with the keys forward, deltas and weights, and no other."""
    try:
        text = path.read_text(encoding="utf-8")
        costs = parse_json(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ArgumentError(f"{path}: can't be read: {error.strerror}") from None
    except ValueError as error:  # not UTF-8, not TOML or not JSON
        raise ArgumentError(f"{path}: {error}") from None
    keys = [field.name for field in fields(LayerCosts)]
    if not isinstance(costs, dict) or sorted(costs) != sorted(keys):
        raise ArgumentError(f"{path}: must have the keys {', '.join(keys)}, and no other")
    try:
        return LayerCosts(**costs)
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from None


def _tell_layers(found: LayerLevels, json: bool) -> None:
    if json:
        keys = ("levels", "expected", "single", "uncoded", "one_block", "why")
        print_json({key: getattr(found, key) for key in keys})
        return
    rows = [[str(layer), str(level)] for layer, level in enumerate(found.levels)]
    print_table("Levels of layers", ["layer, the last of the network first", "stragglers tolerated"], rows)
    times = {"these levels": found.expected, "single": found.single, "uncoded": found.uncoded}
    rows = [
        [name, f"{time:,.6g}", "" if time is found.expected else f"{show(100 * (1 - found.expected / time), 1)} %"]
        for name, time in times.items()
    ]
    print_table("Expected time of a gradient", ["scheme", "time", "gain of the levels"], rows)
    out.print(found.why[0].upper() + found.why[1:] + ".")
    if not found.exhaustive:
        out.print("There are too many choices of levels to try all: found by climbs from several starts.")


def _show(found: Partition, others: dict[str, Partition]) -> None:
    rows = [[str(n), f"{int(size):,}"] for n, size in enumerate(found.counts) if size]
    print_table(f"Partition ({found.method})", ["stragglers tolerated", "coordinates"], rows)
    rows = [["this partition", f"{found.expected:,.6g}", ""]]
    for name, other in others.items():
        gain = 100 * (1 - found.expected / other.expected)
        rows.append([name, f"{other.expected:,.6g}", f"{show(gain, 1)} %"])
    print_table("Expected time of a gradient", ["scheme", "time", "gain of the partition"], rows)
    if found.certificate is not None:
        out.print(f"No partition is quicker by more than {100 * found.certificate:.2g} %.")
    else:
        out.print(f"Sampled; standard error {found.error:.3g}. How far it is from the best is not known.")
    if not found.converged:
        assert found.gap is not None
        out.print(
            f"The search stopped early: on its draws another partition may be quicker by {100 * found.gap:.2g} %."
        )
