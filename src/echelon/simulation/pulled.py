"""Plans with a pool: which worker gets which batch is decided as the round goes on, in all rounds at once."""

from itertools import pairwise

import numpy as np

from echelon.arrays import BoolArray, FloatArray, IntArray
from echelon.errors import ArgumentError
from echelon.plan import Plan
from echelon.simulation.slots import Slots


class Pulled:
    """Task times as a table of workers by tasks by rounds, and the arrivals that follow from them.

    One slot; in the pool first rows that nobody has, then single ones that somebody has already.
    """

    def __init__(self, plan: Plan, links: FloatArray) -> None:
        assert plan.pool is not None
        self._plan, self._links, self._ahead = plan, links, plan.pool.ahead
        rows = [[task.row for task in some] for some in (*plan.lanes, *plan.pool.batches)]
        known: set[int] = set()
        fresh = []
        for some in rows:
            fresh.append(known.isdisjoint(some))
            known.update(some)
        last = len(fresh) if all(fresh) else fresh.index(False)
        batches = plan.pool.batches[last - len(plan.lanes) :]
        alike = all(len(batch) == 1 and batch[0].cost == batches[0][0].cost for batch in batches)
        if len(plan.slots) > 1 or plan.slots[0].alone or any(fresh[last:]) or not alike:
            raise ArgumentError(
                "plan: not allowed; a pool is simulated for one slot, with all rows before the first that comes again, "
                "and these one by one, at one cost"
            )
        self._fresh = last - len(plan.lanes)
        self._again = [batch[0].row for batch in batches]
        self._costs = np.array([task.cost for task in plan.pooled])
        # who has which task does not matter for when slots are recovered
        flat = Plan(plan.slots, [*plan.lanes, plan.pooled])
        self._slots = Slots(flat, np.zeros(len(flat.lanes)))
        edges = np.cumsum([0, *plan.counts]).tolist()
        self._lanes = [slice(a, b) for a, b in pairwise(edges)]
        self._last: tuple[FloatArray, _Run, FloatArray] | None = None  # task times, and what came of them

    @property
    def most(self) -> int:
        """Number of tasks that one worker may have to do."""
        return int(self._plan.counts.max()) + len(self._plan.pooled)

    def empty(self, rounds: int) -> FloatArray:
        """Return memory of shape (workers, tasks, rounds)."""
        return np.empty((len(self._plan.lanes), self.most, rounds))

    def arrive(self, p: int, times: FloatArray, arrivals: FloatArray) -> None:
        """Take note of the task times of a worker; what arrives when depends on all of them."""
        arrivals[p] = times.T

    def arrive_together(self, paces: FloatArray, arrivals: FloatArray) -> None:
        """Take note of one pace a worker."""
        arrivals[:] = paces[:, None, :]

    def recovered(self, arrivals: FloatArray) -> FloatArray:
        """Return when the slot is recovered, shape (1, rounds)."""
        return self._slots.recovered(self._run(arrivals)[1])

    def load(self, arrivals: FloatArray, ends: FloatArray) -> IntArray:
        """Return how many messages arrived until then."""
        return self._slots.load(self._run(arrivals)[1], ends)

    def load_with_stop(self, arrivals: FloatArray, recovered: FloatArray) -> IntArray:
        """Return the same: the only slot's end is the round's."""
        return self.load(arrivals, recovered[0])

    def seen(self, arrivals: FloatArray, ends: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return computing time and results of every worker, shape (rounds, workers)."""
        return self._run(arrivals)[0].seen(ends)

    def _run(self, times: FloatArray) -> tuple["_Run", FloatArray]:
        """Return the rounds, and when each task of lanes and pool arrives, shape (tasks, rounds); inf if never."""
        if self._last is None or self._last[0] is not times:
            run = _Run(self._plan, self._links, times, self._ahead)
            self._last = times, run, run.arrivals(self._lanes, self._fresh, self._again, self._costs)
        return self._last[1:]


class _Run:
    """Rounds as they go on: which tasks each worker has had, and when their messages come."""

    def __init__(self, plan: Plan, links: FloatArray, times: FloatArray, ahead: int) -> None:
        self._plan, self._links, self._times, self._ahead = plan, links[:, None], times, ahead
        workers, _, rounds = times.shape
        self._each, self._rounds = np.arange(workers)[:, None], np.arange(rounds)
        # of a worker's tasks, in the order in which it got them: when their messages come, and how long they take
        self._arrival, self._took = np.full_like(times, np.inf), np.zeros_like(times)
        self._had = np.zeros((workers, rounds), dtype=np.int64)
        self._asks = np.zeros((workers, rounds))  # when it is to get the next batch

    def arrivals(self, lanes: list[slice], fresh: int, again: list[int], costs: FloatArray) -> FloatArray:
        table = np.full((lanes[-1].stop + len(costs), len(self._rounds)), np.inf)
        first = np.full((self._plan.slots[0].rows, len(self._rounds)), np.inf)  # message of each row
        holder = np.full(first.shape, -1)  # whose it is
        assert self._plan.pool is not None
        for p, (lane, where) in enumerate(zip(self._plan.lanes, lanes, strict=True)):
            if lane:
                alone = np.full(len(self._rounds), p)
                table[where] = self._take(alone, np.zeros(len(self._rounds)), self._plan.costs[p])
                rows = [task.row for task in lane]
                first[rows], holder[rows] = table[where], p
        at = 0
        for batch in self._plan.pool.batches[:fresh]:
            worker = self._asks.argmin(axis=0)
            size = len(batch)
            found = self._take(worker, self._asks[worker, self._rounds], costs[at : at + size])
            table[lanes[-1].stop + at : lanes[-1].stop + at + size] = found
            rows = [task.row for task in batch]
            first[rows], holder[rows] = found, worker
            at += size
        if again:
            self._repeat(table[lanes[-1].stop + at :], first, holder, np.array(again), costs[at:])
        return table

    def _take(
        self, worker: IntArray, now: FloatArray, costs: FloatArray, which: BoolArray | None = None
    ) -> FloatArray:  # fmt: skip
        """Give a worker, in each round or in `which`, tasks of these costs; return when their messages come."""
        rounds = self._rounds if which is None else self._rounds[which]
        had = self._had[worker, rounds]
        before = self._arrival[worker, np.maximum(had - 1, 0), rounds]
        order = now + self._links[worker, 0]
        start = np.where(had > 0, np.maximum(before, order), order)
        found = np.empty((len(costs), len(rounds)))
        for i, cost in enumerate(costs):
            took = self._took[worker, had + i, rounds] = cost * self._times[worker, had + i, rounds]
            start = found[i] = self._arrival[worker, had + i, rounds] = start + took
        had = self._had[worker, rounds] = had + len(costs)
        last = self._arrival[worker, np.maximum(had - 1 - self._ahead, 0), rounds]
        self._asks[worker, rounds] = np.where(had > self._ahead, last, now)
        return found

    def _repeat(
        self, table: FloatArray, first: FloatArray, holder: IntArray, again: IntArray, costs: FloatArray
    ) -> None:
        """Hand out rows once more, one at a time, to workers that would be idle."""
        left = np.ones((len(again), len(self._rounds)), dtype=bool)
        holds = np.zeros((len(self._links), *first.shape), dtype=bool)
        holds[holder, np.arange(len(first))[:, None], self._rounds] = True
        while True:
            worker = self._asks.argmin(axis=0)
            now = self._asks[worker, self._rounds]
            left &= first[again] > now  # what has come is needed no more
            useful = left & ~holds[worker, again[:, None], self._rounds]
            which = useful.any(axis=0) & np.isfinite(now)
            idle = ~which
            self._asks[worker[idle], self._rounds[idle]] = np.inf
            if not which.any():
                if np.isinf(self._asks).all():
                    return
                continue
            chosen, rounds = useful.argmax(axis=0)[which], self._rounds[which]
            left[chosen, rounds] = False
            found = self._take(worker[which], now[which], costs[:1], which)[0]
            table[chosen, rounds] = found
            holds[worker[which], again[chosen], rounds] = True
            first[again[chosen], rounds] = np.minimum(first[again[chosen], rounds], found)

    def seen(self, ends: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return computing time and results of every worker up to the end of the round."""
        began = np.where(self._took > 0, self._arrival - self._took, np.inf)
        busy = np.clip(ends - began, 0.0, self._took).sum(axis=1)
        return busy.T, (self._arrival <= ends).sum(axis=1).T
