"""A worker in virtual time: it runs the lane that every worker runs, without waiting for its rows."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from echelon.arrays import NumberArray
from echelon.cause import Cause
from echelon.clusters.base import Message, Work
from echelon.clusters.lane_worker import Given, LaneWorker
from echelon.clusters.pace import Pace
from echelon.plan import Task, stopped_as

if TYPE_CHECKING:
    from echelon.clusters.virtual import VirtualCluster

Order = tuple[int, float, int, tuple[Work, Any], tuple[Task, ...]]  # round, start, key, work and state, tasks


class VirtualWorker(LaneWorker):
    """A worker whose lane is computed row by row, each when it is due.

    up, alive, cut, hung: whether it has come up, was not killed, is out of reach, takes no notice of anything.
    stopped_by_system: whether it hangs because it was stopped, and not because its task never returns.
    task: the current one, which `began` some time ago and took `seconds`.
    """

    keeps = holds = True

    def __init__(self, cluster: "VirtualCluster", number: int, place: int, pace: Pace) -> None:
        super().__init__(pace)
        self._cluster, self.number, self.place, self._drawn = cluster, number, place, pace
        self.stay_bytes = cluster.stay_bytes
        self.up = self.cut = self.hung = self.stopped_by_system = False
        self.alive = True
        self.slow = 1.0
        self.task: Given | None = None
        self.seconds = self.began = 0.0
        self._over = 0
        self._stopped: dict[int, int] = {}  # the round in which a slot was last recovered
        self._known: set[int] = set()  # keys of work that it loaded
        self._waiting: list[Callable[[], None]] = []  # what came while it was stopped
        self._turn = 0  # events of an earlier turn are void

    def over(self) -> int:
        """Return the last round that needs no work."""
        return self._over

    def stopped(self, slot: int) -> bool:
        """Return whether a slot of the current round needs no more work."""
        return self._stopped.get(slot) == self.round

    def take(self, timeout_s: float | None) -> None:
        """Never called: orders arrive as events."""
        raise AssertionError("a virtual worker waits for nothing")

    def awake(self, happen: Callable[[], None]) -> bool:
        """Return whether something may happen to it now; else it happens when the worker goes on."""
        if self.hung and self.alive:
            self._waiting.append(happen)
        return self.alive and not self.hung

    def go_on(self) -> None:
        """Go on after a halt, unless its task never returns."""
        self.stopped_by_system = False
        if self.at_row in self._cluster.endless:
            return
        self.hung = False
        waiting, self._waiting = self._waiting, []
        for happen in waiting:
            happen()

    def order(self, order: Order) -> None:
        """Take tasks; those of an earlier round are ignored."""
        round, start, key, brought, tasks = order
        if not self.awake(partial(self.order, order)) or self.cut or round < self.round:
            return
        if round > self.round:
            self._halt()
            if key not in self._known:
                self._known.add(key)
                if self._cluster.loading(self):
                    return
        # a lane that raised is gone, and the news of it may be lost: then the next order begins another one
        bring = None if round == self.round and self._lane is not None else lambda: brought
        self.begin(round, start, [(task.slot, task.row, task.cost) for task in tasks], bring)
        self._next()

    def end_round(self, round: int) -> None:
        """Drop what is left of a round."""
        if self.awake(partial(self.end_round, round)):
            self._over = max(self._over, round)
            if self.round <= round:
                self._tasks.clear()
                self._halt()

    def end_slot(self, round: int, slot: int) -> None:
        """Drop what is left of a slot, including the current task."""
        if not self.awake(partial(self.end_slot, round, slot)):
            return
        self._stopped[slot] = round
        if round == self.round and self.task is not None and stopped_as(self.task.slot) == slot:
            self._halt()
            self._drawn.cut(self._cluster.time)
            self._next()

    def forget(self) -> None:
        """Drop the lane."""
        super().forget()
        self._halt()

    def die(self) -> tuple[int, int, int] | None:
        """Stop for good; return what it was computing."""
        self.alive = False
        at = self.at_row
        self._halt()
        return at

    @property
    def reachable(self) -> bool:
        """Whether others can read what it holds."""
        return self.alive and not self.cut and not self.hung

    @property
    def at_row(self) -> tuple[int, int, int] | None:
        """The round, slot and row that it is computing."""
        return None if self.task is None else (self.round, self.task.slot, self.task.row)

    def get_stuck(self) -> None:
        """Hang from now on, if the current task is one that never returns."""
        if self.at_row in self._cluster.endless and not self.hung:
            self.hung = True
            self._turn += 1

    def _halt(self) -> None:
        self.task = None
        self._turn += 1

    def _next(self) -> None:
        """Begin the next task, unless one is under way."""
        if self.task is None:
            self.task = self.next_task()
            self.began = self._cluster.time
            if self._cluster.endless:
                self.get_stuck()
            if self.task is not None and not self.hung:
                due, self.seconds = self._drawn.due(self.task.cost, given=self.task.at, slower=self.slow)
                self._cluster.at(due, partial(self._computed, self._turn))

    def _computed(self, turn: int) -> None:
        """Compute the current task, whose time is over, and send it."""
        if not self.awake(partial(self._computed, turn)) or turn != self._turn or self.task is None:
            return
        found = self.compute(self.task)
        if found is None:
            self.task = None
            self._next()
            return
        took = self._cluster.sending_s(found[1], stays=self.stays(self.task.slot, found[0]))
        if took:
            self._cluster.at(self._drawn.spend(took), partial(self._leave, turn, *found))
        else:
            self._leave(turn, *found)

    def _leave(self, turn: int, form: bytes, segments: list[NumberArray]) -> None:
        if self.awake(partial(self._leave, turn, form, segments)) and turn == self._turn and self.task is not None:
            task, self.task = self.task, None
            self.send(task.slot, task.row, self.seconds, form, segments)
            self._next()

    def send(self, slot: int, row: int, seconds: float, form: bytes, segments: list[NumberArray]) -> None:
        """Send the message of a row."""
        message = Message(self.number, self.round, slot, row, seconds, form, segments)
        self._cluster.send(self, message, stays=self.stays(slot, form))

    def complain(self, cause: Cause) -> None:
        """Tell the master that a task raised."""
        self._cluster.report(self, cause)
