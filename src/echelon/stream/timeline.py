"""Who was busy when in the first rounds of a record, with what, and who waited for whom: what pictures show."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.reprs import short_repr
from echelon.stream.record import Record, RecordedRound
from echelon.stream.recorded import TaskSeen, iterations, tasks_seen

USEFUL, LATE, PURGED = range(3)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Which worker is busy when, stretch by stretch, for a picture like Fig. 3 of the stream paper.

    worker, job, iteration: the worker of a stretch and what it computes, shape (stretches,).
    work: whether that was `USEFUL`; `LATE`, since others had sent the row or enough of them; or `PURGED` before it was
        finished, shape (stretches,).
    start, stop: when it computes; between them the worker is active, elsewhere idle, shape (stretches,).
    arrivals, starts, departures: of each job, shape (jobs,).
    ends: of each round, shape (rounds,).
    losses: when and at which place a worker was lost.
    waits: for how long other workers were idle because this one was not done yet, shape (places,).
    idle: their sum, as a share of the time that all workers have in these rounds.
    """

    worker: IntArray
    job: IntArray
    iteration: IntArray
    work: IntArray
    start: FloatArray
    stop: FloatArray
    arrivals: FloatArray
    starts: FloatArray
    departures: FloatArray
    ends: FloatArray
    losses: tuple[tuple[float, int], ...]
    waits: FloatArray
    idle: float

    __repr__ = short_repr

    def since(self, time: float) -> "Timeline":
        """Return the same with times that count from this one."""
        moved = {name: getattr(self, name) - time for name in ("start", "stop", "arrivals", "starts", "departures")}
        losses = tuple((at - time, place) for at, place in self.losses)
        return replace(self, ends=self.ends - time, losses=losses, **moved)


def record_timeline(record: Record, *, most_rounds: int = 40, horizon: float | None = None) -> Timeline:
    """Return which worker was busy when in the first rounds.

    At most `most_rounds` rounds, and none that began more than `horizon` seconds after the first; by default none so
    late that the others would be too thin to see.
    """
    checks.whole("most_rounds", most_rounds, least=1)
    if horizon is None:
        horizon = 2 * most_rounds * median(seen.end - seen.start for seen in record.rounds)
    first = record.rounds[0].start
    shown = [seen for seen in record.rounds[:most_rounds] if seen.start <= first + horizon]
    jobs = list(dict.fromkeys(seen.job for seen in shown))
    tasks = tasks_seen(replace(record, rounds=shown))
    stretches = [replace(some[-1], start=min(task.start for task in some)) for some in stretches_of(tasks)]
    taken, drawn = iterations(record), iterations(replace(record, rounds=shown))
    left = [record.departures.get(job, np.nan) if drawn[job] == taken[job] else np.nan for job in jobs]
    waits = waits_for(shown, tasks, len(record.names))
    lasted = sum(seen.end - seen.start for seen in shown)
    return Timeline(
        worker=np.array([task.place for task in stretches]),
        job=np.array([jobs.index(shown[task.round].job) for task in stretches]),
        iteration=np.array([shown[task.round].iteration for task in stretches]),
        work=np.array([work_of(task) for task in stretches]),
        start=np.array([task.start for task in stretches]),
        stop=np.array([task.stop for task in stretches]),
        arrivals=np.array([record.arrivals.get(job, np.nan) for job in jobs]),
        starts=np.array([next(seen.start for seen in shown if seen.job == job) for job in jobs]),
        departures=np.array(left),
        ends=np.array([seen.end for seen in shown]),
        losses=tuple(loss for loss in record.losses if first <= loss[0] <= shown[-1].end),
        waits=waits,
        idle=float(waits.sum()) / (len(record.names) * lasted) if lasted else 0.0,
    )


def work_of(task: TaskSeen) -> int:
    """Return what a task was good for: `USEFUL`, `LATE` or `PURGED`."""
    return USEFUL if task.needed else LATE if task.finished else PURGED


def stretches_of(tasks: Iterable[TaskSeen]) -> list[list[TaskSeen]]:
    """Return tasks of a worker that follow one another in a round, and were of one use, together."""
    ordered = sorted(tasks, key=lambda task: (task.round, task.place, task.stop))
    return [list(some) for _, some in groupby(ordered, key=lambda task: (task.round, task.place, work_of(task)))]


def waits_for(rounds: list[RecordedRound], tasks: Iterable[TaskSeen], places: int) -> FloatArray:
    """Return for how long others were idle because each place was not done, shape (places,).

    A worker is done with a round when it has sent all its rows. Each moment that one is done before the round ends is
    shared by those that are not.
    """
    waits = np.zeros(places)
    done = [dict.fromkeys(seen.lanes, seen.start) for seen in rounds]
    for task in tasks:
        if task.place in done[task.round]:
            done[task.round][task.place] = max(task.stop, done[task.round][task.place])
    for seen, until in zip(rounds, done, strict=True):
        order = sorted(until, key=until.__getitem__)
        ends = [*(min(until[place], seen.end) for place in order), seen.end]
        for i in range(1, len(order)):
            # i workers are done, and the others are not, from one end to the next
            waits[order[i:]] += i * (ends[i] - ends[i - 1]) / (len(order) - i)
    return waits
