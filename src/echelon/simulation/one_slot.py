"""The quick way for plans in which the K-th of all arrivals ends the round, or the last where nothing is purged."""

from collections.abc import Sequence

import numpy as np

from echelon.arrays import FloatArray, IntArray
from echelon.can import Can, Rules
from echelon.delays import Delay
from echelon.plan import Plan


class OneSlot:
    """Arrivals as a table of rounds by tasks, of which only those that can decide are kept.

    beside: seconds that each task takes beyond computing, one array per lane.
    """

    quick = True

    @staticmethod
    def can(plan: Plan, laws: Sequence[Delay], rules: Rules) -> Can:
        """Return whether a plan can be evaluated this way."""
        if plan.ending is not None:
            return Can("it ends by a rule of its own, not when its slot is recovered")
        if rules.lend or rules.overlap:
            return Can("which workers are lent, or work ahead, is decided during the round")
        if plan.pool is not None:
            return Can("which worker takes what from a pool is decided during the round")
        if rules.port:
            return Can("when a message has passed the master's port depends on all that came before it")
        if not rules.purge:
            return Can("rows that stay are added up when there are enough" if rules.stay else "")
        if not plan.counts_suffice:
            return Can("there is more than one slot, or some rows are in two lanes or enough alone")
        return Can("" if plan.slots[0].counting or not plan.codes else "fewer rows than the threshold may be enough")

    def __init__(self, plan: Plan, links: FloatArray, beside: Sequence[FloatArray], rules: Rules) -> None:
        self._plan, self._links, self._purge = plan, links, rules.purge
        self._beside = [np.cumsum(some) for some in beside]
        if not self._purge:
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

    def costs(self, p: int) -> FloatArray:
        """Return the costs of all tasks of the lane."""
        return self._plan.costs[p]

    def arrive(self, p: int, times: FloatArray, arrivals: FloatArray) -> None:
        """Write the arrivals of the last tasks of lane p, link + T_1 + … + T_j (stream, note 1)."""
        out = arrivals[:, self._offsets[p] : self._offsets[p + 1]]
        head = times.shape[1] - self._tails[p]
        if head:
            # multiplying by ones is the quickest sum of short rows
            times[:, head] += times[:, :head] @ np.ones(head)
        times[:, head] += self._links[p]
        np.cumsum(times[:, head:], axis=1, out=out)

    def arrive_paced(self, p: int, paces: FloatArray, arrivals: FloatArray) -> None:
        """Write the arrivals of the last tasks of a lane whose parts all take the same time."""
        out = arrivals[:, self._offsets[p] : self._offsets[p + 1]]
        reach = np.cumsum(self._plan.costs[p])
        head = len(reach) - self._tails[p]
        np.multiply(paces[:, None], reach[head:], out=out)
        out += self._links[p] + self._beside[p][head:]

    def arrive_together(self, paces: FloatArray, arrivals: FloatArray) -> None:
        """Write all arrivals from one pace per worker."""
        for p in np.flatnonzero(self._plan.counts).tolist():
            self.arrive_paced(p, paces[p], arrivals)

    def over(self, arrivals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the K-th arrival of each round, or the last: the end of the round, and of its slots."""
        if not self._purge:
            ends: FloatArray = np.max(arrivals, axis=1, out=np.empty(len(arrivals)))
        else:
            place = self._plan.slots[0].threshold - 1 - (self._plan.tasks - arrivals.shape[1])
            ends = np.partition(arrivals, place, axis=1)[:, place]
        return ends, ends[None]

    def residual(self, arrivals: FloatArray, ends: FloatArray) -> FloatArray:
        """Return how far what each round gives is from the exact sum: rounds are exact."""
        return np.zeros(len(ends))

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
        # multiplying by indicators counts a lane's arrivals quicker than summing booleans
        done = (arrived @ self._lane_of).astype(np.int64)
        done += self._heads
        # a lane without tasks borrows its neighbour's last column, and is then set to 0
        busy = np.minimum(arrivals[:, np.maximum(self._offsets[1:] - 1, 0)], ends[:, None])
        busy -= self._links
        np.maximum(busy, 0.0, out=busy)
        busy[:, self._plan.counts == 0] = 0.0
        return busy, done
