"""Lanes of consecutive rows of one code, at their true cost: what the live runtime plans with.

With a cyclic code this is the sliding window of the mmc paper on unequal workers: worker p computes kappa_p
neighbouring rows, the first at d = n - K + 1 parts and each further one at one part more.
"""

from collections.abc import Sequence
from itertools import accumulate

from echelon import checks
from echelon.arrays import IntArray
from echelon.codes import Code
from echelon.errors import ArgumentError
from echelon.schemes.coded_plan import CodedPlan, lane_tasks


def coded_rows(code: Code, counts: Sequence[int] | IntArray) -> CodedPlan:
    """Return the plan in which worker p computes the next counts[p] rows of a code.

    A row that follows its neighbour costs only the parts that the neighbour did not need: kappa consecutive rows of a
    cyclic code with d parts per row cost kappa + d - 1 parts.

    >>> from echelon.codes import cyclic
    >>> import numpy as np
    >>> code = cyclic(rows=5, load=3, rng=np.random.default_rng(1))
    >>> [[task.cost for task in lane] for lane in coded_rows(code, [3, 2]).lanes]
    [[3.0, 1.0, 1.0], [3.0, 1.0]]
    """
    checks.instance("code", code, Code)
    listed = checks.items("counts", counts)
    sizes = [checks.whole(f"counts[{p}]", count, least=0) for p, count in enumerate(listed)]
    if sum(sizes) != code.rows:
        raise ArgumentError(f"counts: they sum to {sum(sizes)}; must be {code.rows}, the rows of the code")
    chunks = [range(code.parts)]
    lanes = [
        lane_tasks([code], chunks, [(0, row) for row in range(end - size, end)])
        for size, end in zip(sizes, accumulate(sizes), strict=True)
    ]
    return CodedPlan([code], lanes, chunks)
