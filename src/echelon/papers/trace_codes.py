"""What codes take on a table of recorded rounds x workers, by the evaluators and by the master in virtual time.

In round t worker p takes what it took then without data, and `slope` seconds times its share of the data. A round ends
with the first rows that give the sum; rows of a cyclic code are only counted.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray
from echelon.clusters import VirtualCluster
from echelon.codes import Code, cyclic, fractional_repetition, graph, uncoded
from echelon.delays import RecordedTimes
from echelon.errors import ArgumentError
from echelon.jobs import HollowJob
from echelon.plan import Plan, Slot, Task
from echelon.profile import Arrivals, Profile, Workload
from echelon.schemes import CodedPlan, coded_rows
from echelon.seeds import place_generator
from echelon.simulation import RoundSampler
from echelon.stream import Stream

COPIES = (2, 3, 4, 5, 6, 8, 10, 12, 16)  # of every part, that sparse placements are tried with
MOST_WORKERS = 2000  # codes are matrices of rows by parts


@dataclass(frozen=True, slots=True)
class Placed:
    """A placement of data: a plan of one row per worker, and the parts that make up the data."""

    plan: Plan
    parts: int

    @property
    def share(self) -> float:
        """The largest share of the data that a worker has."""
        return float(max(costs.sum() for costs in self.plan.costs)) / self.parts


@dataclass(frozen=True, slots=True)
class Cyclic:
    """The cyclic code that takes least: any but `s` rows are enough."""

    s: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What all recorded rounds take together, in seconds; sparse placements by their number of copies."""

    rounds: int
    slope: float
    uncoded: float
    cyclic: Cyclic
    repetition: dict[str, float]
    graph: dict[str, float]
    median: float


class Recording:
    """A table, at one of its loads, with the line by which times grow from there.

    load: from which the line goes, within those recorded; by default that of calls without data.
    slope: seconds per unit of load; by default that of the line through the medians at all loads.

    >>> table = RecordedTimes({0.0: [[1.0, 2.0, 3.0, 9.0]], 0.5: [[2.0, 3.0, 4.0, 10.0]]})
    >>> recording = Recording(table)
    >>> round(recording.slope, 9), recording.best_cyclic().s, recording.seconds(recording.repetition(2))
    (2.0, 3, 3.0)
    """

    def __init__(self, table: RecordedTimes, *, load: float = 0.0, slope: float | None = None) -> None:
        self.table = checks.instance("table", table, RecordedTimes)
        if not table.loads[0] <= load <= table.loads[-1]:
            known = ", ".join(f"{some:g}" for some in table.loads)
            raise ArgumentError(f"table: load {load:g} is needed, and only {known} was recorded")
        if slope is None and len(table.loads) < 2:
            raise ArgumentError(
                f"table: only load {load:g} was recorded; another load is needed to know what data costs, or a slope"
            )
        if not 2 <= table.workers <= MOST_WORKERS:
            raise ArgumentError(f"table: {table.workers} workers are not allowed; must be 2 to {MOST_WORKERS}")
        self.workers, self.load = table.workers, load
        self.slope = checks.number("slope", table.slope if slope is None else slope, least=0)

    def uncoded(self) -> Placed:
        """Return one part per worker."""
        return self.placed(uncoded(parts=self.workers))

    def counted(self, spare: int) -> Placed:
        """Return any n - `spare` rows of `spare` + 1 parts each, by their number alone."""
        lanes = [[Task(slot=0, row=p, cost=float(spare + 1))] for p in range(self.workers)]
        return Placed(Plan([Slot(rows=self.workers, threshold=self.workers - spare)], lanes), self.workers)

    def cyclic(self, spare: int) -> Placed:
        """Return the same rows with their code, which fewer of them may decode."""
        return self.placed(cyclic(rows=self.workers, load=spare + 1, rng=place_generator(1, 0)))

    def repetition(self, copies: int, *, apart: bool = True) -> Placed:
        """Return fractional repetition, by default with the copies as far apart as can be."""
        return self.placed(fractional_repetition(rows=self.workers, load=copies, apart=apart))

    def graph(self, copies: int, *, seed: int = 1) -> Placed:
        """Return a random graph with an edge for each worker."""
        parts = 2 * self.workers // copies
        return self.placed(graph(parts=parts, load=copies, rng=np.random.default_rng(seed)))

    def repeats(self, copies: int) -> bool:
        """Return whether there is fractional repetition with this many copies."""
        return self.workers % copies == 0

    def has_graph(self, copies: int) -> bool:
        """Return whether there is a regular graph with this many copies and an edge for each worker."""
        return 2 * self.workers % copies == 0 and copies < 2 * self.workers // copies

    def placed(self, code: Code) -> Placed:
        """Return the plan that gives each worker one row of a code."""
        return Placed(coded_rows(code, [1] * self.workers), code.parts)

    def best_cyclic(self) -> Cyclic:
        """Return the cyclic code that takes least where any n - s rows are awaited, whichever they are."""
        ordered = np.sort(self._without_data(), axis=1).sum(axis=0)[::-1]  # with the slowest s left out
        spare = np.arange(self.workers)
        best = int(np.argmin(ordered + self.table.rounds * self.slope * (spare + 1) / self.workers))
        return Cyclic(best, self.seconds(self.counted(best)))

    def median(self) -> float:
        """Return what the rounds would take if each took as long as its median worker, uncoded."""
        return float(np.median(self._without_data() + self.slope / self.workers, axis=1).sum())

    def seconds(self, placed: Placed) -> float:
        """Return what all recorded rounds take, by the evaluator; they are there once each, wherever they begin."""
        laws = self.table.laws(parts=placed.parts, load=self.load, slope=self.slope)
        sampler, rng = RoundSampler(placed.plan, laws, np.zeros(self.workers)), place_generator(1, 0)
        return float(sampler.draw(sampler.begin(1, rng), 1, self.table.rounds, rng)[0].times.sum())

    def in_virtual_time(self, placed: Placed) -> float:
        """Return what the master takes for a job of as many rounds."""
        assert isinstance(placed.plan, CodedPlan)
        workload = Workload(
            critical=1, redundancy=1.0, iterations=self.table.rounds, arrivals=Arrivals.poisson(0.01)
        )  # fmt: skip
        workers = self.table.profiled(parts=placed.parts, load=self.load, slope=self.slope)
        cluster = VirtualCluster(emulate=Profile(workload, workers))
        with Stream(cluster, patience_s=1e9, progress=False) as stream:
            job = HollowJob(placed.plan, iterations=self.table.rounds)
            return float(stream.submit(job).delivery().delay)

    def figures(self, *, seed: int = 1) -> Figures:
        """Return what uncoded work and codes take; numbers of copies that do not divide are left out."""
        return Figures(
            rounds=self.table.rounds,
            slope=self.slope,
            uncoded=self.seconds(self.uncoded()),
            cyclic=self.best_cyclic(),
            repetition=self._by_copies(self.repeats, self.repetition),
            graph=self._by_copies(self.has_graph, lambda copies: self.graph(copies, seed=seed)),
            median=self.median(),
        )

    def _by_copies(self, there: Callable[[int], bool], place: Callable[[int], Placed]) -> dict[str, float]:
        return {str(copies): self.seconds(place(copies)) for copies in COPIES if there(copies)}

    def _without_data(self) -> FloatArray:
        return self.table.at(self.load) - self.slope * self.load
