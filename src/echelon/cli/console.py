"""What the commands share: tables, JSON, progress on a terminal, one-line errors."""

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

# a pipe has no width of its own; 80 columns would fold tables that a file can hold
# no markup, and no emoji codes: names of jobs, workers and files may have brackets and colons
out = Console(width=None if sys.stdout.isatty() else 140, markup=False, emoji=False)
err = Console(stderr=True, markup=False, emoji=False)


def plain(value: Any) -> Any:
    """Return a value that JSON can hold: arrays as lists, infinite and undefined numbers as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> None:
    """Print a table whose first column is text and whose others are numbers, or texts as well."""
    table = Table(title=Text(title), title_justify="left", title_style="bold", header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i and numbers else "left")
    for row in rows:
        table.add_row(*row)
    out.print(table)


def show(value: float | None, digits: int = 3) -> str:
    """Return a number for people; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.{digits}f}"


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a callback (done, all) that moves a bar on a terminal, or None without a terminal."""
    if not err.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
