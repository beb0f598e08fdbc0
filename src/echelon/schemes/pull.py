"""Pulling on demand: a worker that is done gets the next batch, as task queues such as Ray's and Dask's do it."""

from collections.abc import Sequence
from itertools import accumulate

from echelon import checks
from echelon.arrays import IntArray
from echelon.codes import Code, uncoded
from echelon.errors import ArgumentError
from echelon.plan import Pool, Task
from echelon.schemes.coded_plan import CodedPlan, lane_tasks

_MOST_TASKS = 10**6


def pull(
    *,
    workers: int,
    parts: int,
    batch: int = 1,
    ahead: int = 0,
    copies: int = 1,
    shares: Sequence[int] | IntArray | None = None,
    code: Code | None = None,
) -> CodedPlan:
    """Return the plan in which rows are handed out, `batch` at a time, to whoever is done with what it had.

    It evens out steady differences of speed by itself, and needs no profile; each batch costs its worker a journey of
    a message, unless it is sent `ahead`.

    ahead: how many tasks a worker still has when the next batch is sent to it. Copies are handed out ahead as well:
        worth it where a message travels about as long as a task takes.
    copies: how often a row is handed out at most: when all have been, workers that would be idle repeat those that
        have not come, the oldest first, or those at the ends of shares (speculative execution). When all these have
        been repeated once, they are a second time, and so on. As many as workers cost nothing but messages.
    shares: rows that each worker has from the start; one batch each by default. What they leave is pulled.
    code: whose rows these are: the parts of a sum unless given (then `parts` is how many rows it has).

    >>> plan = pull(workers=2, parts=5, batch=2)
    >>> [[task.row for task in lane] for lane in plan.lanes], [len(some) for some in plan.pool.batches]
    ([[0, 1], [2, 3]], [1])
    >>> [[task.row for task in some] for some in pull(workers=2, parts=5, shares=[3, 2], copies=2).pool.batches]
    [[2], [4], [1], [3], [0]]
    """
    checks.whole("workers", workers, least=1)
    checks.whole("parts", parts, least=1, most=10**4)
    checks.whole("batch", batch, least=1)
    checks.whole("ahead", ahead, least=0)
    checks.whole("copies", copies, least=1, most=workers)
    checks.whole("copies: tasks in all", parts * copies, least=1, most=_MOST_TASKS)
    code = uncoded(parts=parts) if code is None else checks.instance("code", code, Code)
    checks.whole("parts", parts, least=code.rows, most=code.rows)
    sizes = _shares(workers, parts, batch, shares)
    lanes = [range(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)]
    rest = range(sum(sizes), parts)
    batches = [rest[at : at + batch] for at in range(0, len(rest), batch)]
    late = range(parts) if shares is None else [*_from_the_ends(lanes), *rest]
    again = [_tasks(code, [row]) for row in late] if copies > 1 else []
    pool = Pool(batches=(*(_tasks(code, rows) for rows in batches), *again * (copies - 1)), ahead=ahead)
    return CodedPlan([code], [_tasks(code, lane) for lane in lanes], [range(code.parts)], pool=pool)


def _shares(workers: int, parts: int, batch: int, shares: Sequence[int] | IntArray | None) -> list[int]:
    if shares is None:
        return [min(batch, max(0, parts - p * batch)) for p in range(workers)]
    sizes = [checks.whole(f"shares[{p}]", share, least=0) for p, share in enumerate(checks.items("shares", shares))]
    if len(sizes) != workers or sum(sizes) > parts:
        raise ArgumentError(
            f"shares: {sizes} is not allowed; must be one per worker, {workers} of them, and {parts} at most in all"
        )
    return sizes


def _from_the_ends(lanes: Sequence[range]) -> list[int]:
    """Return the last rows of all lanes, then those before the last, and so on."""
    longest = max(map(len, lanes))
    return [lane[-1 - back] for back in range(longest) for lane in lanes if back < len(lane)]


def _tasks(code: Code, rows: Sequence[int]) -> tuple[Task, ...]:
    return tuple(lane_tasks([code], [range(code.parts)], [(0, row) for row in rows]))
