"""Counts of what happens in a stream, as metrics for Prometheus: docs/guide/metrics.md explains each of them."""

from collections.abc import Iterator, Mapping, Sequence

from echelon.errors import JobFailed
from echelon.master.actions import Outcome
from echelon.page.openmetrics import Histogram, Metric, Samples, exposition
from echelon.plan import Plan, Task
from echelon.stream.observer import Arrival, Observer, RoundSeen, Running

USES = ("new", "again", "late", "ahead")  # of a row that came, as `Arrival.use` has them
UNKNOWN = "unknown"  # the worker of what can't be put down to one

_WORKER, _BOTH = ("worker",), ("worker", "outcome")
METRICS = {
    "echelon_jobs_submitted": Metric("counter", "", (), "Jobs that came in."),
    "echelon_jobs_ended": Metric("counter", "", ("outcome",), "Jobs that ended: done, failed or cancelled."),
    "echelon_jobs_open": Metric("gauge", "", (), "Jobs that came in and have not ended."),
    "echelon_jobs_starved": Metric("counter", "", (), "Times that no worker was left for a job."),
    "echelon_job_delay_seconds": Metric(
        "histogram", "seconds", (), "Time from arrival to end of the jobs that were done."
    ),
    "echelon_rounds_opened": Metric("counter", "", (), "Rounds that were planned and sent out."),
    "echelon_round_seconds": Metric(
        "histogram", "seconds", (), "Time from the start of a round to the last message that it needed."
    ),
    "echelon_rounds_repeated": Metric("counter", "", (), "Rounds in which late rows were given to others, too."),
    "echelon_replans": Metric("counter", "", (), "Rounds with another plan than the one before, of the same job."),
    "echelon_slots_left_out": Metric("counter", "", (), "Slots that rounds ended without, as their plans allow."),
    "echelon_rows_needed": Metric("counter", "", (), "Rows that the rounds that are over needed."),
    "echelon_rows_planned": Metric("counter", "", _WORKER, "Rows that rounds that are over had planned."),
    "echelon_rows_purged": Metric("counter", "", _WORKER, "Planned rows that had not come when their round was over."),
    "echelon_rows_carried": Metric("counter", "", (), "Rows that were there before their round began."),
    "echelon_rows_received": Metric(
        "counter", "", _BOTH, "Rows that came: new; again (it was there); late (its round was over); ahead."
    ),
    "echelon_received_bytes": Metric("counter", "bytes", _BOTH, "Size of the rows that came."),
    "echelon_computing_seconds": Metric(
        "counter", "seconds", _BOTH, "Time that workers computed rows, and those that a purge cut short (purged)."
    ),
    "echelon_wrong_results": Metric("counter", "", _WORKER, "Results that were found to be wrong."),
    "echelon_worker_up": Metric("gauge", "", _WORKER, "Whether a worker is at this place."),
    "echelon_worker_losses": Metric("counter", "", _WORKER, "Workers that were lost at this place."),
    "echelon_decoding_error_ratio": Metric(
        "gauge", "ratio", (), "Largest error that decoding may have brought into the last round, relative to its terms."
    ),
}

ROUND_BOUNDS = tuple(digit * 10.0**power for power in range(-4, 4) for digit in (1, 2.5, 5))
DELAY_BOUNDS = tuple(digit * 10.0**power for power in range(-3, 5) for digit in (1, 2.5, 5))


class _Seat:
    """What is counted of one place, whichever worker is there."""

    __slots__ = ("losses", "name", "nbytes", "planned", "purged", "rows", "seconds", "up", "wrong")

    def __init__(self, name: str) -> None:
        self.name, self.up = name, 0
        self.planned = self.purged = self.losses = self.wrong = 0
        self.rows, self.nbytes = dict.fromkeys(USES, 0), dict.fromkeys(USES, 0)
        self.seconds = dict.fromkeys((*USES, "purged"), 0.0)


class _Seats(dict[int, _Seat]):
    """The seat of each worker by its number; of workers that nobody announced, one for all."""

    def __init__(self) -> None:
        super().__init__()
        self.unknown: _Seat | None = None

    def __missing__(self, worker: int) -> _Seat:
        self.unknown = self.unknown or _Seat(UNKNOWN)
        return self.unknown


class Metrics(Observer):
    """Counts what happens in a stream; `text` gives the counts in the text form of OpenMetrics, to any thread.

    Prefer `Stream(metrics=…)`, which also puts them where a monitor finds them; take this to serve them yourself.
    Counts begin with the stream, or with `Stream.watch`: workers that were there before are then called "unknown".
    The thread that drives adds to plain numbers and takes no lock, so what `text` shows may be a message apart.

    names: of the workers, by place; without, they are numbered from "w1" on, as in records.

    >>> from echelon.jobs import SumJob
    >>> from echelon.stream import Stream
    >>> job = SumJob(partial=lambda w, x: x, update=lambda w, total: total, state=0.0, chunks=[1.0, 2.0], iterations=3)
    >>> metrics = Metrics()
    >>> with Stream("virtual", workers=2, redundancy=1.0, observers=[metrics]) as stream:
    ...     _ = stream.submit(job).result()
    >>> print(*(line for line in metrics.text().splitlines() if line.startswith("echelon_rows_needed")), sep="\\n")
    echelon_rows_needed_total 6
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._places = [_Seat(name) for name in names]
        self._seats = _Seats()
        self._gone: dict[int, float] = {}  # workers that were lost in the last round, or since
        self._submitted = self._starved = self._opened = self._repeated = self._replans = 0
        self._left_out = self._needed = self._carried = 0
        self._ended = {outcome: 0 for outcome in Outcome}
        self._delays, self._rounds = Histogram(DELAY_BOUNDS), Histogram(ROUND_BOUNDS)
        self._error = 0.0
        self._last: tuple[int, Plan] | None = None  # job and plan of the last round

    # what happens, as the driving thread tells it

    def submitted(self, time_s: float, running: Running) -> None:
        """Count a job."""
        self._submitted += 1

    def delivered(self, time_s: float, running: Running, outcome: Outcome, error: JobFailed | None) -> None:
        """Count the end of a job."""
        self._ended[outcome] += 1
        if outcome is Outcome.DONE:
            self._delays.add(time_s - running.arrived)

    def starved(self, time_s: float, job: int) -> None:
        """Count that no worker was left."""
        self._starved += 1

    def worker_up(self, time_s: float, worker: int, place: int) -> None:
        """Give a worker its seat."""
        self._places += [_Seat(f"w{number + 1}") for number in range(len(self._places), place + 1)]
        self._seats[worker] = self._places[place]
        self._places[place].up = 1

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        """Count a loss; the worker keeps its seat, since messages of it may still come."""
        self._gone[worker] = time_s
        seat = self._seats[worker]
        seat.up, seat.losses = 0, seat.losses + 1

    def wrong_result(self, time_s: float, worker: int, place: int | None, round: int, slot: int, row: int) -> None:
        """Count a wrong result."""
        self._seats[worker].wrong += 1

    def opened(self, seen: RoundSeen) -> None:
        """Count a round, and whether it has another plan."""
        last, self._last = self._last, (seen.job, seen.plan)
        self._opened += 1
        if last is not None and last[0] == seen.job and last[1] is not seen.plan:
            self._replans += 1

    def received(self, arrival: Arrival) -> None:
        """Count a message."""
        worker, _, _, _, _, seconds, nbytes, use = arrival
        seat = self._seats[worker]
        seat.rows[use] += 1
        seat.nbytes[use] += nbytes
        seat.seconds[use] += seconds

    def round_over(self, seen: RoundSeen) -> None:
        """Count what a round took and needed, and what its purge cut short."""
        self._rounds.add(seen.end - seen.start)
        self._error = seen.error_estimate.relative_to_terms
        self._needed += sum(slot.threshold for slot in seen.plan.slots)
        self._carried += seen.came
        self._repeated += seen.repeated
        if seen.plan.ending is not None:
            self._left_out += len(seen.left_out)
        sent: dict[int, dict[tuple[int, int], float]] = {}
        for worker, _, slot, row, time, _, _, _ in seen.messages:
            sent.setdefault(worker, {})[slot, row] = time
        for worker, lane in zip(seen.workers, seen.lanes(), strict=True):
            if lane and worker in self._seats:
                self._over(seen, worker, lane, sent.get(worker, {}))
        self._gone = {worker: time_s for worker, time_s in self._gone.items() if time_s > seen.end}

    def _over(self, seen: RoundSeen, worker: int, lane: Sequence[Task], sent: dict[tuple[int, int], float]) -> None:
        """Count what a worker was to do in a round; `sent` is when each of its rows came."""
        seat = self._seats[worker]
        seat.planned += len(lane)
        purged = sum((task.slot, task.row) not in sent for task in lane)
        if purged:
            seat.purged += purged
            slots = {task.slot for task in lane}
            # with its slot, where it serves one that was recovered before the others
            told = seen.recovered.get(min(slots), seen.end) if len(slots) == 1 else seen.end
            stop = min(told, self._gone.get(worker, told))
            seat.seconds["purged"] += max(0.0, stop - max(sent.values(), default=seen.start))

    # what a monitor reads

    def text(self) -> str:
        """Return all metrics in the text form of OpenMetrics 1.0."""
        unknown = self._seats.unknown
        seats = [*self._places, *([] if unknown is None else [unknown])]
        return exposition(METRICS, dict(self._samples(seats)))

    def _samples(self, seats: Sequence[_Seat]) -> Iterator[tuple[str, Samples]]:
        plain: dict[str, float] = {
            "jobs_submitted": self._submitted,
            "jobs_open": self._submitted - sum(self._ended.values()),
            "jobs_starved": self._starved,
            "rounds_opened": self._opened,
            "rounds_repeated": self._repeated,
            "replans": self._replans,
            "slots_left_out": self._left_out,
            "rows_needed": self._needed,
            "rows_carried": self._carried,
            "decoding_error_ratio": self._error,
        }
        by_worker: dict[str, list[float]] = {
            "rows_planned": [seat.planned for seat in seats],
            "rows_purged": [seat.purged for seat in seats],
            "wrong_results": [seat.wrong for seat in seats],
            "worker_up": [seat.up for seat in seats],
            "worker_losses": [seat.losses for seat in seats],
        }
        by_both: dict[str, list[Mapping[str, float]]] = {
            "rows_received": [seat.rows for seat in seats],
            "received_bytes": [seat.nbytes for seat in seats],
            "computing_seconds": [seat.seconds for seat in seats],
        }
        for name, value in plain.items():
            yield f"echelon_{name}", [((), value)]
        for name, values in by_worker.items():
            yield f"echelon_{name}", [((seat.name,), value) for seat, value in zip(seats, values, strict=True)]
        for name, held in by_both.items():
            yield (
                f"echelon_{name}",
                [
                    ((seat.name, use), value)
                    for seat, uses in zip(seats, held, strict=True)
                    for use, value in uses.items()
                ],
            )
        yield "echelon_jobs_ended", [((outcome.value,), count) for outcome, count in self._ended.items()]
        yield "echelon_job_delay_seconds", self._delays
        yield "echelon_round_seconds", self._rounds
