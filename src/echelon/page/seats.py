"""What is counted of each place of a run, for the page: rows, seconds, losses, pace."""

from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from echelon.arrays import FloatArray
from echelon.stream.record import RecordedRound
from echelon.stream.recorded import TaskSeen, lateness
from echelon.stream.scores import LATE, Score, scores
from echelon.stream.timeline import USEFUL, work_of
from echelon.stream.waiting import last_awaited

LATELY = 250  # rounds from which paces are taken
_LINKS_EVERY = 16  # rounds in which links are taken anew

# columns of what a round shows of each place; LEAST: seconds per part, at least, where it finished nothing
_PARTS, _SECONDS, _AT_WORK, _TASKS, _SUM, _SQUARES, _LEAST = range(7)


class Speed(NamedTuple):
    """Mean and deviation of the seconds of a part, and the link."""

    mean: float
    std: float
    link: float


class Seat:
    """One place: counts over the whole run.

    used, late, purged: rows, by what became of them. seconds: at useful, late and purged work.
    """

    __slots__ = (
        "awaited_s",
        "late",
        "links",
        "losses",
        "name",
        "purged",
        "reason",
        "seconds",
        "there",
        "used",
        "wrong",
    )

    def __init__(self, name: str) -> None:
        self.name, self.there, self.reason = name, False, ""
        self.used = self.late = self.purged = self.wrong = self.losses = 0
        self.awaited_s = 0.0
        self.seconds = [0.0, 0.0, 0.0]
        self.links: deque[float] = deque(maxlen=LATELY)


class Seats:
    """All places of a run; rounds are told in their order."""

    def __init__(self, names: Sequence[str]) -> None:
        self.all = [Seat(name) for name in names]
        self._rounds: deque[FloatArray] = deque(maxlen=LATELY)
        self._told, self._links = 0, [0.0] * len(names)

    def joined(self, place: int) -> None:
        """Note that a worker is there."""
        self.all[place].there = True

    def lost(self, place: int, reason: str) -> None:
        """Count a loss."""
        seat = self.all[place]
        seat.there, seat.losses, seat.reason = False, seat.losses + 1, reason

    def wrong(self, place: int | None) -> None:
        """Count a wrong result."""
        if place is not None:
            self.all[place].wrong += 1

    def links(self) -> list[float]:
        """Return by how much each place's first messages are late, in the median of the last rounds; 0 if unknown."""
        if self._told % _LINKS_EVERY == 0:
            self._links = [median(seat.links) if seat.links else 0.0 for seat in self.all]
        return self._links

    def round_over(self, seen: RecordedRound, tasks: Sequence[TaskSeen]) -> None:
        """Count the tasks of a round."""
        shown = [[0.0] * 7 for _ in self.all]
        finished: dict[int, int] = {}
        for task in tasks:
            seat, work, row = self.all[task.place], work_of(task), shown[task.place]
            seconds = task.seconds if task.finished else task.stop - task.start
            seat.seconds[work] += seconds
            row[_AT_WORK] += seconds
            if task.finished:
                seat.there = True  # its arrival was not told, or it is a rank that nobody announces
                if work == USEFUL:
                    seat.used += 1
                else:
                    seat.late += 1
                finished[task.place] = finished.get(task.place, 0) + 1
            if task.finished and task.cost:
                pace = task.seconds / task.cost
                row[_PARTS] += task.cost
                row[_SECONDS] += task.seconds
                row[_TASKS] += 1.0
                row[_SUM] += pace
                row[_SQUARES] += pace * pace
            elif task.cost and not task.finished:
                row[_LEAST] = max(row[_LEAST], task.seconds / task.cost)
        for place, lane in seen.lanes.items():
            self.all[place].purged += max(0, len(lane) - finished.get(place, 0))
        for place, late in lateness(seen).items():
            self.all[place].links.append(late)
        found = last_awaited(seen)
        if found is not None and found[1] is not None:
            self.all[found[0]].awaited_s += found[1]
        self._told += 1
        self._rounds.append(np.array(shown))

    def seconds(self, work: int) -> float:
        """Return the seconds that all places were at work of one use: `USEFUL`, `LATE` or `PURGED`."""
        return sum(seat.seconds[work] for seat in self.all)

    def speeds(self) -> list[Speed | None]:
        """Return the speeds that the last rounds show; None for a place that finished fewer than two tasks in them.

        The mean is time at work over parts finished, so that tasks which were cut short count with what they took; the
        deviation is that of finished tasks.
        """
        if not self._rounds:
            return [None] * len(self.all)
        found: list[Speed | None] = []
        for total, link in zip(np.sum(self._rounds, axis=0).tolist(), self.links(), strict=True):
            tasks = total[_TASKS]
            if tasks < 2:
                found.append(None)
                continue
            spread = total[_SQUARES] / tasks - (total[_SUM] / tasks) ** 2
            mean = max(total[_AT_WORK] / total[_PARTS], 1e-9)
            found.append(Speed(mean, max(spread, 0.0) ** 0.5, link))
        return found

    def rows(self, *, span_s: float, at_work: set[int]) -> list[dict[str, Any]]:
        """Return what the page shows of each place; span_s: of all rounds, at_work: places that compute now."""
        lately = np.array(self._rounds) if self._rounds else np.zeros((0, len(self.all), 7))
        with np.errstate(divide="ignore", invalid="ignore"):
            found = scores(lately[:, :, _SECONDS] / lately[:, :, _PARTS])  # nan where nothing was finished
        fastest_s = min((score.usual_s for score in found if score is not None), default=np.inf)
        rows = []
        for place, (seat, score) in enumerate(zip(self.all, found, strict=True)):
            if at_least := score is None:
                score = _score_at_least(lately[:, place, _LEAST], fastest_s)
            rows.append({
                "name": seat.name,
                "state": ("at work" if place in at_work else "idle") if seat.there
                else "gone" if seat.losses else "starting",
                "pace_s": None if score is None else score.usual_s,
                "score": None if score is None else score.score,
                "own": None if score is None or at_least else score.own,
                "kind": None if score is None else score.kind,
                "at_least": at_least and score is not None,
                **{name: getattr(seat, name) for name in ("used", "late", "purged", "wrong", "losses", "awaited_s")},
                "reason": seat.reason or None,
                "busy": sum(seat.seconds) / span_s if span_s > 0 else None,
            })  # fmt: skip
        return rows


def _score_at_least(least_s: FloatArray, fastest_s: float) -> Score | None:
    """Return the score of a place that never finished a row, by how long it is known to have taken at least.

    least_s: seconds per part, by round; 0 where nothing is known. None where it may be as fast as the others.
    """
    known = least_s[least_s > 0]
    usual_s = float(np.median(known)) if known.size else 0.0
    if usual_s <= LATE * fastest_s:
        return None
    score = usual_s / fastest_s
    return Score(usual_s, score, score, 1.0, 0, "chronic")


def received_bytes(seen: RecordedRound, tasks: Sequence[TaskSeen]) -> tuple[int, int]:
    """Return the bytes of the messages of a round that were needed, and of the others."""
    finished = [task for task in tasks if task.finished]  # as its messages came
    useful = sum(size for size, task in zip(seen.sizes, finished, strict=False) if task.needed)
    return useful, sum(seen.sizes) - useful
