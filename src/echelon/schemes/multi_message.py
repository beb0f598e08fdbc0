"""Gradient coding with several messages per worker: clusters of workers, each with its own code (mmc, section 3).

A worker computes the partial gradients of its chunks one after another, and sends a combination of the latest of them
whenever it has enough for one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from echelon import checks
from echelon.arrays import BoolArray
from echelon.codes import Code, reed_solomon, uncoded
from echelon.errors import ArgumentError
from echelon.schemes.coded_plan import CodedPlan, lane_tasks

MOST_WORKERS = 5000


def multi_message(
    *,
    workers: int,
    load: int,
    clusters: int = 1,
    order: int | None = None,
    orders: Sequence[int] | None = None,
    hybrid: bool = False,
) -> CodedPlan:
    """Return the plan of GC-MMC: as many chunks as workers, `load` of them on each worker, `clusters` of equal size.

    order: correlated design. From its `order`-th computation on a worker sends, after each, a combination of the last
        `order` partial gradients; the same row may come from several workers. Any c - order + 1 of a cluster's c rows
        are enough.
    orders: uncorrelated design. For each order a worker sends one row after that many computations, over all of them;
        every row comes from one worker. Of the c l rows of a cluster any c l - sum(orders) + 1 are enough.
    hybrid: a worker that has computed all chunks of its cluster sends their plain sum, which is enough alone (section
        3.4); needs `load` to be the size of a cluster, and the largest of `orders` to be `load`. With `order` only the
        last message changes: the rows that such a worker has sent are enough anyway.

    Prefer many messages where workers differ little, and few where messages are expensive. Codes are real: polynomials
    on strided points.

    Differs from paper: its "K - m - 1 = 5" is K - m + 1; orders may be given in any order (notes 1, 2).

    >>> plan = multi_message(workers=6, load=3, order=2)
    >>> plan.slots[0].threshold, [[task.row for task in lane] for lane in plan.lanes][5]
    (5, [5, 0])
    >>> multi_message(workers=6, load=3, orders=[2, 3]).slots[0].threshold
    8
    """
    size = cluster_size(workers, load, clusters)
    if (order is None) == (orders is None):
        raise ArgumentError("order, orders: give one of them, not both")
    if checks.flag("hybrid", hybrid) and load != size:
        raise ArgumentError(
            f"hybrid: not allowed with load {load}; a worker must hold all {size} chunks of its cluster to send the sum"
        )
    if order is not None:
        code, rows = _correlated(size, load, checks.whole("order", order, least=1, most=load), hybrid)
    else:
        assert orders is not None
        code, rows = _uncorrelated(size, _checked_orders(orders, load, hybrid), hybrid)
    codes = [code] * clusters
    chunks = [range(c * size, (c + 1) * size) for c in range(clusters)]
    lanes = [
        lane_tasks(codes, chunks, [(cluster, row) for row in rows[worker]])
        for cluster in range(clusters)
        for worker in range(size)
    ]
    return CodedPlan(codes, lanes, chunks)


def cluster_size(workers: int, load: int, clusters: int) -> int:
    """Return how many workers, and chunks, a cluster has (mmc, note 7)."""
    checks.whole("workers", workers, least=1, most=MOST_WORKERS)
    checks.whole("clusters", clusters, least=1, most=workers)
    if workers % clusters:
        raise ArgumentError(f"clusters: {clusters} is not allowed; must divide the number of workers, {workers}")
    checks.whole("load", load, least=1, most=workers // clusters)
    return workers // clusters


def _checked_orders(orders: Sequence[int], load: int, hybrid: bool) -> list[int]:
    if not isinstance(orders, Sequence):
        raise ArgumentError(f"orders: {orders!r} is not allowed; must be a list of numbers")
    listed = sorted(checks.whole("orders", order, least=1, most=load) for order in orders)
    if not listed or len(set(listed)) < len(listed):
        raise ArgumentError(f"orders: {list(orders)} is not allowed; must be different numbers, at least one")
    if hybrid and listed[-1] != load:
        raise ArgumentError(f"orders: the largest is {listed[-1]}; must be load, {load}, for the plain sum to be sent")
    return listed


def arcs(size: int, length: int) -> BoolArray:
    """Return which chunks, `length` consecutive ones in a circle, belong to each of `size` rows."""
    held: BoolArray = (np.arange(size)[None, :] - np.arange(size)[:, None]) % size < length
    return held


def _correlated(size: int, load: int, order: int, hybrid: bool) -> tuple[Code, list[list[int]]]:
    code = uncoded(parts=size) if order == 1 else reed_solomon(arcs(size, order), real=True)
    rows = [[(worker + i) % size for i in range(load - order + 1)] for worker in range(size)]
    if hybrid:
        code = _with_sum(code)
        rows = [[*lane[:-1], code.rows - 1] for lane in rows]
    return code, rows


def _uncorrelated(size: int, orders: list[int], hybrid: bool) -> tuple[Code, list[list[int]]]:
    if hybrid:
        orders = orders[:-1]
    each = len(orders)
    rows = [[worker * each + i for i in range(each)] for worker in range(size)]
    if not orders:
        code = reed_solomon(np.ones((1, size), dtype=bool), real=True)
        return code, [[0]] * size
    mask = np.stack([arcs(size, order) for order in orders], axis=1).reshape(size * each, size)
    code = reed_solomon(mask, real=True)
    if hybrid:
        code = _with_sum(code)
        rows = [[*lane, code.rows - 1] for lane in rows]
    return code, rows


def _with_sum(code: Code) -> Code:
    """Return a code with one more row, the sum itself, which is enough alone."""
    return replace(code, matrix=np.vstack([code.matrix, code.target]), counting=False)
