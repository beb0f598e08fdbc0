"""Jobs that compute with plans, whatever plan it is, and what they give without a stream."""

from functools import partial

import numpy as np

from echelon.codes import LagrangeCode, reed_solomon
from echelon.jobs import BlockJob, LinearJob, SumJob
from echelon.jobs.base import IterativeJob
from echelon.schemes import BlockPlan, CodedPlan
from echelon.schemes.multi_message import arcs

ROUNDS = 5
SIZE = 4


def moved(state, total):
    """Return the next state: it stays of one size, and every number of the sum counts."""
    return (state - total) / (1.0 + np.abs(total).max())


def grown(state, chunk):
    return chunk * state + np.sin(chunk)


def job_of(plan, rng):
    """Return a job that runs a plan on random data, and a function that gives its result by a plain loop.

    The function takes the slots that each round recovered, where these are not all.
    """
    if isinstance(plan, BlockPlan):
        return _by_blocks(plan, rng)
    if not plan.codes:
        plan = CodedPlan([_any(slot) for slot in plan.slots], plan.lanes, pool=plan.pool)
    if isinstance(plan.codes[0], LagrangeCode):
        return _of_a_polynomial(plan, rng)
    if plan.codes[0].systematic:
        matrix = rng.standard_normal((plan.parts * 3 - 1, plan.parts * 3 - 1))
        job = partial(LinearJob, matrix=matrix, parts=plan.parts)
        return _with(job, plan, rng.standard_normal(len(matrix)), lambda state, slots: matrix @ state)
    chunks = rng.standard_normal((plan.parts, SIZE))
    job = partial(SumJob, partial=grown, chunks=list(chunks))
    of = plan.chunks  # by slot
    return _with(
        job, plan, np.ones(SIZE),
        lambda state, slots: sum(grown(state, chunks[i]) for slot in slots for i in of[slot]),
    )  # fmt: skip


def _with(job, plan, state, total):
    def plain(rounds=None):
        result = state
        for slots in rounds or [range(len(plan.slots))] * ROUNDS:
            result = moved(result, total(result, slots))
        return result

    return job(plan=plan, state=state, update=moved, iterations=ROUNDS), plain


def _any(slot):
    """Return a code of sums for a slot of which only numbers are known: any `threshold` of its rows."""
    return reed_solomon(arcs(slot.rows, slot.rows - slot.threshold + 1), real=True)


def _by_blocks(plan, rng):
    chunks = rng.standard_normal((len(plan.lanes), plan.blocks[-1].stop))
    job = partial(BlockJob, partial=lambda state, chunk, at: grown(state[at], chunk[at]), chunks=list(chunks))
    start = np.ones(chunks.shape[1])
    return _with(job, plan, start, lambda state, slots: sum(grown(state, chunk) for chunk in chunks))


def _of_a_polynomial(plan, rng):
    code = plan.codes[0]
    blocks = rng.standard_normal((code.parts, 3 * SIZE, SIZE)) / 4
    job = partial(LeastSquares, blocks=blocks)
    return _with(job, plan, np.ones(SIZE), lambda state, slots: sum(block.T @ (block @ state) for block in blocks))


class LeastSquares(IterativeJob):
    """Gradients of least squares from blocks that were encoded beforehand: polynomials of degree 2 of the data."""

    stacked = True

    def __init__(self, *, blocks, plan, state, update, iterations):
        super().__init__(state=state, iterations=iterations, until=None, name=None, tolerance=None)
        self.blocks, self.plan, self.update, self.parts = blocks, plan, update, len(blocks)

    def code(self, redundancy, rng):
        raise AssertionError("the plan has the code")

    def work(self, codes):
        return CodedBlocks(codes[0].encode_parts(self.blocks))

    def request(self, state):
        return state

    def step(self, state, recovered):
        return self.update(state, recovered.sum(axis=0))


class CodedBlocks:
    """A row is the gradient on one coded block."""

    def __init__(self, coded):
        self.coded = coded

    def row(self, slot, row):
        return (row,), np.ones(1)

    def part(self, state, part):
        return self.coded[part].T @ (self.coded[part] @ state)
