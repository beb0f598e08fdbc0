"""A round as the page draws it."""

from collections.abc import Iterable
from typing import Any

from echelon.stream.record import RecordedRound
from echelon.stream.recorded import TaskSeen
from echelon.stream.timeline import stretches_of, work_of


def drawn_round(number: int, seen: RecordedRound, tasks: Iterable[TaskSeen], name: str) -> dict[str, Any]:
    """Return a round with its tasks, of which those of one use that follow one another are one stretch.

    A stretch is a place, its begin and stop in seconds after the start, its use (0 useful, 1 late, 2 purged) and how
    many tasks it is. Lanes hold one thing at a time, so a task begins when the one before it arrived, at the earliest.
    """
    free: dict[int, float] = {}
    stretches = []
    for some in stretches_of(tasks):
        place = some[0].place
        begun = max(min(task.start for task in some), free.get(place, seen.start))
        free[place] = stop = max(some[-1].stop, begun)
        stretches.append(
            [place, round(begun - seen.start, 6), round(stop - seen.start, 6), work_of(some[0]), len(some)]
        )
    return {
        "n": number,
        "job": seen.job,
        "name": name,
        "iteration": seen.iteration,
        "start": seen.start,
        "end": seen.end,
        "tasks": stretches,
    }
