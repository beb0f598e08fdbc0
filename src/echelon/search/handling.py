"""What rows of a plan cost beside computing and sending: adding up on workers and on the master, and data to hold."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelon.arrays import FloatArray
from echelon.codes import Code
from echelon.plan import Plan, Task
from echelon.profile import Costs
from echelon.schemes import BlockPlan, CodedPlan
from echelon.search.rehearsal import Rehearsed
from echelon.search.strategy import Strategy
from echelon.simulation.beside import beside

MANY = 0.25  # cost of each sum, where many are made of the same messages (they stay in the cache), over that of one
GATHERED = 2.0  # the same for putting each message where many sums can be made of it, and for taking out the sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bytes of a message, of the state, and of the data of a part."""

    message: float = 0.0
    state: float = 0.0
    part: float = 0.0


@dataclass(frozen=True, slots=True)
class Handling:
    """A plan, and what its rows are to workers and master; sizes are in those of a message.

    sent: size of each slot's messages, shape (slots,).
    combined: results that a worker adds up for each row, one array per slot; 0 where the row is one result as it is.
    decoded: messages that the master adds up in an iteration.
    held: parts that the worker with the most must have the data of.
    encoded: parts whose data is added up beforehand, once.
    stays: whether rows may stay with their workers, where these add them up.
    """

    plan: Plan
    sent: FloatArray
    combined: tuple[FloatArray, ...]
    decoded: float
    held: float
    encoded: float = 0.0
    stays: bool = True

    def rehearsed(self, costs: Costs, sizes: Sizes, *, added: bool = False) -> Rehearsed:
        """Return the plan with what it takes beside computing; added: whether its rows are only ever added up."""
        combining: tuple[FloatArray, ...] = ()
        if sizes.message and costs.combining:
            combining = tuple(self._combining((*lane, *self.plan.pooled), costs, sizes) for lane in self.plan.lanes)
        found = beside(
            self.plan,
            costs,
            message=self.sent * sizes.message,
            state=sizes.state,
            added=added and self.stays,
            tasks=combining,
        )
        # all workers wait for the state at first, which puts off everything by as much
        decoding = 0.0 if found.adding is not None else self.decoded * sizes.message * costs.combining
        return Rehearsed(self.plan, found.tasks, found.more + decoding, found.port, found.adding)

    def _combining(self, tasks: Sequence[Task], costs: Costs, sizes: Sizes) -> FloatArray:
        """Return what each worker takes to add up the results that a row combines."""
        sent = np.array([self.sent[task.slot] for task in tasks]) * sizes.message
        combined = np.array([self.combined[task.slot][task.row] for task in tasks])
        return combined * sent * costs.combining

    def loading(self, costs: Costs, sizes: Sizes) -> float:
        """Return the seconds until the data is in place: it is encoded first, and travels then."""
        return sizes.part * (self.encoded * costs.combining + self.held / costs.bandwidth)


def handling(strategy: Strategy, parts: int) -> Handling:
    """Return the plan that a strategy is tried by, for a job of this many parts, and how it is handled."""
    if strategy.lighter is None:
        plan = strategy.plan()
        return of_codes(plan, plan, parts)
    lighter = strategy.lighter()
    if strategy.load is None:
        return of_codes(lighter, strategy.plan(), parts)
    return of_windows(lighter, strategy.load, parts) if strategy.load else of_parity(lighter)


def of_codes(tried: Plan, plan: CodedPlan, parts: int) -> Handling:
    """Return how the rows of a plan with codes are handled, for a job of this many parts."""
    if isinstance(plan, BlockPlan):  # all slots are made of the same chunks, as many as workers
        widths = np.array([block.stop - block.start for block in plan.blocks], dtype=np.float64)
        sent, held = widths / widths.sum(), (1 + max(plan.levels)) * parts / len(plan.lanes)
    else:
        sent, held = np.array([1 / code.pieces for code in plan.codes]), _held(plan)
    made = {code: _combined(code) for code in plan.codes}
    decoded = sum(size * _decoded(code) for size, code in zip(sent.tolist(), plan.codes, strict=True))
    combined = tuple(made[code] for code in plan.codes)
    stays = all(code.pieces == 1 for code in plan.codes)
    return Handling(tried, sent, combined, decoded, held, _encoded(plan.codes[0]), stays)


def _held(plan: CodedPlan) -> float:
    """Return how many parts the worker with the most must have: those of its lane, and of all that is in the pool."""
    pooled = {(task.slot, task.row) for task in plan.pooled}
    most = 0
    for lane in plan.lanes:
        rows: dict[int, set[int]] = {}
        for slot, row in pooled.union((task.slot, task.row) for task in lane):
            rows.setdefault(slot, set()).add(row)
        most = max(most, sum(plan.codes[slot].storage(some) for slot, some in rows.items()))
    return float(most)


def of_windows(plan: Plan, load: int, parts: int) -> Handling:
    """Return how neighbouring rows of a cyclic code are handled, each of which combines `load` of all parts."""
    (slot,) = plan.slots
    held = min(parts, int(plan.counts.max()) + load - 1)
    return Handling(plan, np.ones(1), (np.full(slot.rows, float(load)),), slot.threshold, held)


def of_parity(plan: Plan) -> Handling:
    """Return how rows of an MDS code are handled, encoded before: a worker holds all rows that it may get."""
    (slot,) = plan.slots
    held = int(plan.counts.max()) + len(plan.pooled)
    needed, spare = slot.threshold, slot.rows - slot.threshold
    return Handling(plan, np.ones(1), (np.zeros(slot.rows),), _solved(needed, slot.rows), held, MANY * needed * spare)


def _combined(code: Code) -> FloatArray:
    """Return how many results, or pieces, a worker adds up for each row: none of a plain part, or encoded before."""
    if code.precoded:
        return np.zeros(code.rows)
    counts: FloatArray = np.count_nonzero(code.matrix, axis=1).astype(np.float64)
    plain = (counts == 1) & (code.matrix.sum(axis=1) == 1)
    return np.where(plain, 0.0, counts)


def _decoded(code: Code) -> float:
    """Return the messages that are added up for a slot: as many as are enough, for a sum, or each piece of it."""
    return _solved(code.parts, code.rows) if code.systematic else float(code.threshold * code.pieces)


def _solved(parts: int, rows: int) -> float:
    """Return the same where every part is wanted: each is a copy, or where it is missing a sum of all messages.

    Of `rows` rows as many come as there are parts; any of them is missing with the same chance.
    """
    missing = parts * (1 - parts / rows)
    return parts + (parts * (GATHERED + MANY * missing) if missing else 0.0)


def _encoded(code: Code) -> float:
    return MANY * code.parts * (code.rows - code.parts) if code.systematic else 0.0
