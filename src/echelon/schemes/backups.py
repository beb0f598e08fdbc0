"""Plain blocks with backups: replication through the plan, for work whose parity would cost too much."""

from echelon import checks
from echelon.codes import Code, uncoded
from echelon.schemes.coded_plan import CodedPlan, lane_tasks

_MOST_TASKS = 10**6


def backups(*, workers: int, parts: int, copies: int | None = None, code: Code | None = None) -> CodedPlan:
    """Return the plan in which workers compute their own shares of the blocks, and then blocks of the others.

    For sparse matrices, whose parity would be dense. The round ends when every block came once: where nobody is late,
    backups are never computed.

    copies: how many workers have a block in their lanes, its owner included; by default all of them.
    code: whose rows the blocks are, `uncoded` for the parts of a sum; by default blocks of a product.

    A worker that is late misses its last blocks. So all helpers begin with the last block of some other worker, each
    with another one's, then come those before the last, and so on; second backups follow when all first ones are
    through. After t backups each, the last t blocks of every worker are there.

    >>> [[task.row for task in lane] for lane in backups(workers=3, parts=6, copies=2).lanes]
    [[0, 1, 5, 2], [2, 3, 1, 4], [4, 5, 3, 0]]
    """
    checks.whole("workers", workers, least=1)
    checks.whole("parts", parts, least=1, most=10**4)
    copies = workers if copies is None else checks.whole("copies", copies, least=1, most=workers)
    checks.whole("copies: tasks in all", parts * copies, least=1, most=_MOST_TASKS)
    shares = [range(parts * p // workers, parts * (p + 1) // workers) for p in range(workers)]
    lanes = [list(share) for share in shares]
    for copy in range(copies - 1):
        for before_last in range(max(map(len, shares))):
            for owner, share in enumerate(shares):
                if before_last < len(share):
                    helper = owner + 1 + (before_last + copy) % (workers - 1)
                    lanes[helper % workers].append(share[-1 - before_last])
    code = uncoded(parts=parts, stacked=True) if code is None else checks.instance("code", code, Code)
    chunks = [range(parts)]
    checks.whole("parts", parts, least=code.rows, most=code.rows)
    return CodedPlan([code], [lane_tasks([code], chunks, [(0, row) for row in lane]) for lane in lanes], chunks)
