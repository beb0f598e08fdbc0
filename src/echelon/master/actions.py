"""What the master wants done. A driver carries out actions in the order given, and answers some of them with events."""

from dataclasses import dataclass
from enum import Enum

from echelon.cause import Cause
from echelon.plan import Task


class Outcome(Enum):
    """How a job ended."""

    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Replan:
    """A round of a job is about to open on these workers; answer with `Planned` (the old plan will do).

    following: the job after it, whose first round idle workers may do ahead.
    """

    job: int
    round: int
    workers: tuple[int, ...]
    following: int | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    """Append tasks to the lane of a worker."""

    worker: int
    round: int
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Recover:
    """A slot has enough rows: find weights for these rows; answer with `Recovered`, `Refused` or `Rejected`."""

    round: int
    slot: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Approximate:
    """A round ends before this slot is recovered: find the weights by which these rows come nearest to its sum."""

    round: int
    slot: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Purge:
    """The round is over: workers still computing for it may stop."""

    round: int


@dataclass(frozen=True, slots=True)
class Stop:
    """A slot is recovered while others are not: workers still computing for it may stop.

    Slots that share planned lanes with others are never stopped: such lanes go on as they were planned. Slot `AHEAD`
    stands for all of the next job's: they are stopped when the round needs all workers.
    """

    round: int
    slot: int


@dataclass(frozen=True, slots=True)
class Update:
    """The round has all it needs: add it up and let the job take its step.

    Answer with `Updated`, `Unread` or `Failed`.
    """

    job: int
    round: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """A job ended; `cause` says why where it failed."""

    job: int
    outcome: Outcome
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Send `Alarm` with the same round and attempt at this time; a later timer replaces an earlier one."""

    at: float
    round: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Starve:
    """A round can't go on: no worker is left. It goes on when one joins."""

    job: int
    round: int


Action = Replan | Assign | Recover | Approximate | Purge | Stop | Update | Deliver | SetTimer | Starve
