"""Plain event loops over the messages of a plan: the references for the vectorised rounds."""

from heapq import heapify, heappop, heapreplace
from itertools import accumulate

from numpy.random import Generator

from echelon.plan import Plan

SHIFT, RATE = 0.01, 10.0  # mmc, section 4.1


def draw_paces(workers: int, rng: Generator) -> list[float]:
    """Return one pace per worker, drawn one by one."""
    return [SHIFT + rng.standard_exponential() / RATE for _ in range(workers)]


def plain_round(plan: Plan, paces: list[float]) -> tuple[float, int]:
    """Return when a round ends and how many messages had come, where worker p takes paces[p] per part.

    All messages are put into a heap and taken out in order of time; each is noted in its slot.
    """
    events = []
    for pace, lane in zip(paces, plan.lanes, strict=True):
        for task, reach in zip(lane, accumulate(task.cost for task in lane), strict=True):
            events.append((reach * pace, task.slot, task.row))
    heapify(events)
    seen: list[set[int]] = [set() for _ in plan.slots]
    open_slots = set(range(len(plan.slots)))
    messages = 0
    while True:
        time, slot, row = heappop(events)
        messages += 1
        seen[slot].add(row)
        if slot in open_slots and len(seen[slot]) >= plan.slots[slot].threshold:
            open_slots.remove(slot)
            if not open_slots:
                return time, messages


def tuned_round(plan: Plan, paces: list[float]) -> tuple[float, int]:
    """Return the same, as fast as plain Python can: a worker's next message is made when its last one is taken."""
    seen: list[set[int]] = [set() for _ in plan.slots]
    left = len(plan.slots)
    events = [(lane[0].cost * pace, p, 0) for p, (lane, pace) in enumerate(zip(plan.lanes, paces, strict=True)) if lane]
    heapify(events)
    messages = 0
    while True:
        time, p, at = events[0]
        lane = plan.lanes[p]
        task = lane[at]
        messages += 1
        rows = seen[task.slot]
        before = len(rows)
        rows.add(task.row)
        if before < plan.slots[task.slot].threshold == len(rows):
            left -= 1
            if not left:
                return time, messages
        if at + 1 < len(lane):
            heapreplace(events, (time + lane[at + 1].cost * paces[p], p, at + 1))
        else:
            heappop(events)
