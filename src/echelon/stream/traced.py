"""A profile made from a record: the workers' speeds without the purging bias, and the job they served."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import BoolArray, FloatArray
from echelon.errors import ArgumentError
from echelon.master.actions import Outcome
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.reprs import short_repr
from echelon.stream.record import Record, RecordedRound
from echelon.stream.recorded import TaskSeen, iterations, links, span, tasks_seen

ENOUGH_GAPS = 30  # recorded times between jobs are replayed from this number on; fewer give a mean rate only
WORTH_SAYING = 0.01  # share of a worker's tasks that took longer than anything seen


def kaplan_meier(seconds: FloatArray, finished: BoolArray) -> tuple[FloatArray, FloatArray, float]:
    """Return values, their probabilities, and how much of the last one was never seen to end.

    The product-limit estimate of a law from times of which some, not `finished`, are lower bounds only. What it leaves
    beyond the largest time, where that was cut short, is put at that time (Efron 1967): the mean is then too small, by
    the third value times what is missing of those tasks.

    It is right under purging: a round ends by what has arrived, which says nothing of how long the tasks under way
    will still take (the end is a stopping time of what the master sees).

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


def rounds_together(
    seen: Sequence[TaskSeen], rounds: int, values: FloatArray, masses: FloatArray, rng: Generator
) -> FloatArray:
    """Return a worker's time per part in each of the rounds, shape (rounds,), from its tasks of known cost.

    That is the time of its finished tasks over their parts. A task that was cut short counts as well if it has already
    taken longer per part. Where no task was finished, the pace is drawn from the worker's law, given that it takes
    longer than was seen: from `values` with probabilities in proportion to `masses`.
    """
    spent, parts, least = np.zeros(rounds), np.zeros(rounds), np.zeros(rounds)
    for task in seen:
        assert task.cost is not None
        if task.finished:
            spent[task.round] += task.seconds
            parts[task.round] += task.cost
    for task in (task for task in seen if not task.finished):
        assert task.cost is not None
        at, pace = task.round, task.seconds / task.cost
        if not parts[at]:
            least[at] = max(least[at], pace)
        elif pace > spent[at] / parts[at]:
            spent[at] += task.seconds
            parts[at] += task.cost
    for at in np.flatnonzero(parts == 0).tolist():
        longer = values > least[at]
        spent[at] = rng.choice(values[longer], p=masses[longer] / masses[longer].sum()) if longer.any() else least[at]
        parts[at] = 1.0
    return spent / parts


@dataclass(frozen=True, slots=True)
class TracedWorker:
    """What a record says of one worker; times in seconds per part.

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
    """A profile made from a record, what it rests on, and what its reader should know."""

    profile: Profile
    workers: tuple[TracedWorker, ...]
    left_out: tuple[str, ...]
    notes: tuple[str, ...]

    __repr__ = short_repr


def traced(record: Record, rng: Generator, *, times: int = 200, together: bool = False) -> Traced:
    """Return the profile of the workers and of the job that a record shows.

    Of several kinds of jobs, told apart by their plans' rows and by how many of them are needed, the one with the most
    rounds counts. Every worker gets the law ``trace`` with `times` values: quantiles of the Kaplan-Meier estimate of
    its time per part, stretched to the estimate's mean, in an order drawn from `rng`, since the law replays them in
    order and bursts were not looked for.

    together: every worker gets the law ``recorded`` instead, with its pace in each round of the record, so that rounds
        in which several workers were slow stay such rounds (`rounds_together`); `times` is not used.
    """
    checks.whole("times", times, least=2, most=10**5)
    checks.flag("together", together)
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
        rounds = len(kind.rounds) if together else None
        worker, law = _worker(name, seen, times, float(np.nan_to_num(link[place])), surplus, rng, rounds)
        known.append(worker)
        named = "recorded" if together else "trace"
        workers.append(Worker(name, mean=worker.mean, std=worker.std, link=worker.link, law=named, parameters=law))
        if worker.beyond > WORTH_SAYING:
            notes.append(
                f"{name}: of {worker.beyond:.1%} of its tasks only a lower bound is known, so its mean, "
                f"{worker.mean:.4g} s, leans low; time over parts finished is {worker.mean_busy:.4g} s."
            )
    if not workers:
        raise ArgumentError("no worker finished a task in this record; nothing is known of their speeds")
    if left_out:
        notes.append(f"{', '.join(left_out)}: left out, because none of their tasks was seen to end.")
    arrivals, said = _arrivals(record)
    given = record.redundancy
    redundancy = given if given is not None and round(needed * given) == rows else rows / needed
    job = Workload(critical=needed, redundancy=redundancy, iterations=_usual_iterations(kind), arrivals=arrivals)
    return Traced(Profile(job, workers), tuple(known), tuple(left_out), tuple([*notes, *said]))


def _shape(seen: RecordedRound) -> tuple[int, int]:
    return len({at for lane in seen.rows.values() for at in lane}) + seen.came, sum(seen.needed)


def _worker(
    name: str,
    seen: Sequence[TaskSeen],
    times: int,
    link: float,
    surplus: float,
    rng: Generator,
    rounds: int | None,
) -> tuple[TracedWorker, dict[str, list[float]]]:
    costs = np.array([task.cost for task in seen], dtype=np.float64)
    part_s = np.array([task.seconds for task in seen]) / costs
    finished = np.array([task.finished for task in seen])
    values, masses, beyond = kaplan_meier(part_s, finished)
    if rounds is None:
        drawn = rng.permutation(quantiles(values, masses, times))
        drawn *= float(values @ masses) / drawn.mean()
    else:
        drawn = rounds_together(seen, rounds, values, masses, rng)
    law = [float(f"{time:.6g}") for time in drawn]  # a clock is no more precise
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
    """Return how many iterations most jobs took, of finished ones if there are any; the larger of equals."""
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
            "workers idle half of the time."
        ]
    if len(gaps) >= ENOUGH_GAPS:
        return Arrivals.recorded(gaps), []
    return Arrivals.poisson(len(gaps) / sum(gaps)), []
