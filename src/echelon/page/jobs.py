"""Jobs of a run as the page lists them, and what their queue is like."""

from collections import deque
from statistics import mean
from typing import Any

from echelon.page.series import Series
from echelon.page.spread import Spread
from echelon.stream.record import Record, RecordedRound

LISTED = 50  # jobs that have ended
_LATELY = 200  # arrivals and departures from which the load is taken
_ENOUGH = 5  # of both, before it is told
_FULL = 0.95  # from this load on, jobs wait for very long


class Jobs:
    """Counts jobs, and keeps those that are open and the last that ended; told when the record has the entry."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # iterations taken, by job
        self._ended: deque[int] = deque(maxlen=LISTED)
        self.taken: dict[int, int] = {}  # iterations of those that ended
        self.counts = {"submitted": 0, "done": 0, "failed": 0, "cancelled": 0}
        self.delays, self.series = Spread(), Series()
        self._arrivals: deque[float] = deque(maxlen=_LATELY)
        self._services: deque[float] = deque(maxlen=_LATELY)
        self._lasted: dict[int, float] = {}  # seconds of a round, faded, by job
        self._left = 0.0  # when the last job ended

    def submitted(self, time: float, job: int) -> None:
        """Note a job."""
        self.open[job] = 0
        self.counts["submitted"] += 1
        self._arrivals.append(time)
        self.series.add(time, len(self.open))

    def round_over(self, seen: RecordedRound) -> None:
        """Note an iteration; the last one of a job may come after its end."""
        (self.open if seen.job in self.open else self.taken)[seen.job] = seen.iteration + 1
        lasted = seen.end - seen.start
        before = self._lasted.get(seen.job, lasted)
        self._lasted[seen.job] = before + 0.1 * (lasted - before)

    def ended(self, time: float, job: int, record: Record) -> None:
        """Note the end of a job, and have the record forget those that are no longer listed."""
        self.taken[job] = self.open.pop(job)
        outcome = record.outcomes[job]
        self.counts[outcome] += 1
        arrival = record.arrivals[job]
        if outcome == "done":
            self.delays.add(time - arrival)
            self._services.append(time - max(arrival, self._left))
        self._left = time
        self.series.add(time, len(self.open))
        if len(self._ended) == LISTED:
            self._forget(self._ended[0], record)
        self._ended.append(job)

    def _forget(self, job: int, record: Record) -> None:
        tables: tuple[dict[int, Any], ...] = (
            record.arrivals, record.job_names, record.departures, record.outcomes, record.iterations, record.errors,
            self._lasted, self.taken,
        )  # fmt: skip
        for table in tables:
            table.pop(job, None)

    def rows(self, record: Record, served: int | None) -> list[dict[str, Any]]:
        """Return the jobs that are listed: open ones in their order, then those that ended, the last first."""
        return [self._row(job, record, served) for job in (*self.open, *reversed(self._ended))]

    def _row(self, job: int, record: Record, served: int | None) -> dict[str, Any]:
        taken, length = self.open.get(job, self.taken.get(job, 0)), record.iterations.get(job)
        eta = None
        if job in self.open and length is not None and job in self._lasted:
            eta = max(0, length - taken) * self._lasted[job]
        return {
            "job": job,
            "name": record.job_names[job],
            "arrived": record.arrivals[job],
            "ended": record.departures.get(job),
            "state": record.outcomes.get(job) or ("running" if taken or job == served else "waiting"),
            "iteration": taken,
            "iterations": length,
            "eta_s": eta,
            "error": record.errors.get(job),
        }

    def queue(self) -> dict[str, Any]:
        """Return how many jobs there are, and whether they come faster than they are done."""
        arrivals, services = self._arrivals, self._services
        enough = len(arrivals) >= _ENOUGH and len(services) >= _ENOUGH and arrivals[-1] > arrivals[0]
        rate = (len(arrivals) - 1) / (arrivals[-1] - arrivals[0]) if enough else None
        service = mean(services) if enough else None
        load = None if rate is None or service is None else rate * service
        return {
            "open": len(self.open),
            **self.counts,
            "arrivals_per_s": rate,
            "service_s": service,
            "load": load,
            "says": _says(load),
            "series": list(self.series),
        }


def _says(load: float | None) -> str:
    if load is None:
        return "Too few jobs have come and gone to say whether the queue is stable."
    if load >= 1:
        return f"Unstable: jobs come {load:.2g} times as fast as they are done, so the queue grows."
    near = ", but hardly: jobs wait for long" if load >= _FULL else ""
    return f"Stable{near}: jobs keep the workers busy for {load:.0%} of the time."
