"""A plain event loop over the messages of a plan: the reference that the vectorised rounds are held to."""

from heapq import heapify, heappop, heapreplace

from echelon.plan import Plan


def run_round(plan: Plan, paces: list[float]) -> tuple[float, int]:
    """Return when a round ends and how many messages had come, where worker p takes paces[p] a part.

    Every message is an event: it is taken from the heap in order of time, its row is noted, and the worker's next
    message takes its place.
    """
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
        slot = plan.slots[task.slot]
        before = len(rows)
        rows.add(task.row)
        if before < slot.threshold == len(rows):
            left -= 1
            if not left:
                return time, messages
        if at + 1 < len(lane):
            heapreplace(events, (time + lane[at + 1].cost * paces[p], p, at + 1))
        else:
            heappop(events)
