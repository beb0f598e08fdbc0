"""How quick each place is at one job, as its rounds show: soon, since sizes that follow are free to change."""

import numpy as np

from echelon.arrays import BoolArray, FloatArray
from echelon.jobs import IterativeJob
from echelon.profile import Speeds
from echelon.stream import Observer
from echelon.stream.observer import RoundSeen, Running

_FADES = 0.7  # of what was seen, per round
_JUMP = 1.5  # a rate that changes by more than this, twice in a row, is believed at once
_TOLD = 0.25  # parts that a round must show for that


class Rates(Observer):
    """Seconds per part of each place, for a job whose plans have one task for each; `Stream.watch` feeds it.

    A worker that had sent nothing when a round ended is at least as slow as that: a bound counts where it is above what
    is believed. declared: what is known beforehand.
    """

    def __init__(self, job: IterativeJob, places: int, declared: Speeds | None) -> None:
        self._job = job
        self._lost: set[int] = set()
        self._link = np.zeros(places) if declared is None else declared.link.copy()
        self._done = np.full(places, 0.0 if declared is None else 1.0)
        self._busy = np.zeros(places) if declared is None else declared.mean.copy()
        self._jumps = np.zeros(places, dtype=int)
        self._bound = np.zeros(places, dtype=bool)  # where only a bound is known

    @property
    def speeds(self) -> Speeds | None:
        """Means and links, as believed now; those never seen are taken to be like the others. None without any."""
        if not self._done.any():
            return None
        means = self._means()
        means = np.where(np.isnan(means), np.nanmean(means), means)
        return Speeds(np.maximum(means, 1e-9), np.zeros(len(means)), self._link.copy())

    def _means(self) -> FloatArray:
        means: FloatArray = np.full(len(self._done), np.nan)
        np.divide(self._busy, self._done, out=means, where=self._done > 0)
        return means

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        """A worker that is gone shows nothing of its place."""
        self._lost.add(worker)

    def stepped(self, running: Running, seen: RoundSeen, finished: bool) -> None:
        """Learn from a round of the job."""
        if running.job is not self._job:
            return
        places = {worker: place for place, worker in enumerate(seen.workers)}
        costs = {lane[0].row: lane[0].cost for lane in seen.plan.lanes}
        busy, done, bound = np.zeros(len(places)), np.zeros(len(places)), np.zeros(len(places), dtype=bool)
        for message in seen.messages:
            place = places.get(message.worker)
            if place is None or message.row not in costs:
                continue
            if not done[place] and not seen.loading and message.row == place:
                waited = max(0.0, message.time - seen.start - message.seconds)
                self._link[place] = min(waited, self._link[place]) if self._done[place] else waited
            busy[place] += message.seconds
            done[place] += costs[message.row]
        means = self._means()
        for worker, place in places.items():
            silent = seen.end - seen.start - self._link[place]
            if worker < 0 or worker in self._lost or done[place] or seen.loading:
                continue
            if not silent <= means[place] * costs[place]:  # also where nothing is believed yet
                busy[place], done[place] = max(silent, 0.0), costs[place]
                bound[place] = True
        self._take(busy, done, bound)

    def _take(self, busy: FloatArray, done: FloatArray, bound: BoolArray) -> None:
        before, told = self._means(), done >= _TOLD
        ratio = np.divide(busy, done * before, out=np.ones(len(done)), where=told & (before > 0))
        far = (ratio > _JUMP) | (ratio * _JUMP < 1)
        self._jumps = np.where(told, np.where(far, self._jumps + 1, 0), self._jumps)
        over = (self._jumps >= 2) | ((done > 0) & self._bound)  # a bound says little beside a time
        kept = np.where(over, 0.0, np.where(done > 0, _FADES, 1.0))
        self._bound = np.where(done > 0, bound, self._bound)
        self._jumps[self._jumps >= 2] = 0
        self._busy, self._done = kept * self._busy + busy, kept * self._done + done
