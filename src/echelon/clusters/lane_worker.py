"""What a worker does on every cluster: takes orders, computes its lane, sends each message when it is ready."""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from echelon import trees
from echelon.arrays import NumberArray
from echelon.cause import Cause, caught
from echelon.clusters.ahead import AheadState
from echelon.clusters.ahead_lane import AheadLane
from echelon.clusters.base import Remembers, Work
from echelon.clusters.lane import Lane, only_added
from echelon.clusters.narrow import is_narrow
from echelon.clusters.pace import Pace
from echelon.codes.combine import largest
from echelon.delays.base import parts_of
from echelon.plan import is_ahead, stopped_as
from echelon.ports import LARGE


@dataclass(frozen=True, slots=True)
class Given:
    """A task as a worker has it: slot, row, cost, and when it was given out."""

    slot: int
    row: int
    cost: float
    at: float


class LaneWorker(ABC):
    """What a worker does, wherever it runs: takes orders, computes its lane, sends each message when it is ready.

    A subclass says how orders come, how messages leave (`keeps`: uncopied; `holds`: large rows that are only added up
    stay here, and are announced; `stay_bytes`: how large), which rounds are over, and which slots of the current round.
    """

    keeps = holds = False
    stay_bytes: float = LARGE

    def __init__(self, pace: Pace | None) -> None:
        self.open = True
        self.round = 0
        self._slot = self._row = 0  # the current row
        self._pace = pace
        self._lane: Lane | AheadLane | None = None
        self._tasks: deque[Given] = deque()
        self._memories: WeakKeyDictionary[Work, dict[Any, Any]] = WeakKeyDictionary()

    @abstractmethod
    def over(self) -> int:
        """Return the last round that needs no work."""

    @abstractmethod
    def stopped(self, slot: int) -> bool:
        """Return whether a slot of the current round needs no more work; `AHEAD` stands for all of the next job's."""

    @abstractmethod
    def take(self, timeout_s: float | None) -> None:
        """Wait for one order, at most this long, and act on it: `begin`, or set `open` to False."""

    @abstractmethod
    def send(self, slot: int, row: int, seconds: float, form: bytes, segments: list[NumberArray]) -> None:
        """Send the message of a row."""

    @abstractmethod
    def complain(self, cause: Cause) -> None:
        """Tell the master that a task raised."""

    def allocate(self, form: bytes, device: Any) -> list[NumberArray] | None:
        """Return memory that a message of this form is to be written into, or None for any.

        device: of torch, where one array may lie there; None for this process's own memory.
        """
        return None

    def copy(self, segment: NumberArray) -> NumberArray:
        """Return a copy of part of a result, to be kept."""
        return segment.copy()

    def stage(self, form: bytes, segments: list[NumberArray]) -> None:  # noqa: B027 - most just send
        """Get a message ready, so that it can leave at once when it is due."""

    def abandon(self) -> None:  # noqa: B027 - most workers have no memory to give back
        """Give up the message that is being computed, with the memory it got from `allocate`."""

    def rest(self) -> None:  # noqa: B027 - most workers have nothing to say
        """Do what is left to do when there is nothing to compute."""

    def at(self, slot: int, row: int) -> None:  # noqa: B027 - some workers have nowhere to say it
        """Note which row is being computed, and that a part of it begins: to be found if the worker dies here."""

    def run(self) -> None:
        """Work until an order says to stop."""
        while self.open:
            if self._tasks:
                self._step()
            else:
                self.rest()
                self.take(None)

    def wanted(self) -> bool:
        """Return whether the current row is still needed; asked before each part of it."""
        if not self._going() or self.stopped(stopped_as(self._slot)):
            return False
        self.at(self._slot, self._row)
        return True

    def _going(self) -> bool:
        return self.open and self.round > self.over()

    def begin(
        self,
        round: int,
        start: float,
        tasks: Iterable[tuple[int, int, float]],
        bring: Callable[[], tuple[Work, Any]] | None,
    ) -> None:
        """Append tasks to the lane of a round; the first of them bring work and state, and end the round before."""
        given = [Given(slot, row, cost, start) for slot, row, cost in tasks]
        if bring is None:
            if round == self.round and self._lane is not None:
                self._append(self._lane, given)
            return
        self.round, self._lane = round, None
        self._tasks.clear()
        if self._pace is not None:
            # drawn even if the round is over by now, so that a round's times depend on its number alone
            self._pace.begin(round=round, start=start, parts=sum(parts_of(task.cost) for task in given))
        if not self._going():
            return
        self.at(given[0].slot, given[0].row)  # the work's own import may kill the worker
        try:
            lane = self._new_lane(*bring())
        except BaseException as error:  # user code that exits fails its job, not the worker
            self.complain(caught(error, at=(given[0].slot, given[0].row)))
            return
        self._append(lane, given)

    def _new_lane(self, work: Work, state: Any) -> Lane | AheadLane:
        if isinstance(state, AheadState):
            return AheadLane(self._one_lane(work, state.state), state, self._one_lane)
        return self._one_lane(work, state)

    def _one_lane(self, work: Work, state: Any) -> Lane:
        own = self.keeps or (self.holds and only_added(work))
        memory = self._memories.setdefault(work, {}) if isinstance(work, Remembers) else None
        return Lane(work, state, self.wanted, self.allocate, own=own, copy=self.copy, memory=memory)

    def stays(self, slot: int, form: bytes) -> bool:
        """Return whether a message of the current lane stays here, and is only announced."""
        large = self.holds and trees.layout(form).nbytes >= self.stay_bytes
        return large and not is_ahead(slot) and self._lane is not None and self._lane.added

    def _append(self, lane: Lane | AheadLane, given: list[Given]) -> None:
        try:
            lane.expect((task.slot, task.row) for task in given)
        except BaseException as error:
            self.complain(caught(error))
            return
        self._lane = lane
        self._tasks.extend(given)

    def sizes(self, slot: int, form: bytes, segments: Sequence[NumberArray]) -> tuple[float, ...]:
        """Return the largest number of each segment of a large message, for the master's estimate of errors.

        None of one that is small, or of another job: the master looks at those while it adds.
        """
        if is_ahead(slot) or trees.layout(form).nbytes < LARGE or is_narrow(form):
            return ()
        told = () if self._lane is None else self._lane.sizes
        return told or tuple(map(largest, segments))

    def forget(self) -> None:
        """Drop the lane, and with it work and state."""
        self._tasks.clear()
        self._lane = None

    def next_task(self) -> Given | None:
        """Take the next needed task off the lane."""
        while self._tasks:
            task = self._tasks.popleft()
            self._slot, self._row = task.slot, task.row
            if not self.stopped(stopped_as(task.slot)):
                return task
        return None

    def compute(self, task: Given) -> tuple[bytes, list[NumberArray]] | None:
        """Return the message of a task, ready to leave; None if it is not wanted, or raised."""
        assert self._lane is not None
        try:
            found = self._lane.row(task.slot, task.row)
            if found is not None:
                self.stage(*found)
        except BaseException as error:
            self.abandon()
            if is_ahead(task.slot):
                return None  # its job reports it in its own turn
            cause = caught(error, at=(task.slot, task.row), parts=self._lane.computing)
            self.forget()
            self.complain(cause)
            return None
        return found

    def _step(self) -> None:
        task = self.next_task()
        if task is None:
            return
        began = time.monotonic()
        due = None if self._pace is None else self._pace.due(task.cost, given=task.at)
        found = self.compute(task)
        seconds = time.monotonic() - began if due is None else due[1]
        if found is not None and (due is None or self._wait(due[0])):
            self.send(task.slot, task.row, seconds, *found)
            return
        self.abandon()
        if not self._going():
            self._tasks.clear()
        elif self._pace is not None and self.stopped(stopped_as(task.slot)):
            self._pace.cut(time.monotonic())

    def _wait(self, due: float) -> bool:
        """Wait until a message is due; return whether it is still wanted then. A new round ends the wait."""
        round = self.round
        while self.round == round and self.wanted():
            left = due - time.monotonic()
            if left <= 0:
                return True
            self.take(left)
        return False
