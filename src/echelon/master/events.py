"""What the master is told. Every event carries its time, and its round if it has one, so that late news is harmless.

A worker's number is never used again: one that comes back after a loss joins under a new number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from echelon.cause import Cause
from echelon.codes import Code
from echelon.plan import Plan


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job came in; jobs are served in this order."""

    time: float
    job: int


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A job is no longer wanted."""

    time: float
    job: int


@dataclass(frozen=True, slots=True)
class Joined:
    """A worker is ready for work."""

    time: float
    worker: int


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker is gone. `at` is the round, slot and row that it was computing, if that is known; `reason` says how.

    overran: whether it was killed because it computed that row for too long.
    """

    time: float
    worker: int
    at: tuple[int, int, int] | None = None
    reason: str = ""
    overran: bool = False


@dataclass(frozen=True, slots=True)
class PlannedAhead:
    """The first round of the job after the one in service: its plan, the owners of its lanes, and what came of it.

    In the round in which it is done ahead, its slots are numbered from `AHEAD` on.
    """

    job: int
    plan: Plan
    workers: tuple[int, ...]
    codes: tuple[Code, ...] = ()
    came: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """The answer to `Replan`: lane i of the plan is for workers[i]. Slots without a code count rows.

    A lane may be for a worker that is not there: its rows are given to others where they are needed. With `lend`,
    workers of recovered slots may help those that lag. Rows that `came` while another job was served need not come
    again. `ahead` is what idle workers do. `silence` is the longest that the master normally waits for a message of the
    job, if that is known. Workers that are left `out` get nothing to do in this round.
    """

    time: float
    round: int
    plan: Plan
    workers: tuple[int, ...]
    codes: tuple[Code, ...] = ()
    lend: bool = False
    came: tuple[tuple[int, int], ...] = ()
    ahead: PlannedAhead | None = None
    silence: float | None = None
    out: tuple[int, ...] = ()


class Received(NamedTuple):
    """The message of one row arrived. Whose it is does not matter: every worker computes the same row.

    The only event that comes by the thousand: a tuple, which takes a fifth of the time to make.
    """

    time: float
    worker: int
    round: int
    slot: int
    row: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """The answer to `Recover`: weights for the slot are found."""

    time: float
    round: int
    slot: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The other answer to `Recover`: these rows would give a noisy result; one more is needed."""

    time: float
    round: int
    slot: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """Rows do not count as these workers sent them, (row, worker) each: others are to compute them.

    Another answer to `Recover`, where rows are found wrong; and what a message is that must be confirmed by another
    worker first.
    """

    time: float
    round: int
    slot: int
    rows: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Updated:
    """The answer to `Update`: the job took its step, and is finished or not."""

    time: float
    round: int
    finished: bool


@dataclass(frozen=True, slots=True)
class Unread:
    """Another answer to `Update`: rows that were chosen lie with workers that died before they were added up.

    The iteration is done once more, in another round; rows that can still be read come with its plan.
    """

    time: float
    round: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A task raised on its worker, or the job's own code on the master: the job can't go on."""

    time: float
    round: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class Alarm:
    """A timer that was set by `SetTimer` went off.

    heard: when each worker last sent a message of this round.
    gap: the longest that the master had to wait for one of them.
    """

    time: float
    round: int
    attempt: int
    heard: Mapping[int, float] = field(default_factory=dict)
    gap: float = 0.0


Event = (
    Submitted | Cancelled | Joined | Lost | Planned | Received | Recovered | Refused | Rejected | Updated | Unread
    | Failed | Alarm
)  # fmt: skip
