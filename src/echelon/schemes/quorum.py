"""A quorum of the workers: everybody computes something of his own, and a round does without the last ones."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from echelon import checks
from echelon.arrays import IntArray
from echelon.codes import Code
from echelon.endings import Quorum
from echelon.errors import ArgumentError
from echelon.plan import Task
from echelon.schemes.coded_plan import CodedPlan

_MOST_PARTS = 10**5  # of one worker


def quorum(
    *,
    workers: int,
    load: int | Sequence[int] | IntArray = 1,
    share: float = 0.75,
    least: int = 0,
    grace: float | Literal["auto"] = 0.0,
    stretch: float = 0.0,
) -> CodedPlan:
    """Return the plan in which every worker has one task, and a round ends when enough of them are done.

    One slot per worker, without redundancy: what the round ends without is missing in its result, which is the sum over
    those that came. Prefer it where that is nearly as good, such as local steps (`echelon.torch.LocalSGD`), and where
    messages are expensive: each worker sends one.

    load: parts that a worker computes and adds up, or a list of one number per worker.
    share, least: how much of the parts, and how many workers, make the quorum. grace, stretch: how long the others are
        waited for then. See `endings.Quorum`.

    >>> plan = quorum(workers=8, load=20, grace=0.5)
    >>> len(plan.slots), plan.lanes[7], plan.ending.needed(8)
    (8, (Task(slot=7, row=0, cost=20.0),), 6)
    """
    checks.whole("workers", workers, least=1, most=10**4)
    loads = _loads(workers, load)
    ending = Quorum(share, least=least, grace=grace, stretch=stretch)
    lanes = [[Task(slot=worker, row=0, cost=float(parts))] for worker, parts in enumerate(loads)]
    return CodedPlan([_sum(parts) for parts in loads], lanes, ending=ending)


def _loads(workers: int, load: int | Sequence[int] | IntArray) -> list[int]:
    if isinstance(load, int):
        return [checks.whole("load", load, least=1, most=_MOST_PARTS)] * workers
    loads = [
        checks.whole(f"load[{i}]", parts, least=1, most=_MOST_PARTS)
        for i, parts in enumerate(checks.items("load", load))
    ]
    if len(loads) != workers:
        raise ArgumentError(f"load: {len(loads)} numbers are not allowed; must be one per worker, {workers} of them")
    return loads


@lru_cache(maxsize=64)
def _sum(parts: int) -> Code:
    """Return the code whose only row is the sum of all parts."""
    return Code(matrix=np.ones((1, parts)), target=np.ones((1, parts)), threshold=1, counting=True)
