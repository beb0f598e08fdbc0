"""Block coordinates: different redundancy for different coordinates of a gradient (block, section III)."""

from collections.abc import Sequence

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.codes import reed_solomon, uncoded
from echelon.errors import ArgumentError
from echelon.plan import Task
from echelon.schemes.coded_plan import CodedPlan
from echelon.schemes.multi_message import MOST_WORKERS, arcs


class BlockPlan(CodedPlan):
    """A plan with one slot per block of coordinates.

    blocks: the coordinates of each slot. levels: how many stragglers each of them tolerates.
    Part j of slot b is the derivative by the coordinates of block b on chunk j; its number is b N + j.
    """

    blocks: tuple[slice, ...]
    levels: tuple[int, ...]


def block_coordinate(
    workers: int,
    sizes: Sequence[int] | IntArray | None = None,
    *,
    levels: Sequence[int] | IntArray | None = None,
    costs: Sequence[float] | FloatArray | None = None,
    tasks: Sequence[float] | FloatArray | None = None,
) -> BlockPlan:
    """Return the plan in which the coordinates of block n tolerate n stragglers, on as many chunks as workers.

    sizes: x_0, …, x_{N-1}, how many coordinates are at each level of redundancy; or
    levels: the level s_l of each coordinate, which must not fall (block, (6) and (7)).
    costs: what each coordinate costs on a chunk, relative to the others; 1 each by default.
    tasks: instead, what the task of each block with coordinates in it costs, where that is not (n + 1) times its share:
    layers of a network need forward and delta passes as well (`blocks.LayerCosts.tasks`).

    Workers go through the blocks in order, and send each when it is done. A block of level n is computed on n + 1
    chunks, and any N - n workers give it. A cost of 1 is the whole gradient of one chunk, so that a worker's lane costs
    sum of (n + 1) x_n over L (block, (5)).

    >>> plan = block_coordinate(4, levels=[1, 1, 2, 2])
    >>> [slot.threshold for slot in plan.slots], [task.cost for task in plan.lanes[0]], plan.blocks
    ([3, 2], [1.0, 1.5], (slice(0, 2, None), slice(2, 4, None)))
    """
    checks.whole("workers", workers, least=1, most=MOST_WORKERS)
    counts = _counts(workers, sizes, levels)
    ends = np.cumsum(counts)
    used = np.flatnonzero(counts).tolist()
    blocks = [slice(int(ends[n] - counts[n]), int(ends[n])) for n in used]
    codes = [reed_solomon(arcs(workers, n + 1), real=True) if n else uncoded(parts=workers) for n in used]
    if tasks is None:
        shares = _shares(costs, int(ends[-1]))
        lane_costs = [(n + 1) * float(shares[block].sum()) for n, block in zip(used, blocks, strict=True)]
    elif costs is not None:
        raise ArgumentError("costs, tasks: give one of them, not both")
    else:
        lane_costs = [checks.number(f"tasks[{b}]", cost, above=0) for b, cost in enumerate(tasks)]
        if len(lane_costs) != len(used):
            raise ArgumentError(f"tasks: {len(lane_costs)} given; must be {len(used)}, one per block that is not empty")
    lanes = [
        [Task(slot=slot, row=worker, cost=cost) for slot, cost in enumerate(lane_costs)] for worker in range(workers)
    ]
    plan = BlockPlan(codes, lanes)
    object.__setattr__(plan, "blocks", tuple(blocks))
    object.__setattr__(plan, "levels", tuple(used))
    return plan


def _counts(workers: int, sizes: Sequence[int] | IntArray | None, levels: Sequence[int] | IntArray | None) -> IntArray:
    if (sizes is None) == (levels is None):
        raise ArgumentError("sizes, levels: give one of them, not both")
    if sizes is not None:
        counts = np.array(
            [checks.whole(f"sizes[{n}]", size, least=0) for n, size in enumerate(checks.items("sizes", sizes))],
            dtype=np.int64,
        )
        if len(counts) != workers or not counts.any():
            raise ArgumentError(f"sizes: {len(counts)} given; must be {workers}, one per level, and not all 0")
        return counts
    assert levels is not None
    listed = [
        checks.whole(f"levels[{i}]", level, least=0, most=workers - 1)
        for i, level in enumerate(checks.items("levels", levels))
    ]
    if not listed or sorted(listed) != listed:
        raise ArgumentError("levels: must have at least one coordinate, and must not fall from one to the next")
    return np.bincount(listed, minlength=workers)


def _shares(costs: Sequence[float] | FloatArray | None, coordinates: int) -> FloatArray:
    """Return what share of a chunk's gradient each coordinate costs."""
    if costs is None:
        return np.full(coordinates, 1 / coordinates)
    values = checks.floats("costs", costs)
    if values.shape != (coordinates,) or not np.isfinite(values).all() or not (values > 0).all():
        raise ArgumentError(f"costs: must be {coordinates} finite numbers > 0, one per coordinate")
    return values / float(values.sum())
