"""What is known of the workers and of the job: speeds, links, arrivals; declared or measured.

A profile is plain data. It names a law of task times but holds none: `echelon.delays` makes laws of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray
from echelon.errors import ArgumentError, ProfileError
from echelon.html import table
from echelon.reprs import short_repr

PLANES = ("master", "responders")  # who adds up the rows of a sum


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker: the time of one task, by `mean` and `std` or by `rate`, and a link delay per iteration.

    `rate` is in operations per second; a task of C operations then takes C/rate on average, with a standard
    deviation of the same size. `law` names the family of task times that is fitted to the two moments, and
    `parameters` go to its `fit`. The default, ``gamma``, is the exponential law where std equals mean and
    a constant where std is 0.

    >>> Worker("w1", mean=0.05, std=0.05, link=0.01).mean
    0.05
    """

    name: str
    mean: float | None = None
    std: float | None = None
    rate: float | None = None
    link: float = 0.0
    law: str = "gamma"
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ArgumentError(f"name: {self.name!r} is not allowed; must be a non-empty text")
        if self.rate is None:
            if self.mean is None or self.std is None:
                raise ArgumentError("mean, std: missing; both must be given where there is no rate")
            self._keep("mean", checks.number("mean", self.mean, above=0))
            self._keep("std", checks.number("std", self.std, least=0))
        else:
            if self.mean is not None or self.std is not None:
                raise ArgumentError(
                    f"rate: {self.rate!r} is not allowed together with mean or std; give one or the other"
                )
            self._keep("rate", checks.number("rate", self.rate, above=0))
        self._keep("link", checks.number("link", self.link, least=0))

    def _keep(self, name: str, value: float) -> None:
        """Set a field to its checked value: a plain float, whatever kind of number was given."""
        object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """Time between two jobs: its mean and second moment, and whether arrivals are Poisson; or a record.

    >>> Arrivals.poisson(0.01).second
    20000.0
    """

    mean: float
    second: float
    poisson_process: bool = False
    times: tuple[float, ...] = ()

    __repr__ = short_repr

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", checks.number("mean", self.mean, above=0))
        object.__setattr__(self, "second", checks.number("second", self.second, above=0, size=1e61))
        if self.second < self.mean**2 * (1 - 1e-12):
            raise ArgumentError(
                f"second: {self.second!r} is not allowed; must be at least mean squared, {self.mean**2:g}"
            )

    @classmethod
    def poisson(cls, rate: float) -> "Arrivals":
        """Return Poisson arrivals at this rate, in jobs per second."""
        mean = 1 / checks.number("arrivals", rate, above=0)
        return cls(mean=mean, second=2 * mean**2, poisson_process=True)

    @classmethod
    def recorded(cls, times: Sequence[float]) -> "Arrivals":
        """Return arrivals that repeat the recorded times between jobs, in order, starting at a random place."""
        kept = checks.record("times", times)
        return cls(mean=float(np.mean(kept)), second=float(np.mean(np.square(kept))), times=kept)

    @property
    def std(self) -> float:
        """Standard deviation of the time between two jobs."""
        return float(np.sqrt(max(self.second - self.mean**2, 0.0)))

    @property
    def rate(self) -> float:
        """Jobs per second in the long run."""
        return 1 / self.mean


@dataclass(frozen=True, slots=True)
class Workload:
    """What every job of the stream needs: K results per iteration, Omega, I iterations, and how jobs arrive.

    `operations` is the work C of one task, needed where workers state a rate. `gamma` weighs the second
    moment in the paper's metric E[T] + gamma E[T^2] and carries 1/time.

    >>> Workload(critical=50, redundancy=1.1, iterations=50, arrivals=Arrivals.poisson(0.01)).tasks
    55
    """

    critical: int
    redundancy: float
    iterations: int
    arrivals: Arrivals
    operations: float | None = None
    gamma: float = 1.0

    __repr__ = short_repr

    def __post_init__(self) -> None:
        object.__setattr__(self, "critical", checks.whole("critical", self.critical, least=1))
        object.__setattr__(self, "redundancy", checks.number("redundancy", self.redundancy, size=1e9))
        if self.redundancy < 1:
            raise ArgumentError(
                f"redundancy: {self.redundancy!r} is not allowed; must be >= 1, or fewer tasks than the "
                f"{self.critical} critical ones would be handed out"
            )
        object.__setattr__(self, "iterations", checks.whole("iterations", self.iterations, least=1, most=10**6))
        if self.operations is not None:
            object.__setattr__(self, "operations", checks.number("operations", self.operations, above=0))
        object.__setattr__(self, "gamma", checks.number("gamma", self.gamma, least=0))

    @property
    def tasks(self) -> int:
        """Tasks handed out per iteration: K*Omega, rounded (50*1.1 is 55.00000000000001 in floats)."""
        return round(self.critical * self.redundancy)


@dataclass(frozen=True, eq=False)
class Speeds:
    """Mean and standard deviation of one task and the link delay, an array each, one entry per worker."""

    mean: FloatArray
    std: FloatArray
    link: FloatArray

    __repr__ = short_repr

    def __post_init__(self) -> None:
        for name, low in (("mean", 0), ("std", None), ("link", None)):
            values = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, values)
            if values.ndim != 1 or not values.size or values.shape != self.mean.shape:
                raise ArgumentError(f"{name}: shape {values.shape} is not allowed; must be (workers,), as for mean")
            good = np.isfinite(values) & ((values > 0) if low is not None else (values >= 0))
            if not good.all():
                raise ArgumentError(
                    f"{name}: {values[~good][0]!r} is not allowed; must be finite and "
                    f"{'> 0' if low is not None else '>= 0'}"
                )

    def __len__(self) -> int:
        return len(self.mean)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a round costs besides computing.

    message: seconds that a worker needs to send a message, whatever its size.
    round: seconds that the master needs between two rounds, whatever the size of state and messages.
    bandwidth: of a worker's link, in bytes per second: for results, the state, and data that a worker is to hold.
    port: of the master's, in bytes per second, shared by all that it takes in and sends out.
    plane: who adds up the rows of a sum: "master", to which all of them travel; or "responders", the workers that sent
        them, so that one total passes the master's port (`echelon.ports` has the formulas).
    combining: seconds per byte to add one weighted array to another. A worker pays it for every part that a row
        combines, the master for every message that it decodes from.

    >>> Costs(message=1e-4).bandwidth
    inf
    """

    message: float = 0.0
    round: float = 0.0
    bandwidth: float = float("inf")
    combining: float = 0.0
    port: float = float("inf")
    plane: str = "master"

    __repr__ = short_repr

    def __post_init__(self) -> None:
        for name in ("message", "round", "combining"):
            object.__setattr__(self, name, checks.number(name, getattr(self, name), least=0))
        for name in ("bandwidth", "port"):
            value = getattr(self, name)
            if not isinstance(value, float) or value != float("inf"):
                object.__setattr__(self, name, checks.number(name, value, above=0))
        checks.one_of("plane", self.plane, PLANES)


@dataclass(frozen=True)
class Profile:
    """What every job needs and the workers that serve it.

    >>> workers = [Worker("a", mean=1.0, std=1.0), Worker("b", rate=2.0, link=0.1)]
    >>> workload = Workload(critical=4, redundancy=1.5, iterations=2, arrivals=Arrivals.poisson(0.1), operations=6)
    >>> Profile(workload, workers).speeds.mean.tolist()
    [1.0, 3.0]
    """

    workload: Workload
    workers: Sequence[Worker]
    source: str = field(default="profile", compare=False)
    costs: Costs = field(default_factory=Costs)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        checks.instance("workload", self.workload, Workload)
        checks.instance("costs", self.costs, Costs)
        listed = [checks.instance("workers", worker, Worker) for worker in checks.items("workers", self.workers)]
        object.__setattr__(self, "workers", tuple(listed))
        if not self.workers:
            raise ProfileError(f"{self.source}: worker: the list is empty; at least one worker is needed")
        seen: dict[str, int] = {}
        for i, worker in enumerate(self.workers):
            if worker.name in seen:
                raise ProfileError(
                    f"{self.source}: worker[{i + 1}].name: {worker.name!r} is the name of "
                    f"worker[{seen[worker.name] + 1}] too; names must differ"
                )
            seen[worker.name] = i
            if worker.rate is not None and self.workload.operations is None:
                raise ProfileError(
                    f"{self.source}: workload.operations: missing; worker[{i + 1}] states a rate, so the work of "
                    "one task is needed, a finite number > 0"
                )
            try:
                checks.number("a task's time, operations/rate", self._moments(worker)[0], above=0)
            except ArgumentError as error:
                raise ProfileError(f"{self.source}: worker[{i + 1}].rate: {error}") from None

    def _repr_html_(self) -> str:
        job, speeds = self.workload, self.speeds
        title = (
            f"{len(self.workers)} workers; any {job.critical} of {job.tasks} rows, "
            f"{job.iterations} iterations per job, {job.arrivals.rate:.4g} jobs per second"
        )
        columns = zip(speeds.mean.tolist(), speeds.std.tolist(), speeds.link.tolist(), strict=True)
        rows = [[worker.name, *times, worker.law] for worker, times in zip(self.workers, columns, strict=True)]
        return table(title, ["worker", "mean (s)", "std (s)", "link (s)", "law"], rows)

    @cached_property
    def speeds(self) -> Speeds:
        """The moments of one task and the links, as arrays."""
        pairs = [self._moments(worker) for worker in self.workers]
        means, stds = np.array(pairs, dtype=np.float64).T
        return Speeds(means, stds, np.array([worker.link for worker in self.workers]))

    def _moments(self, worker: Worker) -> tuple[float, float]:
        if worker.rate is None:
            assert worker.mean is not None
            assert worker.std is not None
            return worker.mean, worker.std
        assert self.workload.operations is not None
        # stream, note 2: Exp(mu/C) is a rate, so the mean task time is C/mu
        return (self.workload.operations / worker.rate,) * 2

    @property
    def names(self) -> list[str]:
        """Names of the workers, in order."""
        return [worker.name for worker in self.workers]

    def with_workload(self, **changes: Any) -> "Profile":
        """Return the same workers with a workload that differs in the given fields."""
        return replace(self, workload=replace(self.workload, **changes))

    def with_law(self, law: str, **parameters: Any) -> "Profile":
        """Return the same profile with one law of task times for all workers, with these parameters."""
        workers = tuple(replace(worker, law=law, parameters=parameters) for worker in self.workers)
        return replace(self, workers=workers)

    def with_speeds(self, speeds: Speeds) -> "Profile":
        """Return the same workload and names with other means, deviations and links."""
        if len(speeds) != len(self.workers):
            raise ArgumentError(f"speeds: {len(speeds)} workers are not allowed; must be {len(self.workers)}")
        columns = zip(self.workers, speeds.mean, speeds.std, speeds.link, strict=True)
        workers = tuple(
            replace(worker, mean=float(mean), std=float(std), link=float(link), rate=None)
            for worker, mean, std, link in columns
        )
        return replace(self, workers=workers)

    def scaled(self, factor: float) -> "Profile":
        """Return the same profile with all times, including those between jobs, multiplied by a factor.

        >>> workload = Workload(critical=4, redundancy=1.5, iterations=2, arrivals=Arrivals.poisson(0.1))
        >>> small = Profile(workload, [Worker("a", mean=1.0, std=1.0, link=0.5)]).scaled(0.1)
        >>> small.speeds.mean.tolist(), round(small.workload.arrivals.rate, 9)
        ([0.1], 1.0)
        """
        checks.number("factor", factor, above=0)
        speeds, arrivals = self.speeds, self.workload.arrivals
        gaps = Arrivals(
            mean=factor * arrivals.mean,
            second=factor**2 * arrivals.second,
            poisson_process=arrivals.poisson_process,
            times=tuple(factor * time for time in arrivals.times),
        )
        slower = self.with_speeds(Speeds(factor * speeds.mean, factor * speeds.std, factor * speeds.link))
        costs = Costs(
            message=factor * self.costs.message,
            round=factor * self.costs.round,
            bandwidth=self.costs.bandwidth / factor,
            combining=factor * self.costs.combining,
            port=self.costs.port / factor,
            plane=self.costs.plane,
        )
        return replace(slower, workload=replace(self.workload, arrivals=gaps, operations=None), costs=costs)
