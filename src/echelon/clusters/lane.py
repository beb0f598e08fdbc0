"""A worker's lane, part by part: what every cluster runs on its workers.

Results of parts that a later row of the lane needs are kept, so that a lane computes each part once. Between parts it
asks whether the round, and the slot, are still wanted: a purge costs one part at most, or a row computed at once.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from echelon import trees
from echelon.arrays import NumberArray, private
from echelon.cause import Cause, caught
from echelon.clusters.ahead import AheadState
from echelon.clusters.base import AtOnce, Remembers, Work, Writes
from echelon.clusters.narrow import is_narrow, narrowed
from echelon.clusters.pace import Pace
from echelon.clusters.pieces import combined_pieces, short_form
from echelon.codes import combine
from echelon.codes.combine import largest
from echelon.delays.base import parts_of
from echelon.errors import ArgumentError
from echelon.plan import AHEAD, is_ahead, stopped_as
from echelon.ports import LARGE

Allocate = Callable[[bytes, Any], list[NumberArray] | None]


class Lane:
    """Computes the rows of one round on one worker.

    wanted: says whether the current row is still needed.
    allocate: gives memory for a message of some form, into which a sum is written directly, on a device where one is
        named; None for no preference.
    own: whether messages are kept as they are, and so must not lie in memory that a part's code will use again.
    copy: copies what is kept.
    memory: what the worker remembers of the work.

    added: whether its rows are only ever added up.
    sizes: the largest number of each segment of the last row, where the work has told it.
    """

    def __init__(
        self,
        work: Work,
        state: Any,
        wanted: Callable[[], bool],
        allocate: Allocate | None = None,
        *,
        own: bool = False,
        copy: Callable[[NumberArray], NumberArray] = np.copy,
        memory: dict[Any, Any] | None = None,
    ) -> None:
        self._narrow, self.added = bool(getattr(work, "narrow", False)), _added(work)
        self._work, self._state, self._wanted, self._own, self._copy = work, state, wanted, own, copy
        self._memory: dict[Any, Any] = {} if memory is None else memory
        self._allocate = None if self._narrow else allocate  # a sum is as wide as its parts
        self._kept: dict[int, tuple[bytes, list[NumberArray]]] = {}
        self._uses: dict[int, int] = {}  # of each part, by rows still to compute
        self.sizes: tuple[float, ...] = ()
        self.computing: Sequence[int] = ()  # the parts that the work computes just now, to be named if it raises

    def expect(self, rows: Iterable[tuple[int, int]]) -> None:
        """Register coming rows, (slot, row) each: what they share is kept until the last of them."""
        uses = self._uses
        for slot, row in rows:
            for part in self._work.row(slot, row)[0]:
                uses[part] = uses.get(part, 0) + 1

    def row(self, slot: int, row: int) -> tuple[bytes, list[NumberArray]] | None:
        """Return the form and the segments of a row's message, or None where the round is no longer wanted."""
        self.computing, self.sizes = (), ()
        found = self._row(slot, row)
        return found if found is None or not self._narrow else narrowed(*found)

    def _row(self, slot: int, row: int) -> tuple[bytes, list[NumberArray]] | None:
        parts, coefficients = self._work.row(slot, row)
        if isinstance(self._work, Remembers):
            return self._gone_on(self._work, parts)
        whole = coefficients.ndim == 1
        if whole and isinstance(self._work, Writes) and self._alone(parts):
            return self._written(self._work, parts, coefficients)
        if whole and len(parts) == 1 and coefficients[0] == 1:
            return self._plain(parts[0])
        if whole and isinstance(self._work, AtOnce) and self._alone(parts):
            return self._at_once(self._work, parts, coefficients)
        used: dict[int, tuple[bytes, list[NumberArray]]] = {}
        for part in parts:
            known = self._kept.get(part)
            if known is None:
                if not self._wanted():
                    return None
                known = self._kept[part] = self._part(part, keep=True)
            used[part] = known
        for part in parts:
            self._used(part)
        results = list(used.values())
        form = results[0][0]
        for part, (other, _) in used.items():
            if other != form:
                raise ArgumentError(
                    f"result: part {part} gave {other.decode()}, part {parts[0]} gave {form.decode()}; all parts must "
                    "give results of one shape and type"
                )
        form = form if whole else short_form(form, coefficients.shape[1])
        out = self._allocate(form, None) if self._allocate is not None else None
        adding = _combined if whole else combined_pieces
        return form, [
            adding(coefficients, segments, None if out is None else out[i])
            for i, segments in enumerate(zip(*(segments for _, segments in results), strict=True))
        ]

    def _plain(self, part: int) -> tuple[bytes, list[NumberArray]] | None:
        """Return a row that is a part."""
        known = self._kept.get(part)
        if known is None:
            if not self._wanted():
                return None
            again = self._uses.get(part, 1) > 1
            known = self._part(part, keep=self._own or again)
            if again:
                self._kept[part] = known
        self._used(part)
        return known

    def _gone_on(self, work: Remembers, parts: Sequence[int]) -> tuple[bytes, list[NumberArray]] | None:
        """Return a row whose part goes on from what this worker remembers."""
        (part,) = parts
        if not self._wanted():
            return None
        self.computing = parts
        result = work.go_on(self._state, part, self._memory, self._wanted)
        self._used(part)
        return None if result is None else self._flat(result, keep=self._own)

    def _alone(self, parts: Sequence[int]) -> bool:
        """Return whether no other row needs these parts, and none of them is known."""
        return all(self._uses.get(part, 1) == 1 and part not in self._kept for part in parts)

    def _written(
        self, work: Writes, parts: Sequence[int], coefficients: NumberArray
    ) -> tuple[bytes, list[NumberArray]] | None:
        """Return a row whose parts no other row needs, written where it is to lie."""
        if not self._wanted():
            return None
        for part in parts:
            self._used(part)
        self.computing = parts
        given: list[NumberArray] = []

        def room(count: int, dtype: str, device: Any = None) -> NumberArray:
            assert not given, "one row, one memory"
            form = trees.array_form(np.dtype(dtype).char, (count,))
            out = None if self._allocate is None else self._allocate(form, device if self.added else None)
            given.append(np.empty(count, dtype) if out is None else out[0])
            return given[0]

        result, size = work.write(self._state, parts, coefficients, room)
        self.sizes = () if self._narrow else (size,)
        if given and result is given[0] and not isinstance(result, np.ndarray):
            return trees.array_form(np.dtype(str(result.dtype).removeprefix("torch.")).char, (len(result),)), given
        if not given or result is given[0]:
            return self._flat(result, keep=self._own and not given)
        given[0][:] = result
        return self._flat(given[0], keep=False)

    def _at_once(
        self, work: AtOnce, parts: Sequence[int], coefficients: NumberArray
    ) -> tuple[bytes, list[NumberArray]] | None:
        """Return a row whose parts no other row needs."""
        if not self._wanted():
            return None
        for part in parts:
            self._used(part)
        self.computing = parts
        return self._flat(work.at_once(self._state, parts, coefficients), keep=self._own)

    def _part(self, part: int, *, keep: bool) -> tuple[bytes, list[NumberArray]]:
        self.computing = (part,)
        return self._flat(self._work.part(self._state, part), keep)

    def _flat(self, result: Any, keep: bool) -> tuple[bytes, list[NumberArray]]:
        """Return form and segments of a part's result; what is kept for later must not lie in foreign memory."""
        form, segments = trees.flatten(result)
        del result  # an array without other references is not copied
        return form, [
            segment if private(segment) else self._copy(segment) for segment in segments
        ] if keep else segments

    def _used(self, part: int) -> None:
        """Count one use of a part less, and drop its result after the last."""
        left = self._uses.pop(part, 1) - 1
        if left > 0:
            self._uses[part] = left
        else:
            self._kept.pop(part, None)


def _combined(coefficients: NumberArray, segments: Sequence[NumberArray], out: NumberArray | None) -> NumberArray:
    """Return the weighted sum of segments, written into `out` where it is given."""
    total: NumberArray = combine(coefficients[None], segments, None if out is None else out[None])[0]
    return total


class AheadLane:
    """The lane of a round, and rows of the next job's first round, in slots from `AHEAD` on.

    make: makes a lane from work and state. Errors of the next job are left to its own turn.
    """

    def __init__(self, lane: Lane, state: AheadState, make: Callable[[Work, Any], Lane]) -> None:
        self._lane, self._state, self._make = lane, state, make
        self._ahead: Lane | None = None

    def expect(self, rows: Iterable[tuple[int, int]]) -> None:
        """Register coming rows."""
        listed = list(rows)
        self._lane.expect((slot, row) for slot, row in listed if not is_ahead(slot))
        ahead = [(slot - AHEAD, row) for slot, row in listed if is_ahead(slot)]
        if ahead:
            with suppress(BaseException):
                if self._ahead is None:
                    self._ahead = self._make(*self._state.ahead())
                self._ahead.expect(ahead)

    @property
    def sizes(self) -> tuple[float, ...]:
        """The largest number of each segment of the last row of the round, where its work has told it."""
        return self._lane.sizes

    @property
    def added(self) -> bool:
        """Whether rows of the round are only ever added up."""
        return self._lane.added

    @property
    def computing(self) -> Sequence[int]:
        """The parts that the round's work computes just now."""
        return self._lane.computing

    def row(self, slot: int, row: int) -> tuple[bytes, list[NumberArray]] | None:
        """Return the form and the segments of a row's message, or None where it is not wanted, or fails ahead."""
        if not is_ahead(slot):
            return self._lane.row(slot, row)
        try:
            return None if self._ahead is None else self._ahead.row(slot - AHEAD, row)
        except BaseException:
            return None


def _added(work: Work) -> bool:
    return bool(getattr(work, "added", False))


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
        own = self.keeps or (self.holds and _added(work))
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
