"""What can go wrong between the master and its workers, drawn from a seed: for the virtual-time driver."""

from dataclasses import dataclass, field

from numpy.random import Generator


@dataclass(frozen=True, slots=True)
class Crash:
    """A worker dies; the master hears of it `notice` later, and a new one takes its place after `restart`."""

    time: float
    place: int
    notice: float
    restart: float


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
    """The task that a worker is at raises, if it is at one."""

    time: float
    place: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """The user cancels a job."""

    time: float
    job: int


@dataclass(frozen=True, slots=True)
class Join:
    """A further worker joins."""

    time: float


@dataclass(frozen=True, slots=True)
class MasterCrash:
    """The master dies after `actions` more actions, its workers with it; what a journal keeps goes on after `down`."""

    time: float
    actions: int
    down: float


Incident = Crash | Partition | Slowdown | Raise | Cancel | Join | MasterCrash


@dataclass(frozen=True)
class Faults:
    """Chances that befall every message, and incidents at given times.

    lose, repeat, delay: chance that a message (an assignment and a purge, too) is lost, comes twice, comes late.
    late: mean of an added delay; what is delayed may arrive behind what was sent after it.
    refuse: chance that a recovery is refused as too noisy while rows are left to wait for.
    """

    rng: Generator
    lose: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    late: float = 1.0
    refuse: float = 0.0
    incidents: tuple[Incident, ...] = field(default=())

    def copies(self) -> list[float]:
        """Return the added delay of every copy of a message that arrives."""
        return [] if self._hit(self.lose) else [self._added() for _ in range(1 + self._hit(self.repeat))]

    def _added(self) -> float:
        return float(self.rng.exponential(self.late)) if self._hit(self.delay) else 0.0

    def _hit(self, chance: float) -> bool:
        return chance > 0 and bool(self.rng.random() < chance)

    def refuses(self) -> bool:
        """Return whether a recovery is to be refused."""
        return self._hit(self.refuse)


def random_faults(rng: Generator, *, places: int, jobs: int, horizon: float) -> Faults:
    """Return faults of every kind, some of them absent, within a horizon."""
    times = iter(rng.uniform(0, horizon, 64).tolist())
    some = rng.integers(0, 3, 7)
    incidents: list[Incident] = []
    for _ in range(some[0]):
        notice, restart = rng.exponential(0.3), rng.exponential(3.0)
        incidents.append(Crash(next(times), int(rng.integers(places)), float(notice), float(restart)))
    for _ in range(some[1]):
        length = float(rng.exponential(3.0))
        incidents.append(Partition(next(times), int(rng.integers(places)), length, bool(rng.random() < 0.5)))
    for _ in range(some[2]):
        length, factor = float(rng.exponential(6.0)), float(rng.uniform(2, 20))
        incidents.append(Slowdown(next(times), int(rng.integers(places)), length, factor))
    incidents += [Raise(next(times), int(rng.integers(places))) for _ in range(some[3] // 2)]
    incidents += [Cancel(next(times), int(rng.integers(jobs))) for _ in range(some[4] // 2)]
    incidents += [Join(next(times)) for _ in range(some[5] // 2)]
    for _ in range(some[6]):
        incidents.append(MasterCrash(next(times), int(rng.integers(12)), float(rng.exponential(1.0))))
    quiet = rng.random(4) < 0.4
    chances = [0.0 if still else float(chance) for still, chance in zip(quiet, rng.uniform(0, 0.4, 4), strict=True)]
    return Faults(
        rng, lose=chances[0], repeat=chances[1], delay=chances[2], refuse=chances[3], incidents=tuple(incidents)
    )
