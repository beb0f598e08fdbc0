"""What a cluster is to a driver: it takes work, states and lanes, and reports what happens. As narrow as possible."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from echelon.arrays import FloatArray, NumberArray
from echelon.cause import Cause
from echelon.plan import Task


class Work(Protocol):
    """What workers compute for a job. It travels to every worker once.

    Its rows may have attributes in common: with `narrow` their messages are rounded to bfloat16; with `added` they are
    only ever added up, so that large ones may stay where they were computed.
    """

    def row(self, slot: int, row: int) -> tuple[Sequence[int], NumberArray]:
        """Return which parts a row combines, and with what coefficients, shape (parts,).

        Or of shape (parts, pieces): then it combines pieces of their results, and is as long as one of these.
        """

    def part(self, state: Any, part: int) -> Any:
        """Return the result of a part: an array, or dicts, lists and tuples of arrays."""


class AtOnce(ABC):
    """Work that computes a row cheaper at once than part by part, where no other row of the lane needs its parts."""

    @abstractmethod
    def at_once(self, state: Any, parts: Sequence[int], coefficients: NumberArray) -> Any:
        """Return the weighted sum of the results of some parts."""


# gives memory for so many numbers of a type, where the message is to lie: an array, or a tensor of torch on the device
# that is given as a third argument, where messages may lie there
Room = Callable[..., Any]


class Writes(ABC):
    """Work that writes a row where it is to lie, where no other row of the lane needs its parts."""

    @abstractmethod
    def write(self, state: Any, parts: Sequence[int], coefficients: NumberArray, room: Room) -> tuple[Any, float]:
        """Return the weighted sum of the results of some parts, one flat array, as a rule in memory from `room`, and
        the largest of its numbers.
        """


class Remembers(ABC):
    """Work whose parts go on from what the same worker did in rounds before; of parts that come alone in their rows."""

    @abstractmethod
    def go_on(self, state: Any, part: int, memory: dict[Any, Any], wanted: Callable[[], bool]) -> Any:
        """Return the result of a part, or None as soon as it is no longer `wanted`.

        memory: what this worker remembers of this work, to be read and changed; it is lost with the worker, and when
            the job's work is unloaded. A part that was not finished must leave it as it was.
        """


class Attached(ABC):
    """A state whose parts also need what was loaded under other keys."""

    @abstractmethod
    def attach(self, find: Callable[[int], Any]) -> None:
        """Take, on the worker, the function that returns what was loaded under a key."""


@dataclass(frozen=True, slots=True)
class Up:
    """A worker is ready. Its number is new; its place is that of the one it replaces, if it does."""

    worker: int
    place: int


@dataclass(frozen=True, slots=True)
class Down:
    """A worker is gone; `at` is the round, slot and row that it was computing, if that is known."""

    worker: int
    place: int
    reason: str
    at: tuple[int, int, int] | None = None


class Message(NamedTuple):
    """One row's result. Its segments may lie in shared memory: call `Cluster.release` when they have been used.

    seconds: how long the worker took for the task.
    segments: its numbers; none where they lie elsewhere, and the row is only announced: `Cluster.add` adds it there.
    token: what the cluster needs to give the memory back.
    sizes: the largest number of each segment, as the worker found it; none where it did not look.
    """

    worker: int
    round: int
    slot: int
    row: int
    seconds: float
    form: bytes
    segments: list[NumberArray]
    token: Any = None
    sizes: tuple[float, ...] = ()

    @property
    def elsewhere(self) -> bool:
        """Whether it was only announced, and its numbers stayed where they were computed."""
        return not self.segments


@dataclass(frozen=True, slots=True)
class Trouble:
    """A task raised, as `cause` says."""

    worker: int
    round: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class Total:
    """A weighted sum of messages.

    segments: its numbers.
    largest: the largest of them, by segment; not finite where one of them is not.
    sizes: the largest number of each message, by segment and message.
    """

    segments: list[NumberArray]
    largest: tuple[float, ...]
    sizes: FloatArray


class Sum(NamedTuple):
    """A total that is wanted: messages of one form, and their weights, shape (messages,)."""

    weights: NumberArray
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Added:
    """What `Cluster.add` was asked for, in a round: one total per sum."""

    round: int
    totals: tuple[Total, ...]


@dataclass(frozen=True, slots=True)
class Unread:
    """Messages that lie elsewhere and can no longer be read: their worker died, or is out of reach.

    They may come at any time, and no `Added` follows for a sum that needs one of them.
    """

    messages: tuple[Message, ...]


class Vanished(Exception):
    """Messages that were just added up may have vanished meanwhile: their worker has died. The total is not used."""

    def __init__(self, messages: tuple[Message, ...]) -> None:
        super().__init__(messages)
        self.messages = messages


Report = Up | Down | Message | Trouble | Added | Unread


@dataclass(frozen=True, slots=True)
class Doing:
    """What is known of a worker without its help.

    at: the round, slot and row that it computes; None where it has nothing to do, or nothing is known of it.
    since: when it began that part of the row, by the cluster's clock; or the row, where no more than that is known.
    stopped: whether the operating system has stopped it (SIGSTOP, a debugger).
    """

    worker: int
    at: tuple[int, int, int] | None
    since: float | None
    stopped: bool


class RealTime:
    """The clock of clusters that have no other."""

    virtual = fixed = False

    def now(self) -> float:
        """Return the time, in seconds."""
        return time.monotonic()


class Cluster(Protocol):
    """Where lanes are executed. One thread drives it; `now`, `pack`, `release`, `wake` and `kill` are for any thread.

    workers: how many places for workers it has. names: what people call them, by place.
    one_host: whether its workers are on the master's machine, and share its devices' memory.
    virtual: whether its time passes only during `poll`; then the thread that waits for a stream drives it.
    fixed: whether its number of workers is given, and no other can be asked for.
    """

    workers: int
    names: list[str]
    virtual: bool
    fixed: bool
    one_host: bool

    def now(self) -> float:
        """Return the time in seconds by a clock that never goes back; a stream has no other."""

    def pack(self, value: Any) -> Any:
        """Return a copy of a value, ready to load at once; its own `value` is read-only."""

    def load(self, key: int, work: Any) -> None:
        """Make a job's work, or a packed value, known to all workers, including those that come later."""

    def unload(self, key: int) -> None:
        """Forget a job's work, and the memory of its results."""

    def broadcast(self, round: int, key: int, state: Any) -> None:
        """Set what the parts of a round are computed from."""

    def assign(self, worker: int, round: int, tasks: Sequence[Task]) -> None:
        """Append tasks to a worker's lane; a later round replaces an earlier one."""

    def purge(self, round: int) -> None:
        """Stop all work on a round and all before it."""

    def stop(self, round: int, slot: int) -> None:
        """Stop all work on one slot of a round; `AHEAD` stands for all of the next job's."""

    def poll(self, timeout_s: float | None) -> list[Report]:
        """Return what happened, after waiting for it at most this long (None: as long as it takes)."""

    def combine(self, weights: NumberArray, messages: Sequence[Message]) -> Total:
        """Return the weighted sum of messages of one form that lie here; raise `Vanished` where that can't be sure."""

    def add(self, round: int, sums: Sequence[Sum]) -> None:
        """Have messages, of which some lie elsewhere, added up where they lie; `Added` follows, or `Unread`.

        It takes a bounded time, whoever hangs or dies: slices that an adder owes are given to another one, and a
        message that nobody can read any more is reported. Releasing one of the messages ends it.
        """

    def release(self, message: Message) -> None:
        """Give back the memory of a message, wherever it lies; for one that is `Unread`, nothing happens."""

    def doing(self) -> list[Doing]:
        """Return what each worker that is up does now; asks no worker, so that one that hangs is seen, too."""

    def kill(self, worker: int, reason: str = "killed") -> None:
        """End a worker from outside, now, whatever it does; a `Down` with this reason follows."""

    def wake(self) -> None:
        """End a `poll` that waits; from any thread."""

    def close(self) -> None:
        """Stop all workers and leave nothing behind; a second call does nothing."""
