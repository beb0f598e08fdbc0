"""One slot, any K of n rows: the scheme of the stream paper, with unequal lanes."""

from collections.abc import Sequence

from echelon.arrays import IntArray
from echelon.plan import Plan, Slot, Task


def any_k(counts: Sequence[int] | IntArray, critical: int) -> Plan:
    """Return the plan in which worker p computes counts[p] rows and any `critical` of all rows end the round.

    It suits every code whose rows are worth the same (MDS codes, gradient codes) at a cost of one a task.

    >>> any_k([2, 0, 1], critical=2).slots
    (Slot(rows=3, threshold=2),)
    """
    lanes: list[list[Task]] = []
    row = 0
    for p, count in enumerate(counts):
        if count < 0 or count != int(count):
            raise ValueError(f"counts[{p}]: {count!r} is not allowed; must be a whole number >= 0")
        lanes.append([Task(0, row + i) for i in range(int(count))])
        row += int(count)
    if row < critical:
        raise ValueError(f"counts: they sum to {row}; must reach critical, {critical}")
    return Plan([Slot(rows=row, threshold=critical)], lanes)
