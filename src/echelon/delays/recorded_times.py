"""Tables of rounds x workers that were recorded at one or several loads, and the laws that replay them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray
from echelon.delays.recorded import Recorded
from echelon.errors import ArgumentError
from echelon.profile import Worker
from echelon.reprs import short_repr

_FLAT = 1e-9  # relative: what the medians grow by, where that is rounding
_STEP = 2.0  # times the time of a call, and what all data adds: a fixed cost of any data at all


@dataclass(frozen=True, eq=False)
class RecordedTimes:
    """Seconds that each worker took in each round, recorded once per load.

    loads: shares of all data that every worker had, in rising order, shape (loads,); 0 is a call without data.
    times: shape (loads, rounds, workers). names: of the workers; w1, w2, … by default.

    >>> table = RecordedTimes({0.0: [[1.0, 2.0], [1.0, 4.0]], 0.5: [[2.0, 2.0], [2.0, 6.0]]})
    >>> table.at(0.25).tolist(), round(table.slope, 9)
    ([[1.5, 2.0], [1.5, 5.0]], 1.0)
    >>> [law.times for law in table.laws(parts=10, slope=1.0)]
    [(1.0, 1.0), (2.0, 4.0)]
    """

    loads: FloatArray
    times: FloatArray
    names: tuple[str, ...]

    __repr__ = short_repr

    def __init__(self, tables: Mapping[float, Any], names: Sequence[str] = ()) -> None:
        if not isinstance(tables, Mapping) or not tables:
            raise ArgumentError(f"tables: {checks.shown(tables)} is not allowed; must be tables by their load")
        by_load = {
            checks.number("a load", load, least=0): checks.floats("times", some) for load, some in tables.items()
        }
        shapes = {some.shape for some in by_load.values()}
        if len(shapes) > 1 or any(len(shape) != 2 or 0 in shape for shape in shapes):
            said = ", ".join(str(shape) for shape in sorted(shapes))
            raise ArgumentError(f"times: shapes {said} are not allowed; must be one shape, (rounds, workers)")
        loads = sorted(by_load)
        times = np.stack([by_load[load] for load in loads])
        if not (np.isfinite(times).all() and (times > 0).all()):
            raise ArgumentError("times: must be finite and > 0; fill in what was not seen")
        for name, value in (("loads", np.array(loads)), ("times", times)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        named = tuple(checks.items("names", names)) or tuple(f"w{p + 1}" for p in range(self.workers))
        if len(named) != self.workers:
            raise ArgumentError(f"names: {len(named)} given; must be {self.workers}, one per worker, or none")
        object.__setattr__(self, "names", named)

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return int(self.times.shape[1])

    @property
    def workers(self) -> int:
        """Number of workers."""
        return int(self.times.shape[2])

    @property
    def slope(self) -> float:
        """Seconds that the median grows by per unit of load: of the line through the medians, by least squares."""
        if len(self.loads) < 2:
            raise ArgumentError("slope: not known, since only one load was recorded; it must be given")
        return self._line()[0]

    def _line(self) -> tuple[float, float]:
        """Return slope and height at load 0 of the line through the medians; a slope of rounding alone is none."""
        medians = np.median(self.times, axis=(1, 2))
        slope, height = (float(value) for value in np.polyfit(self.loads, medians, 1))
        flat = abs(slope) * float(np.ptp(self.loads)) <= _FLAT * float(medians.max())
        return 0.0 if flat else slope, height

    @property
    def step(self) -> float:
        """Seconds by which calls without data lie below the line through the medians of all other loads.

        0 where that is no more than what the data or the call itself take, or not known.

        >>> steep = {0.0: [[1.0, 1.2]], 0.5: [[9.0, 9.2]], 1.0: [[9.5, 9.7]]}
        >>> round(RecordedTimes(steep).step, 9), RecordedTimes(steep).above(0.5).step
        (7.5, 0.0)
        """
        if self.loads[0] > 0 or len(self.loads) < 3:
            return 0.0
        call, (slope, height) = float(np.median(self.times[0])), self.above(float(self.loads[1]))._line()
        step = height - call
        return step if step > _STEP * max(call, abs(slope) * float(self.loads[-1])) else 0.0

    def above(self, load: float) -> "RecordedTimes":
        """Return the table of the loads from this one on, as where less data, or none, is another thing."""
        kept = {one: times for one, times in zip(self.loads.tolist(), self.times, strict=True) if one >= load}
        if not kept:
            raise ArgumentError(f"load: {load:g} is not allowed; must be at most {self.loads[-1]:g}, as recorded")
        return RecordedTimes(kept, self.names)

    def at(self, load: float) -> FloatArray:
        """Return the times at a load, shape (rounds, workers): for each round and worker, linear between recorded ones.

        Loads below the least recorded one, and beyond the largest, are refused: there is often a step between no data
        and some. `laws` says what its own line is there.
        """
        load = checks.number("load", load, least=0)
        if not self.loads[0] <= load <= self.loads[-1]:
            raise ArgumentError(
                f"load: {load:g} is not allowed; must be from {self.loads[0]:g} to {self.loads[-1]:g}, as recorded"
            )
        above = int(np.searchsorted(self.loads, load))
        if self.loads[above] == load:
            exact: FloatArray = self.times[above]
            return exact
        low, high = self.loads[above - 1 : above + 1]
        share = (load - low) / (high - low)
        between: FloatArray = (1 - share) * self.times[above - 1] + share * self.times[above]
        return between

    def laws(self, *, parts: int, load: float | None = None, slope: float | None = None) -> list[Recorded]:
        """Return the law of each worker for plans whose `parts` parts are all the data.

        In round t worker p takes ``at(load)[t, p] + slope * (C / parts - load)`` for a lane of C parts: just what was
        recorded where the lane has `load`, and a line on either side of it. The line is the same for all, so that more
        work never takes less time, which single recordings at different loads do not promise.

        load: of the lanes that matter; by default the least recorded. slope: by default that of the medians.
        """
        parts = checks.whole("parts", parts, least=1)
        load = float(self.loads[0]) if load is None else checks.number("load", load, least=0)
        slope = self.slope if slope is None else checks.number("slope", slope, least=0)
        if slope < 0:
            raise ArgumentError(f"slope: the medians fall with the load, by {slope:g}; give one that is >= 0")
        costs = self.at(load) - slope * load
        if (costs < 0).any():
            raise ArgumentError(f"slope: {slope:g} is not allowed; a round of no parts would take {costs.min():g} s")
        return [Recorded(times=column, part=slope / parts) for column in costs.T.tolist()]

    def profiled(self, *, parts: int, load: float | None = None, slope: float | None = None) -> list[Worker]:
        """Return the workers of a profile that have these laws (`laws`), to be written to a file or emulated.

        Times are rounded to six digits.

        >>> table = RecordedTimes({0.0: [[1.0, 2.0], [1.5, 4.0]]}, names=["a", "b"])
        >>> [(worker.name, worker.mean) for worker in table.profiled(parts=4, slope=2.0)]
        [('a', 1.75), ('b', 3.5)]
        """
        found = []
        for name, law in zip(self.names, self.laws(parts=parts, load=load, slope=slope), strict=True):
            times = [float(f"{time:.6g}") for time in law.times]
            kept = Recorded(times=times, part=law.part)
            told = {"times": times, "part": kept.part}
            found.append(Worker(name, mean=kept.mean, std=kept.std, law="recorded", parameters=told))
        return found
