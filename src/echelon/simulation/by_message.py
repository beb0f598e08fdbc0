"""Plans with an ending of their own: rounds one by one, message by message, by the master's own bookkeeping.

Slow, and right for any ending: an ending changes when the round is over, not what is sent when.
"""

from collections.abc import Sequence

import numpy as np

from echelon.arrays import FloatArray
from echelon.can import Can, Rules
from echelon.delays import Delay
from echelon.master.collection import Collection
from echelon.plan import Plan
from echelon.simulation.slots import Slots, goes_on


class ByMessage(Slots):
    """Arrivals as `Slots` has them; the end of each round as the master finds it."""

    quick = False

    @staticmethod
    def can(plan: Plan, laws: Sequence[Delay], rules: Rules) -> Can:
        """Return whether a plan can be evaluated this way."""
        if plan.ending is not None and plan.ending.learns:
            return Can(f'times of {plan.ending} that are "auto" are learnt from rounds while a stream runs')
        if not rules.purge:
            return Can("an ending decides what is left undone, so there is nothing left to wait for")
        if rules.lend or rules.overlap:
            return Can("which workers are lent, or work ahead, is decided during the round")
        if plan.pool is not None:
            return Can("which worker takes what from a pool is decided during the round")
        if rules.stay:
            return Can("which of the rows that stay are chosen and added up is not known beforehand")
        if rules.port and not goes_on(plan):
            return Can("which messages come to the master's port depends on when slots are stopped")
        return Can()

    def over(self, arrivals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return when each round is over, shape (rounds,), and when each slot is recovered, shape (slots, rounds)."""
        plan = self._plan
        tasks = [task for lane in plan.lanes for task in lane]
        ends, recovered = np.full(arrivals.shape[1], np.inf), np.full((len(plan.slots), arrivals.shape[1]), np.inf)
        order = np.argsort(arrivals, axis=0, kind="stable")
        for number, (column, places) in enumerate(zip(arrivals.T, order.T.tolist(), strict=True)):
            round = MessageRound(plan)
            for place in places:
                now = float(column[place])
                if now > round.end:
                    break
                round.receive(tasks[place].slot, tasks[place].row, now, recovered[:, number])
            ends[number] = round.end
        # slots that the round did not wait for are never recovered: they count up to its end
        return ends, np.minimum(recovered, ends)

    def residual(self, arrivals: FloatArray, ends: FloatArray) -> FloatArray:
        """Return how far what each round gives is from the exact sum, |alpha - 1| / |1|."""
        plan = self._plan
        tasks = [task for lane in plan.lanes for task in lane]
        missed = np.zeros(len(ends))
        if plan.ending is None or not plan.ending.approximate:
            return missed
        for number, (column, end) in enumerate(zip(arrivals.T, ends, strict=True)):
            round = Collection(1, plan, plan.codes)
            for place in np.flatnonzero(column <= end).tolist():
                round.receive(tasks[place].slot, tasks[place].row, float(end))
            missed[number] = (1 - round.sums.share) ** 0.5
        return missed


class MessageRound:
    """One round of the master: rows in, and when it is over as things stand."""

    def __init__(self, plan: Plan) -> None:
        self._collection = Collection(1, plan, plan.codes)
        for worker, lane in enumerate(plan.lanes):
            self._collection.give(worker, lane)
        self.end = np.inf

    def receive(self, slot: int, row: int, now: float, recovered: FloatArray) -> None:
        """Take in a message."""
        collection = self._collection
        if collection.receive(slot, row, now):
            collection.settle(slot, now)
            recovered[slot] = now
        ripe = None if collection.rule is None else collection.rule.ripe(collection.recovered)
        if collection.over():
            self.end = now
        elif ripe is not None:
            self.end = max(ripe, now)
