"""What a record says: who computed when, how busy everybody was, and the workers' speeds without the purging bias.

Pure functions on a `Record`: no file, no clock.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import BoolArray, FloatArray
from echelon.errors import ArgumentError
from echelon.master import Outcome
from echelon.profile import Arrivals, Job, Profile, Worker
from echelon.simulation import Timeline
from echelon.stream.record import Record, RecordedRound

ENOUGH_GAPS = 30  # recorded times between jobs are replayed from so many on; fewer give a mean rate only
WORTH_SAYING = 0.01  # share of a worker's tasks that took longer than anything seen


@dataclass(frozen=True, slots=True)
class TaskSeen:
    """A worker at one task of one round, from `start` to `stop` (seconds since the stream opened).

    round: index of the round in the record.
    seconds: how long the task took; where it was not `finished`, since the end of the round or of the worker cut it
        short, how long it is known to have taken at least.
    cost: parts; None where it is not known.
    """

    place: int
    round: int
    start: float
    stop: float
    seconds: float
    cost: float | None
    finished: bool


def iterations(record: Record) -> dict[int, int]:
    """Return how many iterations each job had taken by its last round; 0 for jobs that had none."""
    taken = dict.fromkeys(record.arrivals, 0)
    for seen in record.rounds:
        taken[seen.job] = max(taken.get(seen.job, 0), seen.iteration + 1)
    return taken


def span(record: Record) -> tuple[float, float]:
    """Return when the first job arrived and when the last one left; of a run that broke off, its last round's end."""
    begun = [*record.arrivals.values(), *(seen.start for seen in record.rounds)]
    ended = [*record.departures.values(), *(seen.end for seen in record.rounds)]
    return min(begun), max(ended)


def links(record: Record) -> FloatArray:
    """Return the link of each place, shape (places,): by how much its first messages are late, in the median.

    That is their arrival after the round's start, less the time at the task; nan for a place that was never heard.
    """
    found: list[list[float]] = [[] for _ in record.names]
    for seen in record.rounds:
        for place, lateness in _lateness(seen).items():
            found[place].append(lateness)
    return np.array([median(values) if values else np.nan for values in found])


def tasks_seen(record: Record) -> list[TaskSeen]:
    """Return every task that was finished or begun in a recorded round.

    What a worker was at when the round ended is the task after its last message. A worker that sent nothing began its
    first task when its link was over, and no earlier than the others' messages show the round to have really begun:
    before the first round of a job the master loads the job's work.
    """
    link = np.nan_to_num(links(record)).tolist()
    return [task for number, seen in enumerate(record.rounds) for task in _tasks_of(number, seen, record, link)]


def _own_rows(seen: RecordedRound) -> dict[int, range]:
    """Return the rows that each place was given at first: lanes take consecutive rows, in the order of the entry."""
    rows, at = {}, 0
    for place, costs in seen.lanes.items():
        rows[place] = range(at, at + len(costs))
        at += len(costs)
    return rows


def _lateness(seen: RecordedRound) -> dict[int, float]:
    first = {rows[0]: place for place, rows in _own_rows(seen).items() if rows}
    return {
        place: max(0.0, arrival - seconds)
        for place, _, row, arrival, seconds, _ in seen.messages
        if first.get(row) == place
    }


def _tasks_of(number: int, seen: RecordedRound, record: Record, link: list[float]) -> Iterator[TaskSeen]:
    own = _own_rows(seen)
    lost = {place: time for time, place in reversed(record.losses) if seen.start <= time <= seen.end}
    holder = {row: place for place, rows in own.items() for row in rows}
    sent = dict.fromkeys(own, 0)
    last: dict[int, float] = {}
    given_again: set[int] = set()  # places whose lane was, in part, computed by others too
    for place, _, row, arrival, seconds, cost in seen.messages:
        stop = seen.start + arrival
        mine = holder.get(row) == place and stop <= lost.get(place, np.inf)
        if mine:
            sent[place] += 1
            last[place] = stop
        elif row in holder:
            given_again.add(holder[row])
        # a row that is given out again may cost its new worker more than the plan says
        yield TaskSeen(
            place, number, max(seen.start, stop - seconds), stop, seconds, cost if mine else None, finished=True
        )
    late = [lateness - link[place] for place, lateness in _lateness(seen).items()]
    begun = seen.start + max(0.0, median(late) if late else 0.0)
    # the master decodes after the last message, and hears of nothing that is finished meanwhile
    deaf = seen.start + max((message[3] for message in seen.messages), default=0.0)
    for place, costs in seen.lanes.items():
        if sent[place] == len(costs):
            continue
        start = last.get(place, begun + link[place])
        stop = min(seen.end, lost.get(place, np.inf))
        if stop > start:
            next_cost = None if place in given_again else costs[sent[place]]
            yield TaskSeen(place, number, start, stop, max(0.0, min(stop, deaf) - start), next_cost, finished=False)


def busy(record: Record) -> FloatArray:
    """Return the seconds that each place computed within rounds, shape (places,)."""
    total = np.zeros(len(record.names))
    for task in tasks_seen(record):
        total[task.place] += task.seconds if task.finished else task.stop - task.start
    return total


def record_timeline(record: Record, *, most_rounds: int = 40) -> Timeline:
    """Return who was busy when in the first rounds: one stretch a round and worker.

    At most `most_rounds` rounds, and none that starts so late that the others would become too thin to see.
    """
    checks.whole("most_rounds", most_rounds, least=1)
    usual = median(seen.end - seen.start for seen in record.rounds)
    horizon = record.rounds[0].start + 2 * most_rounds * usual
    shown = [seen for seen in record.rounds[:most_rounds] if seen.start <= horizon]
    jobs = list(dict.fromkeys(seen.job for seen in shown))
    stretches: dict[tuple[int, int], tuple[float, float]] = {}
    for task in tasks_seen(replace(record, rounds=shown)):
        start, stop = stretches.get((task.round, task.place), (task.start, task.stop))
        stretches[task.round, task.place] = min(start, task.start), max(stop, task.stop)
    taken, drawn = iterations(record), iterations(replace(record, rounds=shown))
    left = [record.departures.get(job, np.nan) if drawn[job] == taken[job] else np.nan for job in jobs]
    return Timeline(
        worker=np.array([place for _, place in stretches]),
        job=np.array([jobs.index(shown[number].job) for number, _ in stretches]),
        iteration=np.array([shown[number].iteration for number, _ in stretches]),
        start=np.array([start for start, _ in stretches.values()]),
        stop=np.array([stop for _, stop in stretches.values()]),
        arrivals=np.array([record.arrivals.get(job, np.nan) for job in jobs]),
        starts=np.array([next(seen.start for seen in shown if seen.job == job) for job in jobs]),
        departures=np.array(left),
    )


def kaplan_meier(seconds: FloatArray, finished: BoolArray) -> tuple[FloatArray, FloatArray, float]:
    """Return values, their probabilities, and what of the last one was never seen to end.

    The product-limit estimate of a law from times of which some, not `finished`, are lower bounds only. What it leaves
    beyond the largest time, where that was cut short, is put at that time (Efron 1967): the mean is then too small, by
    the third value times what is missing of those tasks.

    It is right under purging: a round ends by what has arrived, which says nothing of what the tasks under way have
    still to take (the end is a stopping time of what the master sees).

    >>> values, masses, beyond = kaplan_meier(np.array([3.0, 1.0, 2.0, 2.0]), np.array([False, True, True, False]))
    >>> values.tolist(), masses.tolist(), beyond
    ([1.0, 2.0, 3.0], [0.25, 0.25, 0.5], 0.5)
    """
    if not len(seconds) or len(seconds) != len(finished):
        raise ArgumentError(f"seconds, finished: lengths {len(seconds)}, {len(finished)}; must be equal and > 0")
    order = np.lexsort((~finished, seconds))  # of equal times, the finished ones first
    values, ended = seconds[order], finished[order]
    at_risk = np.arange(len(values), 0, -1)
    survival = np.cumprod(np.where(ended, 1 - 1 / at_risk, 1.0))
    masses = -np.diff(survival, prepend=1.0)
    beyond = float(survival[-1])
    masses[-1] += beyond
    kept = masses > 0
    return values[kept], masses[kept], beyond


def quantiles(values: FloatArray, masses: FloatArray, count: int) -> FloatArray:
    """Return `count` quantiles of a law, in order, at the mid-points of equal shares.

    >>> quantiles(np.array([1.0, 2.0, 3.0]), np.array([0.25, 0.25, 0.5]), 4).tolist()
    [1.0, 2.0, 3.0, 3.0]
    """
    shares = (np.arange(count) + 0.5) / count
    at = np.searchsorted(np.cumsum(masses), shares * masses.sum())
    found: FloatArray = values[np.minimum(at, len(values) - 1)]
    return found


@dataclass(frozen=True, slots=True)
class TracedWorker:
    """What a record says of one worker; times in seconds a part.

    finished, cut: tasks that were, and that a purge or a loss cut short.
    mean, std: of its law. beyond: share of its tasks of which only a lower bound is known, the largest time seen.
    mean_finished: of finished tasks alone, which makes slow workers look fast. mean_busy: time computing over parts
    finished, what a stream follows while it runs.
    link: by how much its first result is late. surplus: what of that is the first row's cost over one part.
    """

    name: str
    finished: int
    cut: int
    mean: float
    std: float
    beyond: float
    mean_finished: float
    mean_busy: float
    link: float
    surplus: float


@dataclass(frozen=True, slots=True)
class Traced:
    """A profile made of a record, what it rests on, and what its reader should know."""

    profile: Profile
    workers: tuple[TracedWorker, ...]
    left_out: tuple[str, ...]
    notes: tuple[str, ...]


def traced(record: Record, rng: Generator, *, times: int = 200) -> Traced:
    """Return the profile of the workers and of the job that a record shows.

    Of several kinds of jobs, told apart by their plans' rows and by how many of them are needed, the one with the most
    rounds counts. Every worker gets the law ``trace`` with so many `times`: quantiles of the Kaplan-Meier estimate of
    its time a part, stretched to the estimate's mean, in an order drawn from `rng`, since the law replays them in order
    and bursts were not looked for.
    """
    checks.whole("times", times, least=2, most=10**5)
    if not record.rounds:
        raise ArgumentError("no round is in this record; nothing is known of the workers")
    shapes = Counter(_shape(seen) for seen in record.rounds)
    (rows, needed), _ = shapes.most_common(1)[0]
    kind = replace(record, rounds=[seen for seen in record.rounds if _shape(seen) == (rows, needed)])
    notes = []
    if len(shapes) > 1:
        notes.append(
            f"{len(record.rounds) - len(kind.rounds)} of {len(record.rounds)} rounds were of other kinds of jobs than "
            f"any {needed} of {rows} rows; they are left out, but for their arrivals."
        )
    tasks: list[list[TaskSeen]] = [[] for _ in record.names]
    for task in tasks_seen(kind):
        tasks[task.place].append(task)
    link, known, workers, left_out = links(kind), [], [], []
    for place, name in enumerate(record.names):
        seen = [task for task in tasks[place] if task.cost is not None]
        if not any(task.finished and task.seconds for task in seen):
            left_out.append(name)
            continue
        surplus = float(np.mean([lanes[0] - 1 for each in kind.rounds if (lanes := each.lanes.get(place))]))
        worker, law = _worker(name, seen, times, float(np.nan_to_num(link[place])), surplus, rng)
        known.append(worker)
        workers.append(Worker(name, mean=worker.mean, std=worker.std, link=worker.link, law="trace", parameters=law))
        if worker.beyond > WORTH_SAYING:
            notes.append(
                f"{name}: of {worker.beyond:.1%} of its tasks only a lower bound is known, so its mean, "
                f"{worker.mean:.4g} s, leans low; time over parts finished is {worker.mean_busy:.4g} s."
            )
    if not workers:
        raise ArgumentError("no worker finished a task in this record; nothing is known of their speeds")
    if left_out:
        notes.append(f"{', '.join(left_out)}: left out, for no task of theirs was seen to end.")
    arrivals, said = _arrivals(record)
    redundancy = record.redundancy if round(needed * record.redundancy) == rows else rows / needed
    job = Job(critical=needed, redundancy=redundancy, iterations=_usual_iterations(kind), arrivals=arrivals)
    return Traced(Profile(job, workers), tuple(known), tuple(left_out), tuple([*notes, *said]))


def _shape(seen: RecordedRound) -> tuple[int, int]:
    return sum(map(len, seen.lanes.values())), sum(seen.needed)


def _worker(
    name: str, seen: Sequence[TaskSeen], times: int, link: float, surplus: float, rng: Generator
) -> tuple[TracedWorker, dict[str, list[float]]]:
    costs = np.array([task.cost for task in seen], dtype=np.float64)
    part_s = np.array([task.seconds for task in seen]) / costs
    finished = np.array([task.finished for task in seen])
    values, masses, beyond = kaplan_meier(part_s, finished)
    mean = float(values @ masses)
    drawn = quantiles(values, masses, times)
    drawn = rng.permutation(drawn) * (mean / drawn.mean())
    law = [float(f"{time:.6g}") for time in drawn]  # a clock knows no more than that
    mean = float(np.mean(law))
    worker = TracedWorker(
        name=name,
        finished=int(finished.sum()),
        cut=int((~finished).sum()),
        mean=mean,
        std=float(np.std(law)),
        beyond=beyond,
        mean_finished=float(part_s[finished].mean()),
        mean_busy=float(part_s @ costs / costs[finished].sum()),
        link=round(link + surplus * mean, 9),
        surplus=surplus * mean,
    )
    return worker, {"times": law}


def _usual_iterations(record: Record) -> int:
    """Return how many iterations most jobs took, of those that were done where there are any; the more of equals."""
    taken = {job: count for job, count in iterations(record).items() if count}
    done = {job: count for job, count in taken.items() if record.outcomes.get(job) == Outcome.DONE.value}
    counts = Counter((done or taken).values())
    return max(counts, key=lambda count: (counts[count], count))


def _arrivals(record: Record) -> tuple[Arrivals, list[str]]:
    times = np.sort(np.array(list(record.arrivals.values())))
    gaps = [round(float(gap), 6) for gap in np.diff(times)]
    if not sum(gaps):
        first, last = span(record)
        gap = 2 * (last - first) / max(1, len(times))
        return Arrivals.poisson(1 / gap), [
            f"The record holds no time between two jobs: one job every {gap:.3g} s is a guess, which leaves the "
            "workers idle for half of the time."
        ]
    if len(gaps) >= ENOUGH_GAPS:
        return Arrivals.recorded(gaps), []
    return Arrivals.poisson(len(gaps) / sum(gaps)), []
