"""One slot, any K of n rows: the scheme of the stream paper, with unequal lanes."""

from collections.abc import Sequence
from itertools import accumulate

from echelon import checks
from echelon.arrays import IntArray
from echelon.errors import ArgumentError
from echelon.plan import Plan, Slot, Task

MOST_ROWS = 200_000  # a plan holds every task, and is predicted in seconds; a larger round is a mistake


def any_k(counts: Sequence[int] | IntArray, critical: int) -> Plan:
    """Return the plan in which worker p computes counts[p] rows and any `critical` of all rows end the round.

    It suits every code whose rows are worth the same (MDS codes, gradient codes) at a cost of one per task.

    >>> plan = any_k([2, 0, 1], critical=2)
    >>> plan.tasks, plan.slots[0].threshold
    (3, 2)
    """
    listed = checks.items("counts", counts)
    sizes = [checks.whole(f"counts[{p}]", count, least=0) for p, count in enumerate(listed)]
    rows = sum(sizes)
    checks.whole("critical", critical, least=1)
    if not critical <= rows <= MOST_ROWS:
        raise ArgumentError(f"counts: they sum to {rows}; must reach critical, {critical}, and be at most {MOST_ROWS}")
    ends = accumulate(sizes)
    lanes = [[Task(slot=0, row=row) for row in range(end - size, end)] for size, end in zip(sizes, ends, strict=True)]
    return Plan([Slot(rows=rows, threshold=critical)], lanes)
