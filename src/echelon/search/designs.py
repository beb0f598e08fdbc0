"""Designs of the papers with as many chunks as workers, for any number of parts: a chunk is some of the parts.

They suppose equal workers and give all of them the same number of parts. Unequal workers are dealt out by speed, so
that every cluster or group has quick and slow ones.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from echelon.arrays import IntArray, NumberArray
from echelon.blocks import equalised, rounded
from echelon.codes import Code, uncoded
from echelon.delays import Delay, sample_all
from echelon.plan import Plan, Task
from echelon.profile import Profile
from echelon.schemes import (
    BlockPlan,
    CodedPlan,
    block_coordinate,
    multi_message,
    short_messages,
)
from echelon.schemes.coded_plan import lane_tasks
from echelon.search.multi_message import multi_message_designs
from echelon.search.strategy import Strategy
from echelon.seeds import place_generator

LOADS = (2, 3, 4)  # chunks that each worker computes
PIECES = (2, 3, 4, 8)  # that results are cut into, so that messages are shorter
LOSSES = (0, 1, 2, 3)  # messages that need not come
MOST_PIECED = 200  # workers of a code with pieces: it is not sparse
GRID = 3  # sizes of clusters, and orders, of multi-message designs
DRAWS = 400  # of cycle times that blocks are cut by


def whole_shares(counts: IntArray) -> CodedPlan:
    """Return the plan in which each worker sends the sum of its share in one message, with no redundancy.

    >>> plan = whole_shares(np.array([3, 0, 1]))
    >>> [[task.cost for task in lane] for lane in plan.lanes], plan.slots[0].threshold
    ([[3.0], [], [1.0]], 2)
    """
    busy = np.flatnonzero(counts).tolist()
    lanes: list[list[Task]] = [[] for _ in counts]
    for row, worker in enumerate(busy):
        lanes[worker] = [Task(slot=0, row=row)]
    return spread(CodedPlan([uncoded(parts=len(busy))], lanes), counts[busy])


def designs(profile: Profile) -> Iterator[Strategy]:
    """Yield multi-message designs and short messages; nothing where there are fewer parts than workers."""
    workers, parts = len(profile.workers), profile.workload.critical
    if workers < 2 or parts < workers:
        return
    sizes = evenly(parts, workers)

    def made(groups: int, scheme: Callable[..., CodedPlan], **asked: object) -> Callable[[], CodedPlan]:
        return partial(dealt, profile, sizes, groups, partial(scheme, workers=workers, **asked))

    for load in (load for load in LOADS if load <= workers):
        for design in multi_message_designs(workers, load, max_orders=2, grid=GRID):
            size = workers // design.clusters
            # one message after all chunks of the cluster is repetition, which is there already
            if (design.order == size) or (design.orders is not None and not design.hybrid):
                continue
            asked = {"order": design.order, "orders": design.orders, "hybrid": design.hybrid}
            plan = made(design.clusters, multi_message, load=load, clusters=design.clusters, **asked)
            name = f"multi-message, {load} chunks each, clusters of {size}, {design.kind}"
            yield Strategy(name, "copies" if design.order == 1 else "coded", plan, best_of="multi-message")
    for pieces in PIECES if workers <= MOST_PIECED else ():
        for lost in (lost for lost in LOSSES if lost + pieces <= workers):
            short = made(1, short_messages, load=lost + pieces, pieces=pieces)
            name = f"short messages, {pieces} pieces, {lost + pieces} chunks each"
            yield Strategy(name, "coded", short, best_of="short messages")


def blocks(profile: Profile, laws: Sequence[Delay], coordinates: int) -> Iterator[Strategy]:
    """Yield block coordinates, cut for the mean sorted cycle times x(t); only a `BlockJob` can run them."""
    workers, parts = len(profile.workers), profile.workload.critical
    if workers < 2 or parts < workers or coordinates < 1:
        return
    chunk = -(-parts // workers)
    rngs = [place_generator(1, place) for place in range(workers)]
    times = np.column_stack([seen.mean(axis=(1, 2)) for seen in sample_all(laws, (DRAWS, 1, chunk), rngs)])
    counts = rounded(equalised(np.sort(times, axis=1).mean(axis=0), coordinates), coordinates)
    costs = np.arange(1, workers + 1) * counts / coordinates
    plan = partial(block_coordinate, workers, counts, tasks=costs[counts > 0])
    yield Strategy(
        "block coordinates",
        "coded",
        plan,
        lighter=partial(_in_parts, plan, parts / workers),
        job="BlockJob",
    )


def _in_parts(plan: Callable[[], BlockPlan], parts: float) -> Plan:
    """Return the plan of blocks at its cost in parts; a chunk has `parts` of them."""
    made = plan()
    return Plan(made.slots, [[replace(task, cost=parts * task.cost) for task in lane] for lane in made.lanes])


def evenly(parts: int, chunks: int) -> IntArray:
    """Return how many parts each chunk has, nearly the same for all."""
    return np.diff(np.arange(chunks + 1) * parts // chunks)


def dealt(profile: Profile, sizes: IntArray, clusters: int, scheme: Callable[[], CodedPlan]) -> CodedPlan:
    """Return a design for parts, with workers dealt out to clusters by their speed."""
    plan = spread(scheme(), sizes)
    by_speed = np.argsort(profile.speeds.mean, kind="stable").tolist()
    # lanes of a cluster follow one another: the quickest workers come first in each
    order = [worker for cluster in range(clusters) for worker in by_speed[cluster::clusters]]
    lanes = [plan.lanes[order.index(worker)] for worker in range(len(order))]
    return CodedPlan(plan.codes, lanes, plan.chunks)


def spread(plan: CodedPlan, sizes: IntArray | Sequence[int]) -> CodedPlan:
    """Return a plan of sums in which each chunk stands for several parts, which follow one another.

    >>> plan = spread(multi_message(workers=2, load=2, order=2), [3, 2])
    >>> plan.parts, plan.lanes[0][0].cost, plan.codes[0].support.sum(axis=1).tolist()
    (5, 5.0, [5, 5])
    """
    ends = np.cumsum(sizes).tolist()
    held = [range(end - size, end) for size, end in zip(np.asarray(sizes).tolist(), ends, strict=True)]
    made: dict[tuple[Code, tuple[int, ...]], Code] = {}
    codes = []
    for code, chunks in zip(plan.codes, plan.chunks, strict=True):
        widths = tuple(len(held[chunk]) for chunk in chunks)
        if (code, widths) not in made:
            made[code, widths] = replace(
                code,
                matrix=_repeated(code.matrix, widths, code.pieces),
                target=_repeated(code.target, widths, code.pieces),
            )
        codes.append(made[code, widths])
    parts = [[part for chunk in some for part in held[chunk]] for some in plan.chunks]
    lanes = [lane_tasks(codes, parts, [(task.slot, task.row) for task in lane]) for lane in plan.lanes]
    return CodedPlan(codes, lanes, parts)


def _repeated(matrix: NumberArray, widths: Sequence[int], pieces: int) -> NumberArray:
    """Return a matrix in which the columns of each part stand for as many parts as its width says."""
    columns = matrix.reshape(len(matrix), len(widths), pieces)
    return np.repeat(columns, widths, axis=1).reshape(len(matrix), -1)
