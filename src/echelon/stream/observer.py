"""A job and a round as the driver sees them, and what it tells others of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from echelon.codes import Code, Decoder
from echelon.jobs import IterativeJob
from echelon.master import Outcome
from echelon.plan import Plan, Task
from echelon.stream.kept import Store

_UNKNOWN_LENGTH = 10  # rounds that a job without a number of iterations is expected to go on for, at least


@dataclass(slots=True)
class Running:
    """A job in the stream, as the driver sees it."""

    number: int
    name: str
    job: IterativeJob
    codes: tuple[Code, ...]  # one a slot
    decoders: tuple[Decoder, ...]
    state: Any
    arrived: float
    store: Store
    iteration: int = 0
    error: float = 0.0
    begun: bool = False
    messages: int = 0
    nbytes: int = 0

    def rounds_left(self) -> int:
        """Return how many rounds it will go on for, or a guess."""
        if self.job.iterations is not None and self.job.until is None:
            return self.job.iterations - self.iteration
        return max(_UNKNOWN_LENGTH, self.iteration)


@dataclass(slots=True)
class RoundSeen:
    """A round as it went, for records and estimates: times in seconds since the stream opened.

    start, end: when its state went out, and when the last message that it needed came.
    loading: whether its workers had to load the job's work first.
    messages: (worker, slot, row, arrival, seconds at the task).
    recovered: when each slot had enough.
    given: what each worker got to do, in a plan with a pool, or of which some was done before.
    came: messages that came while another job was served, before the start.
    received, nbytes: messages that came before the end, repeated and useless ones included, and their size.
    """

    job: int
    round: int
    iteration: int
    start: float
    end: float = 0.0
    loading: bool = False
    plan: Plan | None = None
    workers: tuple[int, ...] = ()
    messages: list[tuple[int, int, int, float, float]] = field(default_factory=list)
    recovered: dict[int, float] = field(default_factory=dict)
    given: dict[int, list[Task]] = field(default_factory=dict)
    received: int = 0
    nbytes: int = 0
    came: int = 0

    def as_planned(self) -> bool:
        """Return whether everybody got the lane that the plan has for him, and nothing else."""
        assert self.plan is not None
        return self.plan.pool is None and not self.came

    def lanes(self) -> Sequence[Sequence[Task]]:
        """Return what each of its workers was to do."""
        assert self.plan is not None
        if self.as_planned():
            return self.plan.lanes
        return [self.given.get(worker, []) for worker in self.workers]


class Observer:
    """What a driver tells others of; every method may be left as it is. Called in the driver's thread."""

    def submitted(self, time_s: float, running: Running) -> None:
        """A job came in."""

    def worker_up(self, time_s: float, worker: int, place: int) -> None:
        """A worker joined."""

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        """A worker was lost."""

    def round_over(self, seen: RoundSeen) -> None:
        """A round was recovered and its job took a step."""

    def stepped(self, running: Running, finished: bool) -> None:
        """A job has a new state."""

    def starved(self, job: int) -> None:
        """No worker is left for a job."""

    def delivered(self, time_s: float, running: Running, outcome: Outcome, error: str) -> None:
        """A job ended."""
