"""Claims of a paper beside what came out here, with a verdict and the reason for it."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from echelon.files import whole
from echelon.simulation import Interval

if TYPE_CHECKING:
    from rich.table import Table

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
NOT_ENOUGH_DATA = "not enough data published"
BEYOND = "not in the paper"


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: where it stands, what was published, what came out here, and the verdict with its reason."""

    where: str
    claim: str
    published: str
    ours: str
    verdict: str
    why: str


def verdict(holds: bool) -> str:
    """Return the verdict of a check that could be made."""
    return REPRODUCED if holds else NOT_REPRODUCED


def table(claims: Sequence[Claim]) -> "Table":
    """Return the claims as a table for a terminal."""
    from rich.table import Table

    shown = Table(show_lines=True, header_style="bold")
    for name, ratio in (("claim", 4), ("published", 2), ("ours", 3), ("verdict", 2), ("why", 4)):
        shown.add_column(name, overflow="fold", ratio=ratio)
    for claim in claims:
        shown.add_row(f"{claim.where}: {claim.claim}", claim.published, claim.ours, claim.verdict, claim.why)
    return shown


def told(value: Interval, digits: int = 2) -> str:
    """Return a mean with its interval, for a claim."""
    return f"{value.mean:.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]"


def run_steps(
    folder: Path,
    seed: int,
    steps: Sequence[Callable[[Path, int], list[Claim]]],
    progress: Callable[[int, int], None] | None,
) -> list[Claim]:
    """Return the claims of all steps of a reproduction, in order, and write them down."""
    claims: list[Claim] = []
    for i, step in enumerate(steps):
        claims += step(folder, seed)
        if progress is not None:
            progress(i + 1, len(steps))
    write_claims(folder / "claims.csv", claims)
    return claims


def write_claims(path: Path, claims: Sequence[Claim]) -> None:
    """Write the claims as CSV, one column per field."""
    write_csv(path, [field.name for field in fields(Claim)], [astuple(claim) for claim in claims])


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write rows under a header."""
    with whole(path) as beside, beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
