"""Pulling on demand: a worker that is done gets the next batch, as task queues such as Ray's and Dask's do it."""

from echelon import checks
from echelon.codes import Code, uncoded
from echelon.plan import Pool, Task
from echelon.schemes.coded_plan import CodedPlan, lane_tasks

_MOST_TASKS = 10**6


def pull(
    *, workers: int, parts: int, batch: int = 1, ahead: int = 0, copies: int = 1, code: Code | None = None
) -> CodedPlan:
    """Return the plan in which nobody has a share: rows are handed out, `batch` at a time, to whoever is done.

    It evens out steady differences of speed by itself, and needs no profile; each batch costs its worker a journey of
    a message, unless it is sent `ahead`.

    ahead: how many tasks a worker still has when the next batch is sent to it.
    copies: how often a row is handed out at most: when all have been, workers that would be idle repeat those that
        have not come, the oldest first (speculative execution).
    code: whose rows these are: the parts of a sum unless given (then `parts` is how many rows it has).

    >>> plan = pull(workers=2, parts=5, batch=2)
    >>> [[task.row for task in lane] for lane in plan.lanes], [len(some) for some in plan.pool.batches]
    ([[0, 1], [2, 3]], [1])
    """
    checks.whole("workers", workers, least=1)
    checks.whole("parts", parts, least=1, most=10**4)
    checks.whole("batch", batch, least=1)
    checks.whole("ahead", ahead, least=0)
    checks.whole("copies", copies, least=1, most=workers)
    checks.whole("copies: tasks in all", parts * copies, least=1, most=_MOST_TASKS)
    code = uncoded(parts=parts) if code is None else code
    checks.whole("parts", parts, least=code.rows, most=code.rows)
    chunks = [range(code.parts)]
    batches = [
        tuple(lane_tasks([code], chunks, [(0, row) for row in range(at, min(at + batch, parts))]))
        for at in range(0, parts, batch)
    ]
    again: list[tuple[Task, ...]] = [
        tuple(lane_tasks([code], chunks, [(0, row)])) for _ in range(copies - 1) for row in range(parts)
    ]
    lanes = [*batches[:workers], *[()] * (workers - len(batches))]
    return CodedPlan([code], lanes, chunks, pool=Pool(batches=(*batches[workers:], *again), ahead=ahead))
