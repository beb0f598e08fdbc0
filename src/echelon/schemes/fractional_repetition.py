"""Fractional repetition: groups of workers that all compute the same sum; the first of each group is enough."""

from echelon import checks
from echelon.codes import reed_solomon
from echelon.errors import ArgumentError
from echelon.schemes.coded_plan import CodedPlan, lane_tasks
from echelon.schemes.multi_message import arcs, cluster_size


def fractional_repetition(*, workers: int, load: int, apart: bool = False) -> CodedPlan:
    """Return the plan with one group for every `load` workers, each of whom sends the sum of the group's chunks.

    Prefer it where some workers are much faster than others. `load` must divide the number of workers.

    apart: whether the workers of a group are workers/load apart, and not next to each other; for workers whose
        neighbours tend to be slow together.

    >>> plan = fractional_repetition(workers=40, load=10)
    >>> len(plan.slots), plan.slots[0].threshold, plan.lanes[0][0].cost
    (4, 1, 10.0)
    """
    cluster_size(workers, load, 1)
    if workers % load:
        raise ArgumentError(f"load: {load} is not allowed; must divide the number of workers, {workers}")
    groups = workers // load
    codes = [reed_solomon(arcs(load, load)[:1], real=True)] * groups
    chunks = [range(group * load, (group + 1) * load) for group in range(groups)]
    spread = checks.flag("apart", apart)
    group_of = [worker % groups if spread else worker // load for worker in range(workers)]
    lanes = [lane_tasks(codes, chunks, [(group, 0)]) for group in group_of]
    return CodedPlan(codes, lanes, chunks)
