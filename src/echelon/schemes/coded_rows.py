"""Lanes of consecutive rows of one code, at their true cost: what the live runtime plans with."""

from collections.abc import Sequence
from itertools import accumulate

from echelon import checks
from echelon.arrays import IntArray
from echelon.codes import Code
from echelon.errors import ArgumentError
from echelon.plan import Plan, Slot, Task

LEAST = 0.01  # parts: a row whose parts are all there must still be combined and sent


def coded_rows(code: Code, counts: Sequence[int] | IntArray) -> Plan:
    """Return the plan in which worker p computes the next counts[p] rows of a code.

    A row that follows its neighbour costs only the parts that the neighbour did not need: kappa consecutive rows of a
    cyclic code with d parts a row cost kappa + d - 1 parts.

    >>> from echelon.codes import cyclic
    >>> import numpy as np
    >>> code = cyclic(rows=5, load=3, rng=np.random.default_rng(1))
    >>> [[task.cost for task in lane] for lane in coded_rows(code, [3, 2]).lanes]
    [[3.0, 1.0, 1.0], [3.0, 1.0]]
    """
    sizes = [checks.whole(f"counts[{p}]", count, least=0) for p, count in enumerate(counts)]
    if sum(sizes) != code.rows:
        raise ArgumentError(f"counts: they sum to {sum(sizes)}; must be {code.rows}, the rows of the code")
    lanes = [
        [
            Task(slot=0, row=row, cost=max(LEAST, float(code.cost(row, row - 1 if row > end - size else None))))
            for row in range(end - size, end)
        ]
        for size, end in zip(sizes, accumulate(sizes), strict=True)
    ]
    return Plan([Slot(rows=code.rows, threshold=code.threshold)], lanes)
