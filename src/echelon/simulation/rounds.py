"""Rounds of a plan, many at a time: arrival times, then the moment at which every slot is recovered.

This is the path that samples every task. It works for any plan and any delay law, and keeps what the master
sees of every worker: how long it computed and how many results it sent before the round was over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.random import Generator

from echelon.arrays import FloatArray, IntArray
from echelon.delays import Delay, per_worker
from echelon.errors import ArgumentError
from echelon.plan import Plan


@dataclass(frozen=True, slots=True)
class Rounds:
    """What happened in a batch of rounds.

    times: duration of each round, shape (seeds, rounds).
    busy: time each worker computed, links excluded, shape (seeds, rounds, workers).
    done: results each worker sent before the round was over, shape (seeds, rounds, workers).
    """

    times: FloatArray
    busy: FloatArray
    done: IntArray


class RoundSampler:
    """Draws rounds of one plan on workers with the given laws and links.

    >>> from echelon.delays import Deterministic
    >>> from echelon.schemes import any_k
    >>> sampler = RoundSampler(any_k([2, 1], critical=2), Deterministic(time=1.0), np.array([0.5, 0.0]))
    >>> state = sampler.begin(1, np.random.default_rng(1))
    >>> sampler.draw(state, 1, 1, np.random.default_rng(1))[0].times.tolist()
    [[1.5]]
    """

    def __init__(self, plan: Plan, laws: Delay | Sequence[Delay], links: FloatArray, *, purge: bool = True) -> None:
        workers = len(plan.lanes)
        self.plan = plan
        self.laws = per_worker(laws, workers)
        self.links = np.asarray(links, dtype=np.float64)
        if self.links.shape != (workers,):
            raise ArgumentError(f"links: shape {self.links.shape} is not allowed; must be ({workers},), one a lane")
        self.purge = purge
        self._active = [p for p in range(workers) if plan.lanes[p]]
        if not purge:
            # every row is awaited, so only the end of each lane matters
            self._tails = [1 if lane else 0 for lane in plan.lanes]
        elif plan.counts_suffice:
            # the K-th of n arrivals is one of the n - K + 1 last, which are among as many last ones of each lane
            spare = plan.tasks - plan.slots[0].threshold
            self._tails = [min(len(lane), spare + 1) for lane in plan.lanes]
        else:
            self._tails = [len(lane) for lane in plan.lanes]
            self._order, self._starts, self._slot_rows = _row_groups(plan)
        self._offsets = np.concatenate([[0], np.cumsum(self._tails)])
        self._heads = plan.counts - self._tails
        self._lane_of = np.repeat(np.eye(workers, dtype=np.float32), self._tails, axis=0)

    def begin(self, seeds: int, rng: Generator) -> list[Any]:
        """Return what the laws must remember of `seeds` independent runs before the first round."""
        return [self.laws[p].begin(seeds, rng) for p in self._active]

    def draw(self, state: list[Any], seeds: int, rounds: int, rng: Generator) -> tuple[Rounds, list[Any]]:
        """Return the next rounds of every run and the state after them."""
        arrivals = np.empty((seeds * rounds, self._offsets[-1]))
        after = []
        for p, memory in zip(self._active, state, strict=True):
            size = (seeds, rounds, len(self.plan.lanes[p]))
            times, memory = self.laws[p].advance(memory, size, rng)
            after.append(memory)
            self._arrive(p, times.reshape(seeds * rounds, -1), arrivals)
        ends = self._ends(arrivals)
        busy, done = self._seen(arrivals, ends)
        shape = (seeds, rounds, len(self.plan.lanes))
        return Rounds(ends.reshape(shape[:2]), busy.reshape(shape), done.reshape(shape)), after

    def _arrive(self, p: int, times: FloatArray, arrivals: FloatArray) -> None:
        """Write the arrivals of the last tasks of lane p, link + T_1 + … + T_j (stream, note 1)."""
        if not self.plan.unit_costs:
            times *= self.plan.costs[p]
        head = times.shape[1] - self._tails[p]
        if head:
            # a product with ones is the quickest sum of short rows
            times[:, head] += times[:, :head] @ np.ones(head)
        times[:, head] += self.links[p]
        np.cumsum(times[:, head:], axis=1, out=arrivals[:, self._offsets[p] : self._offsets[p + 1]])

    def _ends(self, arrivals: FloatArray) -> FloatArray:
        if not self.purge:
            return np.max(arrivals, axis=1, out=np.empty(len(arrivals)))
        if self.plan.counts_suffice:
            place = self.plan.slots[0].threshold - 1 - (self.plan.tasks - arrivals.shape[1])
            return np.partition(arrivals, place, axis=1)[:, place]
        earliest = np.minimum.reduceat(arrivals[:, self._order], self._starts, axis=1)
        ends = np.zeros(len(arrivals))
        for slot, rows in zip(self.plan.slots, self._slot_rows, strict=True):
            place = slot.threshold - 1
            np.maximum(ends, np.partition(earliest[:, rows], place, axis=1)[:, place], out=ends)
        return ends

    def _seen(self, arrivals: FloatArray, ends: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return computing time and results of every worker, shape (rounds, workers)."""
        arrived = (arrivals <= ends[:, None]).astype(np.float32)
        # a product with indicators counts a lane's arrivals quicker than a sum of booleans
        done = (arrived @ self._lane_of).astype(np.int64)
        done += self._heads
        # a lane without tasks borrows its neighbour's last column, and is then set to 0
        busy = np.minimum(arrivals[:, np.maximum(self._offsets[1:] - 1, 0)], ends[:, None])
        busy -= self.links
        np.maximum(busy, 0.0, out=busy)
        busy[:, self.plan.counts == 0] = 0.0
        return busy, done


def _row_groups(plan: Plan) -> tuple[IntArray, IntArray, list[slice]]:
    """Return columns sorted by (slot, row), where each distinct row starts, and the rows of each slot."""
    keys = np.array([(task.slot, task.row) for lane in plan.lanes for task in lane])
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    ranked = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(ranked, axis=0) != 0).any(axis=1)]))
    slots = ranked[starts, 0]
    edges = np.searchsorted(slots, np.arange(len(plan.slots) + 1))
    return order, starts, [slice(int(a), int(b)) for a, b in pairwise(edges)]
