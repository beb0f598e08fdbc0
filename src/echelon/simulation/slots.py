"""Any plan: arrivals, the earliest copy of each row, the threshold-th row of each slot, the last slot.

Arrivals are a table of tasks by rounds, lane after lane: each step is a few passes over whole vectors of rounds.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from echelon.arrays import BoolArray, FloatArray, IntArray
from echelon.can import Can, Rules
from echelon.delays import Delay
from echelon.plan import Plan
from echelon.simulation.selection import kth_smallest
from echelon.simulation.spans import FirstSpan

_BYTE = 255  # ones that a byte can count


class Slots:
    """Which tasks of the table are the copies of which row, and what each slot needs.

    beside: seconds that each task takes beyond computing, one array per lane.
    """

    quick = True

    @staticmethod
    def can(plan: Plan, laws: Sequence[Delay], rules: Rules) -> Can:
        """Return whether a plan can be evaluated this way."""
        if plan.pool is not None:
            return Can("which worker takes what from a pool is decided during the round")
        if plan.ending is not None:
            return Can("it ends by a rule of its own, not when every slot is recovered")
        if rules.lend or rules.overlap:
            return Can("which workers are lent, or work ahead, is decided during the round")
        if rules.stay:
            return Can("which of the rows that stay are chosen and added up is not known beforehand")
        if rules.port and not goes_on(plan):
            return Can("which messages come to the master's port depends on when slots are stopped")
        return Can()

    def __init__(self, plan: Plan, links: FloatArray, beside: Sequence[FloatArray], rules: Rules) -> None:
        self._plan, self._links, self._purge = plan, links, rules.purge
        self._beside = [np.cumsum(some)[:, None] for some in beside]
        edges = np.concatenate([[0], np.cumsum(plan.counts)])
        self._lanes = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        self._reach = [np.cumsum(costs)[:, None] for costs in plan.costs]
        even = len(set(plan.counts.tolist())) == 1 and not links.any() and not any(map(np.any, beside))
        self._even_reach = np.stack(self._reach) if even else None
        keys = [(task.slot, task.row) for lane in plan.lanes for task in lane]
        copies: dict[tuple[int, int], list[int]] = {}
        for place, key in enumerate(keys):
            copies.setdefault(key, []).append(place)
        self._tasks = [_places([i for i, key in enumerate(keys) if key[0] == s]) for s in range(len(plan.slots))]
        rows = sorted(copies)
        sizes = [sum(key[0] == s for key in rows) for s in range(len(plan.slots))]
        self._spans = self._by_span(plan)
        self._held = [[row for s, row in rows if s == slot] for slot in range(len(plan.slots))]
        self._alone = [
            [i for i, row in enumerate(held) if row in slot.alone]
            for slot, held in zip(plan.slots, self._held, strict=True)
        ]
        # slots with the same needs and numbers of rows are decided together, rows of one place side by side
        alike = zip(plan.slots, sizes, map(tuple, self._alone), strict=True)
        self._together = len(set(alike)) == 1 and not any(self._spans)
        if self._together:
            of_slot = np.array(rows).reshape(len(sizes), sizes[0], 2)
            rows = [(slot, row) for slot, row in of_slot.transpose(1, 0, 2).reshape(-1, 2).tolist()]
        most = max((len(places) for places in copies.values()), default=1)
        # a row with fewer copies than others repeats them
        self._copies = np.array([[copies[key][i % len(copies[key])] for key in rows] for i in range(most)])
        self._rows = [slice(int(a), int(b)) for a, b in pairwise(np.concatenate([[0], np.cumsum(sizes)]))]

    @staticmethod
    def _by_span(plan: Plan) -> list[FirstSpan | None]:
        """Return what rows span, for slots where fewer rows than the threshold may be enough."""
        if not plan.codes:
            return [None] * len(plan.slots)
        made = {code: FirstSpan(code) for code in plan.codes}
        return [None if slot.counting else made[code] for slot, code in zip(plan.slots, plan.codes, strict=True)]

    def empty(self, rounds: int) -> FloatArray:
        """Return memory of shape (tasks, rounds)."""
        return np.empty((self._plan.tasks, rounds))

    def costs(self, p: int) -> FloatArray:
        """Return the costs of all tasks of the lane."""
        return self._plan.costs[p]

    def arrive(self, p: int, times: FloatArray, arrivals: FloatArray) -> None:
        """Write the arrivals of lane p, link + T_1 + … + T_j (stream, note 1)."""
        out = arrivals[self._lanes[p]]
        np.cumsum(times, axis=1, out=out.T)
        out += self._links[p]

    def arrive_paced(self, p: int, paces: FloatArray, arrivals: FloatArray) -> None:
        """Write the arrivals of a lane whose parts all take the same time."""
        out = arrivals[self._lanes[p]]
        np.multiply(paces, self._reach[p], out=out)
        out += self._links[p] + self._beside[p]

    def arrive_together(self, paces: FloatArray, arrivals: FloatArray) -> None:
        """Write all arrivals from one pace per worker."""
        if self._even_reach is not None:
            table = arrivals.reshape(len(paces), -1, paces.shape[1])
            np.multiply(paces[:, None, :], self._even_reach, out=table)
            return
        for p in np.flatnonzero(self._plan.counts).tolist():
            self.arrive_paced(p, paces[p], arrivals)

    def over(self, arrivals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return when each round is over, shape (rounds,), and when each slot is recovered, shape (slots, rounds)."""
        recovered = self._all_recovered(arrivals)
        if not self._purge:
            return arrivals.max(axis=0), recovered
        return recovered[0] if len(recovered) == 1 else recovered.max(axis=0), recovered

    def _all_recovered(self, arrivals: FloatArray) -> FloatArray:
        earliest = arrivals[self._copies[0]]
        copy = np.empty_like(earliest)
        for places in self._copies[1:]:
            np.take(arrivals, places, axis=0, out=copy, mode="clip")
            np.minimum(earliest, copy, out=earliest)
        if self._together:
            # all slots at once: the same order statistic, of longer vectors
            return self._recovered(0, earliest.reshape(-1, len(self._plan.slots), arrivals.shape[1]))
        return np.stack([self._recovered(slot, earliest[rows]) for slot, rows in enumerate(self._rows)])

    def _recovered(self, slot: int, earliest: FloatArray) -> FloatArray:
        """Return when a slot is recovered, from the arrivals of its distinct rows along the first axis."""
        span = self._spans[slot]
        if span is not None:
            known = np.full((self._plan.slots[slot].rows, *earliest.shape[1:]), np.inf)
            known[self._held[slot]] = earliest
            return span.times(known)
        alone, threshold = self._alone[slot], self._plan.slots[slot].threshold
        sooner: FloatArray = earliest[alone].min(axis=0) if alone else np.array(np.inf)
        if threshold > len(earliest):
            return np.broadcast_to(sooner, earliest.shape[1:])
        return np.minimum(kth_smallest(earliest, threshold - 1), sooner)

    def residual(self, arrivals: FloatArray, ends: FloatArray) -> FloatArray:
        """Return how far what each round gives is from the exact sum: rounds are exact."""
        return np.zeros(len(ends))

    def load(self, arrivals: FloatArray, ends: FloatArray) -> IntArray:
        """Return the arrivals up to the end of the round."""
        return _count(arrivals <= ends)

    def load_with_stop(self, arrivals: FloatArray, recovered: FloatArray) -> IntArray:
        """Return the arrivals up to the end of their slots."""
        came = np.zeros(arrivals.shape[1], dtype=np.int64)
        for tasks, end in zip(self._tasks, recovered, strict=True):
            came += _count(arrivals[tasks] <= end)
        return came

    def seen(self, arrivals: FloatArray, ends: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return computing time and results of every worker, shape (rounds, workers)."""
        shape = (arrivals.shape[1], len(self._plan.lanes))
        busy, done = np.zeros(shape), np.zeros(shape, dtype=np.int64)
        for p in np.flatnonzero(self._plan.counts).tolist():
            lane = arrivals[self._lanes[p]]
            done[:, p] = _count(lane <= ends)
            busy[:, p] = np.maximum(np.minimum(lane[-1], ends) - self._links[p], 0.0)
        return busy, done


def goes_on(plan: Plan) -> bool:
    """Return whether all lanes go on as they were planned until the round ends: no slot is stopped before."""
    several = [slots for lane in plan.lanes if len(slots := {task.slot for task in lane}) > 1]
    return len(plan.slots) == 1 or len(set().union(*several)) == len(plan.slots)


def _places(tasks: list[int]) -> slice | list[int]:
    """Return where the tasks are in the table, as a slice if they follow one another: no copy is made then."""
    return slice(tasks[0], tasks[-1] + 1) if tasks and tasks[-1] - tasks[0] + 1 == len(tasks) else tasks


def _count(came: BoolArray) -> IntArray:
    """Return how many are true along the first axis; bytes are quicker to add than integers."""
    total = np.zeros(came.shape[1], dtype=np.int64)
    for at in range(0, len(came), _BYTE):
        total += np.add.reduce(came[at : at + _BYTE].view(np.uint8), axis=0, dtype=np.uint8)
    return total
