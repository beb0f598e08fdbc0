"""Every row of a plan in two lanes, so that two workers' results can be compared."""

from itertools import chain

from echelon.plan import Plan
from echelon.schemes.coded_plan import CodedPlan, lane_tasks


def twice(plan: CodedPlan) -> Plan:
    """Return the plan in which each worker computes its own lane, and then as many rows of others.

    Of all rows in the order of the lanes, a worker repeats those half the way round from its own: workers that have
    more to do repeat more, too. What would be its own again goes to the next worker.

    >>> from echelon.codes import uncoded
    >>> from echelon.schemes.coded_rows import coded_rows
    >>> [[task.row for task in lane] for lane in twice(coded_rows(uncoded(parts=4), [2, 1, 1])).lanes]
    [[0, 1, 2, 3], [2, 0], [3, 1]]
    """
    held = [[(task.slot, task.row) for task in lane] for lane in plan.lanes]
    line = [(owner, at) for owner, lane in enumerate(held) for at in lane]
    owners: dict[tuple[int, int], set[int]] = {}
    for owner, at in line:
        owners.setdefault(at, set()).add(owner)
    others: list[list[tuple[int, int]]] = [[] for _ in held]
    for place, (_, at) in enumerate(line):
        if len(owners[at]) > 1:
            continue  # the plan has copies of it already
        around = (line[(place + len(line) // 2 + step) % len(line)][0] for step in range(len(line)))
        helper = next((worker for worker in chain(around, range(len(held))) if worker not in owners[at]), None)
        if helper is not None:
            owners[at].add(helper)
            others[helper].append(at)
    lanes = [[*own, *more] for own, more in zip(held, others, strict=True)]
    tasks = [lane_tasks(plan.codes, plan.chunks, lane) for lane in lanes]
    return CodedPlan(plan.codes, tasks, plan.chunks)
