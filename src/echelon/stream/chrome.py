"""A recorded run in the Chrome trace event format, which Perfetto and chrome://tracing open.

A pure function on a `Record`: no file, no clock.
"""

from collections.abc import Iterator
from typing import Any

from echelon.stream.record import Record, RecordedRound
from echelon.stream.recorded import span, tasks_seen

WORKERS, JOBS = 1, 2  # processes of the trace, as its viewers call groups of lanes
ROUNDS = 0  # the lane of rounds; that of a place is its number + 1
COLOURS = {"useful": "good", "late": "bad", "purged": "grey"}  # names that viewers know

Event = dict[str, Any]


def chrome_trace(record: Record) -> dict[str, Any]:
    """Return a record as a trace: a lane per worker, one of rounds, and the jobs beside them.

    A task is "useful" if its row was needed, "late" if the row was there already or its slot recovered, and "purged" if
    the end of the round, or of the worker, cut it short. `args.seconds` is how long the worker was at it by its own
    clock; on its lane it never begins before the one before it arrived.
    """
    start, end = span(record)
    return {
        "displayTimeUnit": "ms",
        "otherData": {"split": record.split, "redundancy": record.redundancy, "seconds": end - start},
        "traceEvents": [*_names(record), *_jobs(record, end), *_rounds(record), *_tasks(record), *_losses(record)],
    }


def _names(record: Record) -> Iterator[Event]:
    for process, name in ((WORKERS, "workers"), (JOBS, "jobs")):
        yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": process}}
    for lane, name in enumerate(["rounds", *record.names]):
        yield {"ph": "M", "name": "thread_name", "pid": WORKERS, "tid": lane, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": WORKERS, "tid": lane, "args": {"sort_index": lane}}


def _jobs(record: Record, end: float) -> Iterator[Event]:
    """Yield jobs, which may overlap in time, as pairs of events; one that had not ended goes on to the end."""
    for job, arrival in record.arrivals.items():
        event = {"name": record.job_names[job], "cat": "job", "pid": JOBS, "tid": 0, "id": job}
        outcome = record.outcomes.get(job, "open")
        yield event | {"ph": "b", "ts": _us(arrival), "args": {"job": job}}
        yield event | {"ph": "e", "ts": _us(record.departures.get(job, end)), "args": {"outcome": outcome}}


def _rounds(record: Record) -> Iterator[Event]:
    for seen in record.rounds:
        name = _named(record, seen)
        told = {"needed": sum(seen.needed), "received": len(seen.messages) + seen.came, "left_out": len(seen.left_out)}
        lane = {"cat": "round", "pid": WORKERS, "tid": ROUNDS}
        yield lane | {"ph": "X", "name": name, "ts": _us(seen.start), "dur": _us(seen.end - seen.start), "args": told}
        yield lane | {"ph": "i", "s": "p", "name": f"end of {name}", "ts": _us(seen.end)}


def _tasks(record: Record) -> Iterator[Event]:
    """Yield tasks, lane by lane without overlap: viewers want each to end before the next begins."""
    free = [0.0] * len(record.names)  # from when on a lane is
    last, uses = -1, iter([""])
    for task in tasks_seen(record):  # of each round first those that were finished, as its messages came
        seen = record.rounds[task.round]
        if task.round != last:
            last, uses = task.round, _uses(seen)
        use = next(uses) if task.finished else "purged"
        start, stop = max(task.start, free[task.place]), max(task.stop, free[task.place])
        free[task.place] = stop
        yield {
            "ph": "X",
            "name": _named(record, seen),
            "cat": use,
            "cname": COLOURS[use],
            "pid": WORKERS,
            "tid": task.place + 1,
            "ts": _us(start),
            "dur": _us(stop - start),
            "args": {"seconds": task.seconds, "parts": task.cost},
        }


def _uses(seen: RecordedRound) -> Iterator[str]:
    """Yield what the messages of a round were good for, in their order."""
    there: set[tuple[int, int]] = set()
    for _, slot, row, arrival, _, _ in seen.messages:
        useful = (slot, row) not in there and (not seen.recovered or arrival <= seen.recovered[slot])
        there.add((slot, row))
        yield "useful" if useful else "late"


def _losses(record: Record) -> Iterator[Event]:
    for time, place in record.losses:
        yield {
            "ph": "i", "s": "t", "name": "lost", "cat": "loss", "cname": "terrible", "pid": WORKERS, "tid": place + 1,
            "ts": _us(time),
        }  # fmt: skip


def _named(record: Record, seen: RecordedRound) -> str:
    return f"{record.job_names[seen.job]}: {seen.iteration + 1}"


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)
