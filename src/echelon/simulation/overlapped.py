"""A stream whose idle workers begin the next job: round by round, many seeds at once.

As the master does it: in each round, workers that have sent all they had, and for whom the pool has nothing more, take
one row at a time of the next job's first iteration, from the lane with the largest share left, then from its pool;
what has not come when the round ends is begun anew.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from echelon.arrays import BoolArray, FloatArray, IntArray
from echelon.can import Can, Rules
from echelon.delays import Delay, begin_all
from echelon.errors import CannotEvaluate
from echelon.plan import Plan

_SPARE = 4  # fair shares of the next job that one worker may do in a round, at most
_OWN, _LATER = 1e-9, 1e-12  # how a worker decides between lanes with equal shares left


class Overlapped:
    """Rounds of a plan of one slot, whose rows are all different and cost the same; a pool hands out single rows.

    The rows left of a job are counted by lane, and in a last place for the pool: which rows they are does not matter.
    """

    @staticmethod
    def can(plan: Plan, laws: Sequence[Delay], rules: Rules) -> Can:
        """Return whether a plan is one of those."""
        tasks = [*(task for lane in plan.lanes for task in lane), *plan.pooled]
        pool = plan.pool
        if not rules.purge:
            return Can("no worker is idle before all is done")
        if rules.lend:
            return Can("workers that are lent do not work ahead")
        if any(law.per_call for law in laws):
            return Can("what a call costs is not followed where jobs overlap")
        if plan.ending is not None:
            return Can("it ends by a rule of its own, not when its slot is recovered")
        if len(plan.slots) > 1 or plan.slots[0].alone or (plan.codes and not plan.slots[0].counting):
            return Can("there must be one slot, for which any `threshold` rows are enough and fewer never are")
        if len({task.cost for task in tasks}) > 1 or len({task.row for task in tasks}) < len(tasks):
            return Can("every row must be in one place, all at one cost")
        if pool is not None and (pool.ahead or any(len(batch) > 1 for batch in pool.batches)):
            return Can("rows must be handed out one by one")
        return Can()

    def __init__(self, plan: Plan, laws: Sequence[Delay], links: FloatArray) -> None:
        answer = self.can(plan, laws, Rules(overlap=True))
        if not answer:
            raise CannotEvaluate(f"overlap: can't be simulated for this plan: {answer.why_not}; run it in virtual time")
        self._laws, self._links = laws, links
        self._counts = np.array([*plan.counts, len(plan.pooled)], dtype=np.int64)
        self._threshold = plan.slots[0].threshold
        self._cost = next(task.cost for some in (*plan.lanes, plan.pooled) for task in some)
        workers, rows = len(plan.lanes), int(self._counts.sum())
        self._most = int(plan.counts.max()) + len(plan.pooled) + min(rows, _SPARE * -(-rows // workers) + 8)

    def departures(
        self,
        arrivals: FloatArray,
        iterations: int,
        rng: Generator,
        *,
        overlap: bool,
        progress: Callable[[int, int], None] | None = None,
    ) -> FloatArray:
        """Return when each job leaves, for arrivals of shape (seeds, jobs); the same draws with overlap and without."""
        seeds, jobs = arrivals.shape
        memory = begin_all(self._laws, seeds, [rng] * len(self._laws))
        whole = np.broadcast_to(self._counts, (seeds, len(self._counts)))
        now, begun = np.zeros(seeds), whole.copy()
        left = np.empty_like(arrivals)
        for job in range(jobs):
            now = np.maximum(now, arrivals[:, job])
            rest, begun = begun, whole.copy()
            for _ in range(iterations):
                played = _Round(self._links, self._draw(memory, seeds, rng), rest)
                took = self._recovered(played.arrivals, rest)
                if overlap and job + 1 < jobs:
                    waits = arrivals[:, job + 1] <= now
                    if waits.any():
                        begun = _Idle(self._counts, self._threshold, played, begun, took).end(waits)
                now, rest = now + took, whole
            left[:, job] = now
            if progress is not None:
                progress((job + 1) * iterations * seeds, jobs * iterations * seeds)
        return left

    def _draw(self, memory: list[Any], seeds: int, rng: Generator) -> FloatArray:
        """Return task times of a round, shape (seeds, workers, tasks)."""
        times, costs = np.empty((seeds, len(self._laws), self._most)), np.full(self._most, self._cost)
        for p, law in enumerate(self._laws):
            drawn, memory[p] = law.advance_tasks(memory[p], costs, (seeds, 1), rng)
            times[:, p] = drawn[:, 0]
        return times

    def _recovered(self, arrived: FloatArray, rest: IntArray) -> FloatArray:
        """Return when enough rows are there: those that came before count."""
        missing = self._threshold - (self._counts.sum() - rest.sum(axis=1))
        in_order = np.sort(arrived, axis=1)
        found = np.take_along_axis(in_order, np.maximum(missing - 1, 0)[:, None], axis=1)[:, 0]
        return np.where(missing > 0, found, 0.0)


class _Round:
    """A round of the job in service, before its end is known: lanes, then the pool, for as long as there are rows.

    arrivals: of all its rows, shape (seeds, rows); inf for those that are not left.
    asks: when a worker has sent all it had, and the pool is empty. had: how many tasks it had.
    """

    def __init__(self, links: FloatArray, times: FloatArray, rest: IntArray) -> None:
        self.links, self.times, self.had = links, times, rest[:, :-1].copy()
        lanes = links[:, None] + np.cumsum(times[..., : max(1, int(self.had.max()))], axis=2)
        last = np.take_along_axis(lanes, np.maximum(self.had - 1, 0)[..., None], axis=2)[..., 0]
        self.asks = np.where(self.had > 0, last, 0.0)
        lanes = np.where(np.arange(lanes.shape[2]) < self.had[..., None], lanes, np.inf)
        pooled, each = np.full((len(rest), int(rest[:, -1].max())), np.inf), np.arange(len(rest))
        for row in range(pooled.shape[1]):
            seeds = each[rest[:, -1] > row]
            worker = self.asks[seeds].argmin(axis=1)
            pooled[seeds, row] = self.give(seeds, worker)
        self.arrivals = np.hstack([lanes.reshape(len(rest), -1), pooled])

    def give(self, seeds: IntArray, worker: IntArray) -> FloatArray:
        """Give a worker of each seed one more task, when it asks for it; return when its message comes."""
        took = self.times[seeds, worker, self.had[seeds, worker]]
        self.had[seeds, worker] += 1
        self.asks[seeds, worker] += self.links[worker] + took
        return self.asks[seeds, worker]


class _Idle:
    """What idle workers do for the next job before the round ends."""

    def __init__(
        self, counts: IntArray, threshold: int, played: _Round, begun: IntArray, ends: FloatArray
    ) -> None:  # fmt: skip
        self._counts, self._threshold, self._round = counts, threshold, played
        self._each = np.arange(len(begun))
        self._left, self._ends = begun.copy(), ends  # rows of each lane that no worker has
        self._lane = np.full(played.asks.shape, -1)  # whose row a worker is at
        self._came = counts.sum() - begun.sum(axis=1)

    def end(self, waits: BoolArray) -> IntArray:
        """Return how many rows of each lane have not come when the round is over, in seeds where a job waits."""
        asks = self._round.asks
        asks[~waits] = np.inf
        while True:
            worker = asks.argmin(axis=1)
            seeds = np.flatnonzero(asks[self._each, worker] < self._ends)
            if not len(seeds):
                break
            self._step(seeds, worker[seeds])
        seeds, workers = np.nonzero(self._lane >= 0)
        np.add.at(self._left, (seeds, self._lane[seeds, workers]), 1)
        return self._left

    def _step(self, seeds: IntArray, worker: IntArray) -> None:
        """Take in what a worker has sent, and give it another row, of the lane with the largest share left."""
        played = self._round
        self._came[seeds] += self._lane[seeds, worker] >= 0
        self._lane[seeds, worker] = -1
        left = self._left[seeds]
        key = left / np.maximum(self._counts, 1) - _LATER * np.arange(len(self._counts))
        key[:, -1] = -1.0  # the pool comes last
        key[left == 0] = -np.inf
        key[np.arange(len(seeds)), worker] += _OWN
        lane = key.argmax(axis=1)
        more = played.had[seeds, worker] < played.times.shape[2]
        useful = (left.max(axis=1) > 0) & (self._came[seeds] < self._threshold) & more
        played.asks[seeds[~useful], worker[~useful]] = np.inf
        seeds, worker, lane = seeds[useful], worker[useful], lane[useful]
        self._left[seeds, lane] -= 1
        self._lane[seeds, worker] = lane
        played.give(seeds, worker)
