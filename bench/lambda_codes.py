"""Codes on recorded workers: thirty rounds of a CNN on 256 Lambda workers, as they would have gone with each code.

Every number comes from the evaluators of `echelon`: rounds drawn under the law `recorded`, and the master in virtual
time. A round of a code takes what was recorded without data, and 1.127 s times the share of the data that a worker has.
"""

from functools import cache

import numpy as np

from bench.results import markdown_table
from echelon.codes import balanced
from echelon.papers.trace_codes import Placed, Recording
from echelon.papers.traces import recorded

VIRTUAL = ("uncoded", "fractional repetition, 8 copies, groups apart", "graph, 8 copies")


@cache
def recording() -> Recording:
    return Recording(recorded("cnn"))


@cache
def tried() -> dict[str, Placed]:
    """Return every code by its name."""
    known = recording()
    spare = known.best_cyclic().s

    def even(copies: int) -> Placed:
        return known.placed(balanced(rows=known.workers, parts=64, load=copies, rng=np.random.default_rng(1)))

    return {
        "uncoded": known.uncoded(),
        f"cyclic, any {known.workers - spare} rows": known.cyclic(spare),
        "fractional repetition, 4 copies": known.repetition(4, apart=False),
        "fractional repetition, 4 copies, groups apart": known.repetition(4),
        "fractional repetition, 8 copies": known.repetition(8, apart=False),
        "fractional repetition, 8 copies, groups apart": known.repetition(8),
        "graph, 4 copies": known.graph(4),
        "graph, 8 copies": known.graph(8),
        "balanced, 4 copies of 64 parts": even(4),
        "balanced, 8 copies of 64 parts": even(8),
    }


def report() -> str:
    known, rows, first = recording(), [], None
    for name, one in tried().items():
        took = known.seconds(one)
        first = took if first is None else first
        driven = f"{known.in_virtual_time(one):.2f}" if name in VIRTUAL else ""
        promised = f"{one.plan.slots[0].threshold}"
        rows.append([name, f"{one.share:.1%}", promised, f"{took:.2f}", driven, f"{took / first:.3f}"])
    columns = ["code", "data per worker", "rows promised to do", "seconds", "in virtual time", "of uncoded"]
    return (
        f"{known.table.rounds} rounds on {known.workers} workers, as recorded on AWS Lambda (`examples/lambda`): each "
        f"worker takes what it took without data in that round, and {known.slope:.3f} s times its share of the data. A "
        f"round ends with the first rows that give the sum. The median worker's rounds add up to {known.median():.2f} "
        "s.\n\n" + markdown_table(columns, rows)
    )


if __name__ == "__main__":
    print(report())
