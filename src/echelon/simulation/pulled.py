"""Plans with a pool: which worker gets which batch is decided as the round goes on, in all rounds at once."""

from collections.abc import Sequence
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from echelon.arrays import BoolArray, FloatArray, IntArray
from echelon.can import Can, Rules
from echelon.delays import Delay
from echelon.delays.base import draws, parts_of
from echelon.plan import Plan
from echelon.simulation.selection import kth_smallest

_STEPS = 16  # tasks that are repeated before rounds and rows that are through are put aside


class Pulled:
    """Task times of each worker, and the arrivals that follow from them.

    One slot; in the pool first rows that nobody has, then single ones that somebody has already.
    beside: seconds that each task takes besides computing, one array per lane, in which those of the pool come last.
    """

    quick = True

    @staticmethod
    def can(plan: Plan, laws: Sequence[Delay], rules: Rules) -> Can:
        """Return whether a plan can be evaluated so."""
        if plan.pool is None:
            return Can("it has no pool")
        if plan.ending is not None:
            return Can("it ends by a rule of its own, not when its slot is recovered")
        if not rules.purge:
            return Can("a plan with a pool leaves undone what is not needed")
        if rules.lend or rules.overlap:
            return Can("who is lent, or works ahead, is not followed beside a pool")
        if len(plan.slots) > 1 or plan.slots[0].alone:
            return Can("with a pool there must be one slot, with no row that is enough alone")
        if rules.port:
            return Can("the master's port decides when a worker is given the next task")
        if rules.stay and len({task.row for lane in (*plan.lanes, plan.pooled) for task in lane}) < _tasks(plan):
            return Can("which of the copies that stay is chosen and added up is not known beforehand")
        if plan.codes and not plan.slots[0].counting:
            return Can("fewer rows than the threshold may be enough")
        if len({law.per_call for law in laws}) > 1:
            return Can("with a pool, calls must cost something on all workers or on none")
        fresh, last = _fresh(plan)
        batches = plan.pool.batches[last - len(plan.lanes) :]
        alike = all(len(batch) == 1 and batch[0].cost == batches[0][0].cost for batch in batches)
        if any(fresh[last:]) or not alike:
            return Can("all rows must come before the first that comes again, and these one by one, at one cost")
        return Can()

    def __init__(self, plan: Plan, links: FloatArray, beside: Sequence[FloatArray], rules: Rules) -> None:
        assert plan.pool is not None
        self._plan, self._links, self._beside, self._calls = plan, links, beside, rules.calls
        last = _fresh(plan)[1]
        self._fresh = last - len(plan.lanes)
        self._again = np.array([batch[0].row for batch in plan.pool.batches[self._fresh :]], dtype=np.intp)
        self._last: tuple[_Times, _Run, FloatArray] | None = None  # task times, and what came of them

    @cached_property
    def _most(self) -> int:
        """Most parts that one worker may get; it never gets a row twice."""
        lane = max(int(draws(costs).sum()) for costs in self._plan.costs)
        rows = {task.row: parts_of(task.cost) for task in self._plan.pooled}
        return lane + sum(rows.values())

    def costs(self, p: int) -> FloatArray:
        """Return a cost of one for each part that the worker may get."""
        return np.ones(self._most)

    def empty(self, rounds: int) -> Any:
        """Return room for the parts' times of every worker."""
        return _Times(rounds, self._most)

    def arrive(self, p: int, times: FloatArray, arrivals: Any) -> None:
        """Take note of the times of a worker's parts; what arrives when depends on all of them."""
        arrivals.of_worker.append(times)

    def arrive_paced(self, p: int, paces: FloatArray, arrivals: Any) -> None:
        """Take note of one pace for a worker."""
        arrivals.of_worker.append(paces[:, None])

    def arrive_together(self, paces: FloatArray, arrivals: Any) -> None:
        """Take note of one pace for each worker."""
        arrivals.of_worker.extend(paces[:, :, None])

    def over(self, arrivals: Any) -> tuple[FloatArray, FloatArray]:
        """Return when each round is over, shape (rounds,), and when its slot is recovered: at the same time."""
        ends = self._run(arrivals)[1]
        return ends, ends[None]

    def residual(self, arrivals: Any, ends: FloatArray) -> FloatArray:
        """Return how far what each round gives is from the exact sum: rounds are exact."""
        return np.zeros(len(ends))

    def load(self, arrivals: Any, ends: FloatArray) -> IntArray:
        """Return how many messages arrived until then."""
        came: IntArray = self._run(arrivals)[0].seen(ends)[1].sum(axis=1)
        return came

    def load_with_stop(self, arrivals: Any, recovered: FloatArray) -> IntArray:
        """Return the same: the only slot's end is the round's."""
        return self.load(arrivals, recovered[0])

    def seen(self, arrivals: Any, ends: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return computing time and results of every worker, shape (rounds, workers)."""
        return self._run(arrivals)[0].seen(ends)

    def _run(self, times: "_Times") -> tuple["_Run", FloatArray]:
        """Return the rounds, and when each of them has enough."""
        if self._last is None or self._last[0] is not times:
            run = _Run(self._plan, self._links, self._beside, times, calls=self._calls)
            self._last = times, run, run.recovered(self._fresh, self._again)
        return self._last[1:]


def _tasks(plan: Plan) -> int:
    return plan.tasks + len(plan.pooled)


def _fresh(plan: Plan) -> tuple[list[bool], int]:
    """Return whether each lane and batch has none but new rows, and which is the first that has others."""
    assert plan.pool is not None
    known: set[int] = set()
    fresh = []
    for some in (*plan.lanes, *plan.pool.batches):
        rows = [task.row for task in some]
        fresh.append(known.isdisjoint(rows))
        known.update(rows)
    return fresh, len(fresh) if all(fresh) else fresh.index(False)


class _Times:
    """Times of all workers' parts, shape (rounds, parts) or (rounds, 1) for one pace; copied together as far as needed.

    of_worker: in the order of workers.
    """

    def __init__(self, rounds: int, most: int) -> None:
        self.rounds, self.most = rounds, most
        self.of_worker: list[FloatArray] = []
        self.width = 0  # parts of each that are in the table
        self.table: FloatArray = np.empty(0)  # workers by rounds by parts, flat

    def reach(self, parts: int) -> None:
        """Have at least this many parts of each worker in the table."""
        if parts > self.width:
            self.width = min(self.most, max(parts, 2 * self.width))
            table = np.empty((len(self.of_worker), self.rounds, self.width))
            for mine, times in zip(table, self.of_worker, strict=True):
                mine[:] = times[:, : self.width]
            self.table = table.reshape(-1)


class _Run:
    """Rounds as they go on: which tasks each worker has had, and when their messages come."""

    def __init__(
        self, plan: Plan, links: FloatArray, beside: Sequence[FloatArray], times: _Times, *, calls: bool
    ) -> None:
        assert plan.pool is not None
        self._calls = calls
        self._plan, self._links, self._ahead, self._beside = plan, links, plan.pool.ahead, beside
        # what the tasks of the pool take besides, the same for everybody
        self._pooled = beside[0][len(plan.lanes[0]) :]
        self._times, self._count = times, times.rounds
        workers = len(links)
        times.reach(min(times.most, int(plan.counts.max()) + 2 * len(plan.pooled) // workers))  # more where needed
        # of every worker in every round, one after another: tasks that it had, when it is through with them, and when
        # the messages of the last ones come, by the task's number
        size = workers * self._count
        self._had, self._free = np.zeros(size, dtype=np.intp), np.full(size, -np.inf)
        self._parts = np.zeros(size, dtype=np.intp)  # that its tasks had, or those of its last call
        self._given = np.zeros(size)  # when that was
        self._lately = np.empty((self._ahead + 1, size)).reshape(-1)
        self._handed: list[tuple[Any, IntArray, FloatArray, FloatArray]] = []  # to whom, in which rounds, until, took

    def recovered(self, fresh: int, again: IntArray) -> FloatArray:
        """Return when each round has as many rows as it needs, shape (rounds,)."""
        plan, rounds = self._plan, np.arange(self._count)
        assert plan.pool is not None
        first = np.full((plan.slots[0].rows, self._count), np.inf)  # message of each row
        holder: IntArray = np.full(first.shape, -1)  # whose it is
        asks = np.zeros((len(plan.lanes), self._count))  # when a worker is to get the next batch
        for p, lane in enumerate(plan.lanes):
            if lane:
                rows = [task.row for task in lane]
                who, more = np.full(self._count, p), self._beside[p][: len(lane)]
                first[rows], asks[p] = self._take(who, rounds, asks[p], plan.costs[p], more)
                holder[rows] = p
        at = 0
        for batch in plan.pool.batches[:fresh]:
            worker, now = _next(asks)
            rows, costs = [task.row for task in batch], np.array([task.cost for task in batch])
            more = self._pooled[at : at + len(batch)]
            first[rows], asks[worker, rounds] = self._take(worker, rounds, now, costs, more)
            holder[rows] = worker
            at += len(batch)
        if len(again):
            cost = np.array([plan.pool.batches[fresh][0].cost])
            self._repeat(_Again(again, first, holder, len(asks)), asks, first, cost, self._pooled[at:])
        threshold = plan.slots[0].threshold
        return first.max(axis=0) if threshold == len(first) else kth_smallest(first, threshold - 1)

    def _take(
        self, worker: IntArray, rounds: IntArray, now: FloatArray, costs: FloatArray, beside: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Give a worker, in each of these rounds, tasks of these costs; return when messages come, and when it asks.

        beside: seconds that each takes besides, shape (tasks,) or (tasks, rounds).
        """
        at = worker * self._count + rounds
        had, free = self._had[at], self._free[at]
        until = np.maximum(free, now + self._links[worker])
        found = np.empty((len(costs), len(rounds)))
        each, parts = draws(costs), self._parts[at]
        if self._calls:
            parts = np.where(now > self._given[at], 0, parts)
            self._given[at] = now
        self._times.reach(int(parts.max()) + int(each.sum()))
        part, times = at * self._times.width + parts, self._times.table
        for i, (cost, more) in enumerate(zip(costs.tolist(), each.tolist(), strict=True)):
            took = (cost - (more - 1)) * times[part + more - 1] + beside[i]
            for j in range(more - 1):
                took += times[part + j]
            part += more
            until = np.add(until, took, out=found[i])
            if self._ahead:
                self._lately[(had + i) % (self._ahead + 1) * len(self._free) + at] = until
            self._handed.append((worker, rounds, until, took))
        self._had[at], self._free[at], self._parts[at] = had + len(costs), until, parts + each.sum()
        if not self._ahead:
            return found, until
        had += len(costs)
        last = self._lately[had % (self._ahead + 1) * len(self._free) + at]
        return found, np.where(had > self._ahead, last, now)

    def _repeat(
        self, left: "_Again", asks: FloatArray, first: FloatArray, cost: FloatArray, beside: FloatArray
    ) -> None:
        """Hand out rows once more, one at a time, to workers that would be idle."""
        rounds = np.arange(self._count)
        for step in count():
            worker, now = _next(asks)
            if step % _STEPS == 0:
                going = left.put_aside(now)
                rounds, asks, worker, now = rounds[going], asks[:, going], worker[going], now[going]
                if not len(rounds):
                    return
            chosen, which = left.useful(worker, now)
            asks[worker, np.arange(len(rounds))] = np.inf  # unless there is something for it
            if which.any():
                worker, some = worker[which], rounds[which]
                more = beside[left.places(which, chosen[which])][None]
                found, asks[worker, which] = self._take(worker, some, now[which], cost, more)
                rows = left.take(which, chosen[which], worker, found[0])
                first[rows, some] = np.minimum(first[rows, some], found[0])

    def seen(self, ends: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return computing time and results of every worker up to the end of the round, shape (rounds, workers)."""
        shape = (self._count, len(self._links))
        busy, done = np.zeros(shape), np.zeros(shape, dtype=np.int64)
        for worker, rounds, until, took in self._handed:
            end = ends[rounds]
            busy[rounds, worker] += np.clip(end - (until - took), 0.0, took)
            done[rounds, worker] += until <= end
        return busy, done


def _next(asks: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return who asks first in each round, and when: `argmin`, by passes over whole rows, which are quicker."""
    now = asks.min(axis=0)
    back = np.arange(len(asks), 0, -1, dtype=np.min_scalar_type(len(asks)))
    return len(asks) - ((asks == now) * back[:, None]).max(axis=0).astype(np.intp), now


class _Again:
    """Rows that may be handed out again, in order: tables of rounds by rows, of which those that are through go.

    again: the rows, each as often as it may come again. first: when the message of each row comes, as things are.
    holder: who has it.
    """

    def __init__(self, again: IntArray, first: FloatArray, holder: IntArray, workers: int) -> None:
        places: dict[int, list[int]] = {}
        for place, row in enumerate(again.tolist()):
            places.setdefault(row, []).append(place)
        rows, rounds = np.array(list(places)), first.shape[1]
        # where each row comes for the n-th time, and after the last time never; all its places are alike
        self._none = len(again)
        most = max(map(len, places.values()))
        self._places = np.array([[*some, *[self._none] * (1 + most - len(some))] for some in places.values()])
        self._rows = np.broadcast_to(rows, (rounds, len(rows)))
        self._at = np.broadcast_to(np.arange(len(rows)), (rounds, len(rows)))  # in the list of places
        self._times = np.zeros((rounds, len(rows)), dtype=np.intp)  # that it was handed out again
        self._until = first[rows].T.copy()  # when it is needed no more
        self._next = np.repeat(self._places[:, 0][None], rounds, axis=0).astype(np.min_scalar_type(self._none))
        self._holder, self._workers = holder[rows].T, workers
        self._has: BoolArray | None = None  # who, in which round, has which row; made when most rows are put aside

    def put_aside(self, now: FloatArray) -> IntArray:
        """Drop rounds with nothing left at these times, and rows that are through; return the rounds that go on."""
        left = (self._until > now[:, None]) & (self._next < self._none)
        counts = left.sum(axis=1)
        going = np.flatnonzero(counts)
        order = np.argsort(~left[going], axis=1, kind="stable")[:, : counts.max(initial=0)]
        self._rows, self._at, self._times, self._until, self._next = (
            np.take_along_axis(table[going], order, axis=1)
            for table in (self._rows, self._at, self._times, self._until, self._next)
        )
        if self._has is None:
            holder = np.take_along_axis(self._holder[going], order, axis=1)
            self._has = holder == np.arange(self._workers)[:, None, None]
        else:
            self._has = np.take_along_axis(self._has[:, going], order[None], axis=2)
        return going

    def useful(self, worker: IntArray, now: FloatArray) -> tuple[IntArray, BoolArray]:
        """Return the first that each worker could take, by its place in the table, and whether there is one."""
        assert self._has is not None
        each = np.arange(len(now))
        could = (self._until > now[:, None]) & ~self._has[worker, each]
        first = np.where(could, self._next, self._none)
        chosen = first.argmin(axis=1)
        return chosen, first[each, chosen] < self._none

    def places(self, which: BoolArray, chosen: IntArray) -> IntArray:
        """Return which of the rows that come again are chosen in some rounds, counted from the first of them."""
        found: IntArray = self._next[np.flatnonzero(which), chosen].astype(np.intp)
        return found

    def take(self, which: BoolArray, chosen: IntArray, worker: IntArray, found: FloatArray) -> IntArray:
        """Hand them out in some rounds, and return which rows that were."""
        assert self._has is not None
        rounds = np.flatnonzero(which)
        self._times[rounds, chosen] += 1
        self._next[rounds, chosen] = self._places[self._at[rounds, chosen], self._times[rounds, chosen]]
        self._until[rounds, chosen] = np.minimum(self._until[rounds, chosen], found)
        self._has[worker, rounds, chosen] = True
        return self._rows[rounds, chosen]
