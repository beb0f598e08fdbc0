"""What a round showed of each place: how long it computed, for how many parts, and how late its first message was."""

from collections.abc import Mapping

from echelon.stream.observer import Arrival, RoundSeen
from echelon.stream.pacing import Pacing, Seen


def observations(seen: RoundSeen, places: Mapping[int, int], pacing: Pacing) -> list[Seen]:
    """Return what a round showed of the workers that are still there, whose `places` these are."""
    found = []
    by_worker: dict[int, list[Arrival]] = {}
    for message in seen.messages:
        by_worker.setdefault(message.worker, []).append(message)
    for worker, lane in zip(seen.workers, seen.lanes(), strict=True):
        place = places.get(worker)
        if place is None or not lane:
            continue
        costs = {(task.slot, task.row): task.cost for task in lane}
        came = [message for message in by_worker.get(worker, []) if (message.slot, message.row) in costs]
        done = sum(costs[message.slot, message.row] for message in came)
        busy = sum(message.seconds for message in came)
        last = came[-1].time if came else seen.start + pacing.link(place)
        if len(came) < len(lane):
            # it was at a task that the purge cut short, or the end of its slot
            busy += max(0.0, max(seen.recovered.get(task.slot, seen.end) for task in lane) - last)
        # a first message that had to wait for the work to be loaded tells nothing of the link
        link = max(0.0, came[0].time - seen.start - came[0].seconds) if came and not seen.loading else None
        if busy > 0:
            found.append(Seen(place, busy, done, link))
    return found
