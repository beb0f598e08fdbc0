"""The first round of the job that follows, done ahead by idle workers.

Its tasks are part of the current round, as slots from `AHEAD` on, and end with it. The driver keeps what came of them:
it says so when the round after is planned, and when the job's own turn comes.
"""

from collections.abc import Iterable

from echelon.master.actions import Assign
from echelon.master.collection import Collection
from echelon.master.events import PlannedAhead
from echelon.plan import AHEAD, Task


class Ahead:
    """What idle workers do in one round for the job in `planned`.

    Where a row costs the same whatever its worker did before, they take one row at a time, of the lane with the largest
    share left: so what is left takes all workers about as long when the job's turn comes. Otherwise each worker does
    its own lane.
    """

    def __init__(self, round: int, planned: PlannedAhead) -> None:
        self.round, self.job = round, planned.job
        collection = self._collection = Collection(round, planned.plan, planned.codes, came=planned.came)
        whole = planned.plan.lanes
        self._lanes = {worker: [*collection.rest(lane)] for worker, lane in zip(planned.workers, whole, strict=True)}
        self._planned = {worker: len(lane) for worker, lane in zip(planned.workers, whole, strict=True)}
        # if a second row costs less than it does alone, it shares parts with the first
        self._chained = any(
            task.cost < planned.codes[task.slot].cost(task.row)
            for lane in whole
            for task in lane[1:2]
            if planned.codes and not planned.codes[task.slot].precoded
        )

    def busy(self, worker: int) -> bool:
        """Return whether a worker is working on it."""
        return self._collection.busy[worker] > 0

    def give(self, idle: Iterable[int]) -> list[Assign]:
        """Return what these workers are to do: tasks of the lanes, and then of the pool."""
        collection, given = self._collection, list[Assign]()
        for worker in idle:
            if all(collection.ready) or self.busy(worker):
                continue
            tasks = self._lanes.pop(worker, []) if self._chained else self._next(worker)
            given += [collection.give(worker, tasks)] if tasks else collection.pull([worker])
        return [Assign(one.worker, self.round, tuple(map(self._shifted, one.tasks))) for one in given]

    def _next(self, worker: int) -> list[Task]:
        """Return the first task of a worker's own lane, or the last of another one's."""
        lanes = [(len(left) / self._planned[owner], owner == worker, -owner, left)
                 for owner, left in self._lanes.items() if left]  # fmt: skip
        if not lanes:
            return []
        *_, mine, _, left = max(lanes)
        return [left.pop(0 if mine else -1)]

    def _shifted(self, task: Task) -> Task:
        return Task(slot=AHEAD + task.slot, row=task.row, cost=task.cost)

    def receive(self, worker: int, slot: int, row: int, now: float) -> None:
        """Note a row, by the number that its slot has in the round."""
        if self._collection.knows(slot - AHEAD, row):
            self._collection.busy[worker] -= 1
            self._collection.receive(slot - AHEAD, row, now)

    def lose(self, worker: int) -> bool:
        """Forget a worker; return whether it was working on it."""
        at_it = self.busy(worker)
        self._lanes.pop(worker, None)
        self._collection.lose(worker, None)
        del self._collection.busy[worker]
        return at_it
