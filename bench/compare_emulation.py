"""How a worker of an emulated cluster spends its time, under any driver."""

import time

import numpy as np

from bench.compare_jobs import Job
from echelon.clusters.pace import Pace, paces
from echelon.profile import Profile


class Place:
    """A worker of an emulated cluster: the j-th part of a round takes the j-th draw of seed, worker and round.

    Orders that find it idle reach it after the delay of its link; a part that has begun is finished, needed or not.
    """

    def __init__(self, profile: Profile, seed: int, number: int) -> None:
        pace = paces(None, profile, seed)[number]
        assert pace is not None
        self._pace, self._round = pace, 0

    def due(self, iteration: int, sent: float) -> float:
        """Return when a part sent at that time is done; iterations count from 1."""
        if iteration != self._round:
            self._pace.begin(round=iteration, start=when_free(sent, self._pace.link), parts=1)
            self._round = iteration
        return self._pace.due(1.0, given=sent)[0]

    def do(self, job: Job, iteration: int, sent: float, request: np.ndarray, number: int) -> np.ndarray:
        """Compute a part, in its time on this worker."""
        due = self.due(iteration, sent)
        found = job.part(request, number)
        wait(due)
        return found


class WholeParts(Pace):
    """The pace of one of echelon's own workers that finishes its parts, needed or not, as the others' workers do."""

    def begin(self, *, round: int, start: float, parts: int) -> None:
        super().begin(round=round, start=when_free(start, self.link), parts=parts)

    def due(self, cost: float, *, given: float, slower: float = 1.0) -> tuple[float, float]:
        found = super().due(cost, given=given, slower=slower)
        wait(found[0])
        return found


def when_free(sent: float, link: float) -> float:
    """Return when an order must be sent to arrive when it can begin: a worker may be busy until now."""
    return max(sent, time.monotonic() - link)


def whole_paces(workers: int | None, emulate: Profile | None, seed: int) -> list[Pace | None]:
    """Do what `echelon.clusters.pace.paces` does, for workers that finish their parts."""
    made = [pace for pace in paces(workers, emulate, seed) if pace is not None]
    return [WholeParts(pace.law, pace.link, pace.rng) for pace in made]


def wait(due: float) -> None:
    """Sleep until then."""
    time.sleep(max(0.0, due - time.monotonic()))
