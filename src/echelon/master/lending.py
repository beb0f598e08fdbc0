"""Workers of recovered slots lent to slots that lag, where that is likely to end the round sooner.

A worker's pace is judged from its messages of this round; one that has sent none is assumed to need as long again as it
has been silent for. A helper repeats what a slow worker still has to send, last row first, so that the two meet.
"""

from collections.abc import Iterable

from echelon.master.actions import Assign
from echelon.master.collection import Collection
from echelon.plan import Task


def lend(collection: Collection, alive: Iterable[int], now: float) -> list[Assign]:
    """Return what idle workers should repeat for others, if their first message would come in time to matter."""
    workers = list(alive)
    idle = sorted((w for w in workers if not collection.pending.get(w)), key=lambda w: _pace(collection, w, now))
    due = {worker: _arrivals(collection, worker, now) for worker in workers if collection.pending.get(worker)}
    actions = []
    for helper in idle:
        slowest = _slowest_lane(collection, due)
        if slowest is None:
            break
        slot, lane, end = slowest
        tasks = _backwards(collection, slot, lane)
        if now + tasks[0].cost * _pace(collection, helper, now) >= end:
            break  # the others are slower still
        del due[lane]
        actions.append(collection.give(helper, tasks))
    return actions


def _pace(collection: Collection, worker: int, now: float) -> float:
    """Return the time per part that a worker seems to take."""
    parts, last = collection.sent.get(worker, (0.0, now))
    if parts:
        return (last - collection.start) / parts
    first = next(iter(collection.pending.get(worker, {}).values()), None)
    return 2 * (now - collection.start) / first.cost if first is not None else float("inf")


def _arrivals(collection: Collection, worker: int, now: float) -> dict[tuple[int, int], float]:
    """Return when the rows that a worker still has to send are likely to come."""
    pace = _pace(collection, worker, now)
    at = collection.sent.get(worker, (0.0, collection.start))[1]
    found = {}
    for key, task in collection.pending[worker].items():
        at += task.cost * pace
        found[key] = max(at, now)
    return found


def _slowest_lane(
    collection: Collection, due: dict[int, dict[tuple[int, int], float]]
) -> tuple[int, int, float] | None:
    """Return the slot that is likely to end last, the lane in it that ends last, and when the slot ends."""
    ends = {}
    for slot, done in enumerate(collection.recovered):
        rows: dict[int, float] = {}
        for lane in due.values():
            for (of, row), time in lane.items():
                if of == slot and time < rows.get(row, float("inf")):
                    rows[row] = time
        if not done and rows:
            lacking = collection.plan.slots[slot].threshold - len(collection.trackers[slot].received)
            ends[slot] = sorted(rows.values())[min(max(lacking, 1), len(rows)) - 1]
    if not ends:
        return None
    slot = max(ends, key=lambda s: (ends[s], -s))
    last = {worker: max(t for (of, _), t in lane.items() if of == slot) for worker, lane in due.items()
            if any(of == slot for of, _ in lane)}  # fmt: skip
    return slot, max(last, key=lambda worker: (last[worker], -worker)), ends[slot]


def _backwards(collection: Collection, slot: int, lane: int) -> list[Task]:
    """Return a lane's tasks in a slot from the last one on, at their cost in this order."""
    return collection.chained(slot, [row for of, row in collection.pending[lane] if of == slot][::-1])
