"""What is to be seen of a stream while it runs: collected here once, shown on a terminal and in a notebook."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from echelon.errors import JobFailed
from echelon.master.actions import Outcome
from echelon.stream.driver import Driver
from echelon.stream.observer import Observer, RoundSeen, Running

_MARK_S = 0.1  # least time between two marks from which speeds are taken
_MARKS = 100
_SLOW = 1.5  # times as long as the fastest worker, from which one is named
_NAMED = 3  # slow workers that are named
_LISTED = 16  # workers in a table

COLUMNS = "worker", "state", "rows", "results", "ms per part", "slower", "losses"


@dataclass(frozen=True, slots=True)
class WorkerNow:
    """A place: its worker's state, rows of the last round and those that came, seconds per part, and losses.

    slower: how many times as long as the fastest it takes for a part; None before anything is known.
    """

    name: str
    state: str
    rows: int
    results: int
    mean: float | None
    slower: float | None
    losses: int

    @property
    def there(self) -> bool:
        """Whether it is ready, at work or not."""
        return self.state not in ("starting", "gone")

    def cells(self) -> list[str]:
        """Return what a table says of it, by `COLUMNS`."""
        mean = "?" if self.mean is None else f"{self.mean * 1e3:.3g}"
        slower = "?" if self.slower is None else f"{self.slower:.1f}x"
        return [self.name, self.state, str(self.rows), str(self.results), mean, slower, str(self.losses)]


@dataclass(frozen=True, slots=True)
class Now:
    """A stream at a moment.

    jobs: how many have not ended. job: the one that is served, with its iterations; None where there is none.
    share: of the iterations of all jobs since the stream was idle; None where that is not known.
    left: seconds until all of them are done, at the speed of late; `at_most` where a job may end before.
    per_s: rounds per second. mean, expected: seconds of a round, as they are and as they should be.
    rows: how many are needed in a round, and of how many.
    """

    jobs: int
    job: str | None
    iteration: int
    iterations: int | None
    share: float | None
    left: float | None
    at_most: bool
    rounds: int
    per_s: float | None
    mean: float | None
    expected: float | None
    rows: tuple[int, int] | None
    workers: tuple[WorkerNow, ...]

    @property
    def there(self) -> int:
        """How many workers are there."""
        return sum(worker.there for worker in self.workers)

    @property
    def slow(self) -> list[WorkerNow]:
        """The slowest workers, if they take much longer than the fastest; the slowest first."""
        known = [worker for worker in self.workers if worker.slower is not None and worker.slower >= _SLOW]
        return sorted(known, key=lambda worker: -(worker.slower or 0.0))[:_NAMED]

    def title(self) -> str:
        """Return which job is served, and how far it is."""
        if self.job is None:
            return f"no job; {self.rounds} rounds so far"
        if self.iterations == 1:  # it is over before one could read it
            return self.job
        return f"{self.job}: iteration {self.iteration}" + ("" if self.iterations is None else f" of {self.iterations}")

    def progress(self) -> list[str]:
        """Return how it goes on, in a few words each."""
        words = []
        if self.share is not None:
            words.append(f"{self.share:.0%}")
        if self.left is not None:
            words.append(f"ETA {'at most ' if self.at_most else ''}{clock(self.left)}")
        if self.per_s is not None:
            words.append(f"{self.per_s:.3g} rounds/s")
        words.append(f"workers {self.there} of {len(self.workers)}")
        if self.slow:
            words.append("slow: " + ", ".join(f"{worker.name} {worker.slower:.1f}x" for worker in self.slow))
        if self.jobs > 1:
            words.append(f"{self.jobs} jobs in the stream")
        return words

    def details(self) -> str:
        """Return what rounds are like."""
        if self.rows is None or self.mean is None:
            return ""
        needed, coded = self.rows
        said = f"{self.mean * 1e3:.3g} ms per round, any {needed} of {coded} rows"
        return said if self.expected is None else f"{said}, {self.expected * 1e3:.3g} ms expected"

    def table(self) -> tuple[list[list[str]], str]:
        """Return workers by `COLUMNS`, and how many are not listed: of many, those that need to be looked at are."""
        listed = list(self.workers)
        if len(listed) > _LISTED:
            listed.sort(key=lambda worker: (worker.there, -(worker.slower or 0.0), -worker.losses))
        left = len(listed) - _LISTED
        return [worker.cells() for worker in listed[:_LISTED]], f"and {left} more workers" if left > 0 else ""


def clock(seconds: float) -> str:
    """Return a time for people, in hours, minutes and seconds.

    >>> clock(7.6), clock(3725.0), clock(200_000.0)
    ('0:08', '1:02:05', '2 days, 7:33:20')
    """
    whole = round(seconds)
    days, minutes = f"{whole // 86400} days, " if whole >= 2 * 86400 else "", whole // 60
    if days:
        minutes %= 24 * 60
    hours = f"{minutes // 60}:{minutes % 60:02}" if minutes >= 60 or days else f"{minutes}"
    return f"{days}{hours}:{whole % 60:02}"


class Facts(Observer):
    """Collects what is to be seen; `now` may be called from any thread.

    names: of the places. fixed: whether a worker that is lost has no successor.
    """

    def __init__(self, driver: Driver, names: Sequence[str], *, fixed: bool) -> None:
        self._driver, self._names, self._fixed = driver, names, fixed
        self._jobs: dict[int, Running] = {}
        self._rounds = self._steps = 0
        self._ended = 0  # iterations of jobs that have ended since the stream was idle
        self._marks: deque[tuple[float, int, int]] = deque(maxlen=_MARKS)  # time, rounds and steps by then
        self._mean = 0.0
        self._last: RoundSeen | None = None
        self._lost: dict[int, int] = {}

    def submitted(self, time_s: float, running: Running) -> None:
        """Note a job."""
        if not self._jobs:
            self._ended = 0
            self._marks.clear()
            self._marks.append((time_s, self._rounds, self._steps))
        self._jobs[running.number] = running

    def delivered(self, time_s: float, running: Running, outcome: Outcome, error: JobFailed | None) -> None:
        """Forget a job that has ended."""
        if self._jobs.pop(running.number, None) is not None:
            self._ended += running.iteration

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        """Count a loss."""
        self._lost[place] = self._lost.get(place, 0) + 1

    def stepped(self, running: Running, seen: RoundSeen, finished: bool) -> None:
        """Count a step of a job."""
        self._steps += 1

    def round_over(self, seen: RoundSeen) -> None:
        """Note a round."""
        self._rounds += 1
        self._mean += max(0.1, 1 / self._rounds) * (seen.end - seen.start - self._mean)
        self._last = seen
        mark = seen.end, self._rounds, self._steps
        if len(self._marks) > 1 and seen.end - self._marks[-2][0] < _MARK_S:
            self._marks[-1] = mark
        else:
            self._marks.append(mark)

    def now(self) -> Now:
        """Return what is to be seen now."""
        jobs, marks, seen = list(self._jobs.values()), list(self._marks), self._last
        job = jobs[0] if jobs else None
        per_s = steps_per_s = None
        if len(marks) > 1 and marks[-1][0] > marks[0][0]:
            lasted = marks[-1][0] - marks[0][0]
            per_s, steps_per_s = ((marks[-1][i] - marks[0][i]) / lasted for i in (1, 2))
        share, left = self._left(jobs, steps_per_s, since=marks[-1][0] if marks else 0.0)
        return Now(
            jobs=len(jobs),
            job=None if job is None else job.name,
            iteration=0 if job is None else job.iteration,
            iterations=None if job is None else job.job.iterations,
            share=share,
            left=left,
            at_most=any(each.job.until is not None for each in jobs),
            rounds=self._rounds,
            per_s=per_s,
            mean=self._mean if self._rounds else None,
            expected=self._driver.pacing.expected,
            rows=None if seen is None else (seen.plan.slots[0].threshold, seen.plan.slots[0].rows),
            workers=self._workers(seen, at_work=bool(jobs)),
        )

    def _left(self, jobs: list[Running], steps_per_s: float | None, since: float) -> tuple[float | None, float | None]:
        """Return the share of all iterations that is done, and the seconds that are left; None for what is unknown."""
        lengths = [job.job.iterations for job in jobs]
        known = [length for length in lengths if length is not None]
        done, total = self._ended + sum(job.iteration for job in jobs), self._ended + sum(known)
        if not jobs or len(known) < len(lengths) or total <= 1:
            return None, None
        left = None
        if steps_per_s:
            left = max(0.0, (total - done) / steps_per_s - max(0.0, self._driver.now() - since))
        return done / total, left

    def _workers(self, seen: RoundSeen | None, *, at_work: bool) -> tuple[WorkerNow, ...]:
        pacing = self._driver.pacing
        means = pacing.means.tolist() if pacing.known else None
        there = {place: worker for worker, place in list(self._driver.places.items())}
        found = []
        for place, name in enumerate(self._names):
            worker, lost = there.get(place), self._lost.get(place, 0)
            rows = results = 0
            if seen is not None and worker in seen.workers:
                rows = len(seen.lanes()[seen.workers.index(worker)])
                results = sum(message.worker == worker for message in seen.messages)
            if worker is None:
                state = "gone" if lost and self._fixed else "starting"
            else:
                state = "at work" if at_work else "idle"
            mean = None if means is None else means[place]
            slower = None if means is None or min(means) <= 0 else means[place] / min(means)
            found.append(WorkerNow(name, state, rows, results, mean, slower, lost))
        return tuple(found)
