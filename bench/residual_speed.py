"""What it takes to follow how near the rows come, and to have the weights that come nearest, row by row."""

import numpy as np

from bench.results import markdown_table
from bench.timing import best_of
from echelon.codes import Code, balanced, graph, residual, residual_tracker

PARTS = (125, 250, 500, 1000, 2000)  # vertices of graphs
COPIES = 8
BALANCED = (32, 64, 128)  # parts of balanced placements on twice as many rows
REPEATS = 5
SHARE = 0.7  # of all rows that come


def _followed(code: Code, rows: list[int]) -> None:
    watch = residual_tracker(code)
    for row in rows:
        watch.add(row)
    assert watch.residual >= 0


def _least_squares(code: Code, rows: list[int]) -> None:
    np.linalg.lstsq(code.matrix[rows].T, code.target[0], rcond=None)


def _line(name: str, code: Code) -> list[str]:
    rng = np.random.default_rng(1)
    rows = rng.choice(code.rows, round(SHARE * code.rows), replace=False).tolist()
    watch = residual_tracker(code)
    for row in rows:
        watch.add(row)
    took = best_of({"residual": lambda: _followed(code, rows), "weights": watch.nearest}, REPEATS)
    took |= best_of({"anew": lambda: _least_squares(code, rows)}, 1)
    assert abs(watch.residual - residual(code, rows).residual) < 1e-6
    each = 1e6 / len(rows)
    per_row = [f"{took[what] * each:.2f} µs" for what in ("residual", "weights")]
    return [name, str(len(rows)), *per_row, f"{took['anew'] / took['weights']:.0f}"]


def report() -> str:
    rng = np.random.default_rng(1)
    lines = [
        _line(f"graph, {COPIES} copies of {parts} parts", graph(parts=parts, load=COPIES, rng=rng)) for parts in PARTS
    ]
    for parts in BALANCED:
        code = balanced(rows=2 * parts, parts=parts, load=COPIES, rng=rng)
        lines.append(_line(f"balanced, {COPIES} copies of {parts} parts", code))
    columns = ["code", "rows that came", "residual, per row", "weights, per row", "least squares anew / weights"]
    return (
        f"{SHARE:.0%} of the rows come, in random order. Rows of graphs are joined to components; of other codes a "
        "factorisation is updated, which takes longer the more independent rows there are.\n\n"
        + markdown_table(columns, lines)
    )


if __name__ == "__main__":
    print(report())
