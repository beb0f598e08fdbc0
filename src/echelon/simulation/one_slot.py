"""The quick way for plans in which the K-th of all arrivals ends the round, or the last where nothing is purged."""

import numpy as np

from echelon.arrays import FloatArray, IntArray
from echelon.plan import Plan


class OneSlot:
    """Arrivals as a table of rounds by tasks, of which only those that can decide are kept."""

    def __init__(self, plan: Plan, links: FloatArray, *, purge: bool) -> None:
        self._plan, self._links, self._purge = plan, links, purge
        if not purge:
            # every row is awaited, so only the end of each lane matters
            tails = [1 if lane else 0 for lane in plan.lanes]
        else:
            # the K-th of n arrivals is one of the n - K + 1 last, which are among as many last ones of each lane
            spare = plan.tasks - plan.slots[0].threshold
            tails = [min(len(lane), spare + 1) for lane in plan.lanes]
        self._tails = tails
        self._offsets = np.concatenate([[0], np.cumsum(tails)])
        self._heads = plan.counts - tails
        self._lane_of = np.repeat(np.eye(len(plan.lanes), dtype=np.float32), tails, axis=0)

    def empty(self, rounds: int) -> FloatArray:
        """Return memory of shape (rounds, tasks that can decide)."""
        return np.empty((rounds, self._offsets[-1]))

    def arrive(self, p: int, times: FloatArray, arrivals: FloatArray) -> None:
        """Write the arrivals of the last tasks of lane p, link + T_1 + … + T_j (stream, note 1)."""
        out = arrivals[:, self._offsets[p] : self._offsets[p + 1]]
        costs = self._plan.costs[p]
        if times.shape[1] < len(costs) or len(costs) == 1:  # one pace for all
            np.multiply(times, np.cumsum(costs)[len(costs) - self._tails[p] :], out=out)
            out += self._links[p]
            return
        if not self._plan.unit_costs:
            times = times * costs
        head = times.shape[1] - self._tails[p]
        if head:
            # a product with ones is the quickest sum of short rows
            times[:, head] += times[:, :head] @ np.ones(head)
        times[:, head] += self._links[p]
        np.cumsum(times[:, head:], axis=1, out=out)

    def arrive_together(self, paces: FloatArray, arrivals: FloatArray) -> None:
        """Write all arrivals from one pace a worker."""
        for p in np.flatnonzero(self._plan.counts).tolist():
            self.arrive(p, paces[p][:, None], arrivals)

    def recovered(self, arrivals: FloatArray) -> FloatArray:
        """Return the K-th arrival of each round, or the last, shape (1, rounds)."""
        if not self._purge:
            return np.max(arrivals, axis=1, out=np.empty(len(arrivals)))[None]
        place = self._plan.slots[0].threshold - 1 - (self._plan.tasks - arrivals.shape[1])
        return np.partition(arrivals, place, axis=1)[:, place][None]

    def load(self, arrivals: FloatArray, ends: FloatArray) -> IntArray:
        """Return the arrivals up to the end; those left out arrived before."""
        came: IntArray = np.count_nonzero(arrivals <= ends[:, None], axis=1) + int(self._heads.sum())
        return came

    def load_with_stop(self, arrivals: FloatArray, recovered: FloatArray) -> IntArray:
        """Return the same: the round ends with its slot."""
        return self.load(arrivals, recovered[0])

    def seen(self, arrivals: FloatArray, ends: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return computing time and results of every worker, shape (rounds, workers)."""
        arrived = (arrivals <= ends[:, None]).astype(np.float32)
        # a product with indicators counts a lane's arrivals quicker than a sum of booleans
        done = (arrived @ self._lane_of).astype(np.int64)
        done += self._heads
        # a lane without tasks borrows its neighbour's last column, and is then set to 0
        busy = np.minimum(arrivals[:, np.maximum(self._offsets[1:] - 1, 0)], ends[:, None])
        busy -= self._links
        np.maximum(busy, 0.0, out=busy)
        busy[:, self._plan.counts == 0] = 0.0
        return busy, done
