"""What a record says of the run itself: which worker computed when, and how busy all were.

Pure functions on a `Record`: no file, no clock.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from echelon.arrays import FloatArray
from echelon.stream.record import Record, RecordedRound


@dataclass(frozen=True, slots=True)
class TaskSeen:
    """A worker at one task of one round, from `start` to `stop` (seconds since the stream opened).

    round: index of the round in the record.
    seconds: how long the task took; where it was not `finished`, since the end of the round or of the worker cut it
        short, how long it is known to have taken at least.
    cost: parts; None where it is not known.
    needed: whether it was finished when its row was not there yet, and its slot had not enough.
    """

    place: int
    round: int
    start: float
    stop: float
    seconds: float
    cost: float | None
    finished: bool
    needed: bool = False


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

    That is their arrival after the round's start, less the time of the task; nan for a place that sent nothing.
    """
    found: list[list[float]] = [[] for _ in record.names]
    for seen in record.rounds:
        for place, late in lateness(seen).items():
            found[place].append(late)
    return np.array([median(values) if values else np.nan for values in found])


def tasks_seen(record: Record) -> list[TaskSeen]:
    """Return every task that was finished or begun in a recorded round.

    What a worker computed when the round ended is the task after its last message. A worker that sent nothing began its
    first task when its link was over, and no earlier than the others' messages show the round to have really begun:
    before the first round of a job the master loads the job's work.
    """
    link = np.nan_to_num(links(record)).tolist()
    return [task for number, seen in enumerate(record.rounds) for task in tasks_of(number, seen, record.losses, link)]


def lateness(seen: RecordedRound) -> dict[int, float]:
    """Return by how much each place's first message was late: its arrival, less the time of the task."""
    first = {place: rows[0] for place, rows in seen.rows.items() if rows}
    return {
        place: max(0.0, arrival - seconds)
        for place, slot, row, arrival, seconds, _ in seen.messages
        if first.get(place) == (slot, row)
    }


def _working_until(seen: RecordedRound, place: int) -> float:
    """Return when a place was told to stop: with its slot, where it serves one that was recovered before the others."""
    slots = {slot for slot, _ in seen.rows[place]}
    if not seen.recovered or len(slots) > 1:
        return seen.end
    return seen.start + seen.recovered[slots.pop()]


def tasks_of(
    number: int, seen: RecordedRound, losses: Sequence[tuple[float, int]], link: Sequence[float]
) -> Iterator[TaskSeen]:
    """Yield the tasks of one round, as `tasks_seen` has them, given its number and the link of each place."""
    own = {place: set(rows) for place, rows in seen.rows.items()}
    lost = {place: time for time, place in reversed(losses) if seen.start <= time <= seen.end}
    sent: dict[int, set[tuple[int, int]]] = {place: set() for place in own}  # a message may come twice
    last: dict[int, float] = {}
    given_again: set[int] = set()  # places whose lane was, in part, computed by others too
    there: set[tuple[int, int]] = set()  # rows
    for place, slot, row, arrival, seconds, cost in seen.messages:
        stop = seen.start + arrival
        mine = (slot, row) in own.get(place, ()) and stop <= lost.get(place, np.inf)
        if mine and (slot, row) not in sent[place]:
            sent[place].add((slot, row))
            last[place] = stop
        elif not mine:
            given_again |= {holder for holder, rows in own.items() if (slot, row) in rows}
        # a row that is given out again may cost its new worker more than the plan says
        enough = seen.recovered[slot] if seen.recovered else np.inf
        needed = (slot, row) not in there and arrival <= enough
        there.add((slot, row))
        begun = max(seen.start, stop - seconds)
        yield TaskSeen(place, number, begun, stop, seconds, cost if mine else None, finished=True, needed=needed)
    late = [after - link[place] for place, after in lateness(seen).items()]
    really = seen.start + max(0.0, median(late) if late else 0.0)
    # the master decodes after the last message, and does not see what is finished meanwhile
    deaf = seen.start + max((message[3] for message in seen.messages), default=0.0)
    for place, costs in seen.lanes.items():
        if len(sent[place]) == len(costs):
            continue
        start = last.get(place, really + link[place])
        stop = min(_working_until(seen, place), lost.get(place, np.inf))
        if stop > start:
            next_cost = None if place in given_again else costs[len(sent[place])]
            yield TaskSeen(place, number, start, stop, max(0.0, min(stop, deaf) - start), next_cost, finished=False)


def busy(record: Record) -> FloatArray:
    """Return the seconds that each place computed within rounds, shape (places,)."""
    total = np.zeros(len(record.names))
    for task in tasks_seen(record):
        total[task.place] += task.seconds if task.finished else task.stop - task.start
    return total
