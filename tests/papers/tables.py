"""What the tests of papers share: tables as they were written, claims, and harmonic numbers."""

import csv

from echelon.papers import PAPERS
from echelon.papers.claims import BEYOND, NOT_ENOUGH_DATA, NOT_REPRODUCED, REPRODUCED, table


def rows_of(folder, name):
    """Return the rows of a table, by column."""
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def check_files(paper, outcome, files):
    """Check that a reproduction, as folder, claims and progress, wrote just these files, and told its end."""
    folder, _, told = outcome
    assert sorted(path.name for path in folder.iterdir()) == sorted(files)
    assert all(path.stat().st_size > 50 for path in folder.iterdir())
    assert told[-1][0] == told[-1][1]
    assert PAPERS[paper].__module__ == f"echelon.papers.{paper}"


def check_claims(outcome, *, least):
    """Check that so many claims at least have a verdict and a reason each, and stand in the table."""
    folder, claims, _ = outcome
    assert len(claims) >= least
    for claim in claims:
        assert claim.verdict in {REPRODUCED, NOT_REPRODUCED, NOT_ENOUGH_DATA, BEYOND}
        assert claim.why
        assert claim.ours
    assert table(claims).row_count == len(rows_of(folder, "claims")) == len(claims)


def harmonic(n):
    return sum(1 / i for i in range(1, n + 1))
