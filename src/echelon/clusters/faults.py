"""What can go wrong between a master and its workers, drawn from a seed: for the cluster in virtual time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from echelon.arrays import NumberArray


@dataclass(frozen=True, slots=True)
class Crash:
    """A worker dies; the master hears of it `notice` later, and a new one takes its place after `restart`."""

    time: float
    place: int
    notice: float
    restart: float


@dataclass(frozen=True, slots=True)
class Hang:
    """A worker stops for a while, as by SIGSTOP: it takes no orders and sends nothing, then goes on where it was.

    length: how long; infinite for one that never goes on.
    stopped: whether the operating system says that it is stopped; else it seems to compute, if it does.
    """

    time: float
    place: int
    length: float
    stopped: bool = True


@dataclass(frozen=True, slots=True)
class Partition:
    """Nothing passes between the master and a worker for a while; reported as a loss, or silent."""

    time: float
    place: int
    length: float
    reported: bool


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A worker takes `factor` times as long for a while."""

    time: float
    place: int
    length: float
    factor: float


@dataclass(frozen=True, slots=True)
class Raise:
    """The task that a worker is computing raises, if there is one."""

    time: float
    place: int


@dataclass(frozen=True, slots=True)
class Endless:
    """The row that a worker is computing, if there is one, never returns: not there, and nowhere else in this round."""

    time: float
    place: int


@dataclass(frozen=True, slots=True)
class MasterCrash:
    """The master's program is killed when it has called the cluster `calls` more times: between any two actions."""

    time: float
    calls: int


Incident = Crash | Hang | Partition | Slowdown | Raise | Endless | MasterCrash


class MasterKilled(BaseException):
    """The master's program dies here and now; nothing of it may go on."""


@dataclass(frozen=True)
class Faults:
    """Chances of faults of every message and every worker, and incidents at given times.

    lose, repeat, delay: chance that a message (an assignment and a purge, too) is lost, comes twice, comes late.
    late: mean of an added delay; a delayed message may arrive after later ones.
    start: mean time for a worker to come up. stillborn: chance that it dies before it is up.
    loading: chance that a worker dies while it loads a job's work.
    wrong: chance that one bit of a result is flipped, by the place of its worker.
    """

    rng: Generator
    lose: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    late: float = 1.0
    start: float = 0.0
    stillborn: float = 0.0
    loading: float = 0.0
    incidents: tuple[Incident, ...] = field(default=())
    wrong: Mapping[int, float] = field(default_factory=dict)

    def copies(self) -> list[float]:
        """Return the added delay of every copy of a message that arrives."""
        return [] if self.hit(self.lose) else [self._added() for _ in range(1 + self.hit(self.repeat))]

    def _added(self) -> float:
        return self.lasting(self.late) if self.hit(self.delay) else 0.0

    def sent(self, place: int, segments: list[NumberArray]) -> list[NumberArray]:
        """Return a result as it leaves a place: as it is, or a copy with one bit flipped."""
        if not self.hit(self.wrong.get(place, 0.0)):
            return segments
        segments = [segment.copy() for segment in segments]
        raw = segments[self.rng.integers(len(segments))].view(np.uint8)
        raw[self.rng.integers(len(raw))] ^= 1 << int(self.rng.integers(8))
        return segments

    def hit(self, chance: float) -> bool:
        """Return whether something with this chance happens."""
        return chance > 0 and bool(self.rng.random() < chance)

    def lasting(self, mean: float) -> float:
        """Return how long something lasts whose mean is this long."""
        return float(self.rng.exponential(mean)) if mean > 0 else 0.0
