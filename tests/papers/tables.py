"""What the tests of papers share: tables as they were written, and harmonic numbers."""

import csv


def rows_of(folder, name):
    """Return the rows of a table, by column."""
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def harmonic(n):
    return sum(1 / i for i in range(1, n + 1))
