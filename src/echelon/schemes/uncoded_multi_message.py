"""Uncoded computation with a message after each chunk (UC-MMC): shifted copies, the first of each counts."""

from echelon.codes import uncoded
from echelon.schemes.coded_plan import CodedPlan, lane_tasks
from echelon.schemes.multi_message import cluster_size


def uncoded_multi_message(*, workers: int, load: int, clusters: int = 1) -> CodedPlan:
    """Return the plan in which worker i of a cluster sends chunks i, i + 1, …, `load` of them, each when it is ready.

    One slot per chunk. The quickest scheme where messages cost nothing, and the one that sends most; the same as the
    correlated design of order 1.

    >>> plan = uncoded_multi_message(workers=6, load=3)
    >>> len(plan.slots), [task.slot for task in plan.lanes[5]]
    (6, [5, 0, 1])
    """
    size = cluster_size(workers, load, clusters)
    codes = [uncoded(parts=1)] * workers
    chunks = [[chunk] for chunk in range(workers)]
    lanes = [
        lane_tasks(codes, chunks, [(cluster * size + (worker + i) % size, 0) for i in range(load)])
        for cluster in range(clusters)
        for worker in range(size)
    ]
    return CodedPlan(codes, lanes, chunks)
