"""Gradient coding with short messages: each worker sends one that is a fraction of a result (Ye and Abbe, 2018)."""

from echelon import checks
from echelon.codes import short_messages as short_code
from echelon.errors import ArgumentError
from echelon.schemes.coded_plan import CodedPlan, lane_tasks
from echelon.seeds import place_generator

MOST_WORKERS = 1000


def short_messages(*, workers: int, load: int, pieces: int = 2, seed: int = 1) -> CodedPlan:
    """Return the plan in which each worker sends one message, 1/pieces as long as a result, after its `load` chunks.

    There are as many chunks as workers, and any workers - load + pieces messages give the sum. Prefer it where messages
    take longer than chunks: at one load, each piece more is one straggler less that the round can do without. With one
    piece it is `gradient_coding`.

    seed: of the code, which is random.

    >>> plan = short_messages(workers=8, load=4, pieces=2)
    >>> plan.slots[0].threshold, plan.lanes[0][0].cost, plan.codes[0].pieces
    (6, 4.0, 2)
    """
    checks.whole("workers", workers, least=1, most=MOST_WORKERS)
    checks.whole("load", load, least=1, most=workers)
    checks.whole("seed", seed, least=0)
    if checks.whole("pieces", pieces, least=1) > load:
        raise ArgumentError(f"pieces: {pieces} is not allowed; must be at most load, {load}")
    code = short_code(rows=workers, critical=workers - load + pieces, pieces=pieces, rng=place_generator(seed, 0))
    chunks = [range(workers)]
    return CodedPlan([code], [lane_tasks([code], chunks, [(0, row)]) for row in range(workers)], chunks)
