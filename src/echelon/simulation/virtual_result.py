"""What happened in a virtual run."""

from dataclasses import dataclass, field

from echelon.master import Outcome


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that ended: when, how, and why where it failed."""

    job: int
    time: float
    outcome: Outcome
    error: str


@dataclass(slots=True)
class VirtualResult:
    """What happened.

    ended: the end of every job, in order.
    rounds: (job, round, start, end) of every round that ended well.
    recovered: (round, slot, rows) whenever the master thought that rows were enough.
    starved: how often no worker was left.
    crashes: how often the master died.
    """

    ended: list[Ended] = field(default_factory=list)
    rounds: list[tuple[int, int, float, float]] = field(default_factory=list)
    recovered: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    starved: int = 0
    crashes: int = 0
