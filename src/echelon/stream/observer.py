"""A job and a round as the driver sees them, and what it reports of them."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from echelon.codes import NO_ERROR, Code, Decoder, ErrorEstimate
from echelon.errors import JobFailed
from echelon.jobs import IterativeJob
from echelon.master.actions import Outcome
from echelon.plan import Plan, Task
from echelon.reprs import short_repr
from echelon.stream.kept import Store

log = logging.getLogger("echelon.stream")

_UNKNOWN_LENGTH = 10  # rounds that a job without a number of iterations is expected to last, at least


@dataclass(slots=True)
class Running:
    """A job in the stream, as the driver sees it."""

    number: int
    name: str
    job: IterativeJob
    codes: tuple[Code, ...]  # one per slot
    decoders: tuple[Decoder, ...]
    state: Any
    arrived: float
    store: Store
    iteration: int = 0
    error_estimate: ErrorEstimate = NO_ERROR
    residual: float = 0.0
    left_out: dict[int, int] = field(default_factory=dict)  # rounds that ended without a place's rows, by place
    messages: int = 0
    nbytes: int = 0
    verify: str | None = None  # how its results are checked

    __repr__ = short_repr

    def rounds_left(self) -> int:
        """Return how many more rounds it will take, or a guess."""
        if self.job.iterations is not None and self.job.until is None:
            return self.job.iterations - self.iteration
        return max(_UNKNOWN_LENGTH, self.iteration)


class Arrival(NamedTuple):
    """A message that came: its worker and row, when it came, how long the worker took, and how large it is.

    use: "new" if it is the first of its row; "again" if the row is there already, or its slot recovered; "late" if its
    round is over; "ahead" if it belongs to the next job.
    """

    worker: int
    round: int
    slot: int
    row: int
    time: float
    seconds: float
    nbytes: int
    use: str


@dataclass(slots=True)
class RoundSeen:
    """A round as it went, for records and estimates: times in seconds since the stream opened.

    start, end: when its state went out, and when the last message that it needed came.
    loading: whether its workers had to load the job's work first.
    messages: what came of it while it was open.
    recovered: when each slot had enough.
    given: what each worker got to do, in a plan with a pool, or of which some was done before.
    came: messages that were there before the start: of a job begun ahead, or of a round that is done again.
    repeated: whether rows were given out again because they were late.
    received, nbytes: messages that came before the end, repeated and useless ones included, and their size.
    error_estimate: the largest error that decoding may have brought into it, once its job has taken its step.
    residual: how far what its job was given is from the exact sum, |alpha - 1| / |1|; 0 where it is exact.
    nearly: slots that were not recovered, and of which what came was used. without: places whose rows are missing.
    """

    job: int
    round: int
    iteration: int
    start: float
    plan: Plan
    workers: tuple[int, ...]
    end: float = 0.0
    loading: bool = False
    messages: list[Arrival] = field(default_factory=list)
    recovered: dict[int, float] = field(default_factory=dict)
    given: dict[int, list[Task]] = field(default_factory=dict)
    received: int = 0
    nbytes: int = 0
    came: int = 0
    repeated: bool = False
    error_estimate: ErrorEstimate = NO_ERROR
    residual: float = 0.0
    nearly: tuple[int, ...] = ()
    without: tuple[int, ...] = ()

    __repr__ = short_repr

    def as_planned(self) -> bool:
        """Return whether each worker got the lane that the plan has for it, and nothing else."""
        return self.plan.pool is None and not self.came

    @property
    def left_out(self) -> list[int]:
        """Slots that the round ended without: those of which nothing was used."""
        used = {*self.recovered, *self.nearly}
        return [slot for slot in range(len(self.plan.slots)) if slot not in used]

    def lanes(self) -> Sequence[Sequence[Task]]:
        """Return what each of its workers was to do."""
        if self.as_planned():
            return self.plan.lanes
        return [self.given.get(worker, []) for worker in self.workers]


class Observer:
    """Told of all that happens in a stream (``Stream(observers=[...])``); override the methods you need.

    Called by the thread that drives the stream, one call at a time: return soon, and change nothing you are shown. One
    that raises is not called again, and the stream goes on. Times are seconds since the stream opened.

    >>> from echelon.jobs import SumJob
    >>> from echelon.stream import Stream
    >>> class Counter(Observer):
    ...     rows = 0
    ...     def received(self, arrival):
    ...         self.rows += arrival.use == "new"
    >>> counter = Counter()
    >>> job = SumJob(partial=lambda w, x: x, update=lambda w, total: total, state=0.0, chunks=[1.0, 2.0], iterations=3)
    >>> with Stream("virtual", workers=2, redundancy=1.0, observers=[counter]) as stream:
    ...     _ = stream.submit(job).result()
    >>> counter.rows
    6
    """

    def submitted(self, time_s: float, running: Running) -> None:
        """A job came in."""

    def worker_up(self, time_s: float, worker: int, place: int) -> None:
        """A worker joined."""

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        """A worker was lost."""

    def opened(self, seen: RoundSeen) -> None:
        """A round was planned and its state sent out."""

    def received(self, arrival: Arrival) -> None:
        """A message came."""

    def stepped(self, running: Running, seen: RoundSeen, finished: bool) -> None:
        """A job has a new state."""

    def round_over(self, seen: RoundSeen) -> None:
        """A round was recovered and its job took a step; called a little later, when the workers are busy."""

    def wrong_result(self, time_s: float, worker: int, place: int | None, round: int, slot: int, row: int) -> None:
        """A worker sent a wrong result, as `verify` shows; its place is None if that is not known."""

    def starved(self, time_s: float, job: int) -> None:
        """No worker is left for a job."""

    def delivered(self, time_s: float, running: Running, outcome: Outcome, error: JobFailed | None) -> None:
        """A job ended; `error` says why where it failed."""

    def close(self) -> None:
        """The stream was closed."""


class Observers:
    """All observers. What the first one raises ends the stream: it keeps the results. The others are guests."""

    def __init__(self, first: Observer) -> None:
        self._first = first
        self._guests: list[Observer] = []  # those still called
        self._all: list[Observer] = []
        self._heard: set[Callable[..., None]] = set()  # methods that some observer overrides
        self._listen(first)

    def add(self, observer: Observer) -> None:
        """Add an observer from now on."""
        self._guests.append(observer)
        self._all.append(observer)
        self._listen(observer)

    def remove(self, observer: Observer) -> None:
        """Tell an observer nothing more."""
        for listed in (self._guests, self._all):
            if observer in listed:
                listed.remove(observer)

    def _listen(self, observer: Observer) -> None:
        for name, hook in vars(Observer).items():
            if not name.startswith("_") and getattr(getattr(observer, name), "__func__", None) is not hook:
                self._heard.add(hook)

    def tell(self, hook: Callable[..., None], *values: Any) -> None:
        """Call one method of all, given as `Observer` has it."""
        if hook not in self._heard:
            return
        name = hook.__name__
        getattr(self._first, name)(*values)
        for guest in self._guests[:]:
            try:
                getattr(guest, name)(*values)
            except Exception:
                log.exception("%s is not called again: its method %s raised", type(guest).__name__, name)
                self._guests.remove(guest)

    def close(self) -> None:
        """Close all, including those that raised before."""
        self._guests = self._all
        self.tell(Observer.close)
