"""`echelon block`: how much redundancy for how many coordinates of a gradient."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from echelon import checks
from echelon.blocks import METHODS, Partition, baselines
from echelon.cli.console import out, print_json, print_table, show
from echelon.cli.options import AsJson
from echelon.delays import Delay, ShiftedExponential, task_laws
from echelon.errors import ArgumentError
from echelon.files import read_profile

_FOR_ALL_LAWS = ("subgradient", "lp")  # methods that take workers as they are


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
            "(the paper's closed forms). exact where all workers are alike, else lp.",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Partition the coordinates of a gradient into blocks of rising redundancy, and say what that gains."""
    law, count = _law(file, workers, rate, shift)
    alike = isinstance(law, Delay)
    chosen = checks.one_of("method", method or ("exact" if alike else "lp"), METHODS)
    if not alike and chosen not in _FOR_ALL_LAWS:
        raise ArgumentError(f"method: {chosen!r} needs workers that are all alike; use {' or '.join(_FOR_ALL_LAWS)}")
    unit = checks.number("work", work, above=0) / count
    found = METHODS[chosen](count, coordinates, law, unit)
    others = baselines(count, coordinates, law, unit) if isinstance(law, Delay) else {}
    if json:
        print_json(
            {
                "x": found.counts,
                "expected": found.expected,
                "certificate": found.certificate,
                "baselines": {name: partition.expected for name, partition in others.items()},
                "method": found.method,
            }
        )
        return
    _show(found, others)


def _law(
    file: Path | None, workers: int | None, rate: float, shift: float
) -> tuple[Delay | Sequence[Delay], int]:  # fmt: skip
    """Return one law for all workers, or one a worker, and how many they are."""
    if (file is None) == (workers is None):
        raise ArgumentError("FILE, --workers: one of them must be given, and not both")
    if file is None:
        return ShiftedExponential(shift=shift, rate=rate), checks.whole("workers", workers, least=1)
    laws = task_laws(read_profile(file))
    return (laws[0] if all(law == laws[0] for law in laws) else laws), len(laws)


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
