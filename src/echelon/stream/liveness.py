"""Workers that hang: who they are, and what is done about them. Driven by the driver, in the cluster's time.

A look asks the cluster what each worker is at (`Cluster.doing`), which no worker has to answer. It kills a worker

- that the operating system has stopped, in two looks at least a second apart;
- that has been at one row for longer than `part_timeout_s`, by default a hundred times the median task of the job and
  never less than a minute (a day, if no task of it has come back yet);
- that is still at a row of a job max(1 s, ten times the median task) after the job was cancelled or failed (ten seconds
  if no task has come), so that the next job can begin; the same for rows of any round that is over, if no worker is
  free for the one that is open.

A successor takes the place of a worker that is killed, and the master gives out its rows. A worker that computes
without ever letting go of the interpreter's lock is at a row like any other.

Looks are a second apart, or a tenth of what the open round has taken, if that is longer; without a round they go on
until no worker is at a row. Another one may come before a round is planned: a worker that is still at a row of the last
round but one is left out of it, and gets nothing until a look finds it elsewhere or it sends a message.
"""

import logging
import math
from collections.abc import Collection, Iterable

from echelon.clusters import Cluster, Doing
from echelon.errors import ClusterError
from echelon.plan import is_ahead
from echelon.stream.observer import RoundSeen, Running
from echelon.stream.task_times import TaskTimes

log = logging.getLogger("echelon.stream")

APART_S = 1.0  # between two looks, and how long a worker must be stopped
SHARE = 0.1  # of an open round's time between two looks, if that is longer
AGAIN_S = 0.02  # between two looks before rounds are planned
MEDIANS, LEAST_S, FIRST_S = 100.0, 60.0, 86_400.0  # what a task may take by default
GRACE_MEDIANS, GRACE_LEAST_S, GRACE_FIRST_S = 10.0, 1.0, 10.0  # the same, after its job was dropped


class Liveness:
    """Looks after the workers of a cluster. Times are the driver's, `origin` after the cluster's.

    timeout_s: what a part may take; None for the default.
    workers: those that are up; they change under it.
    due: when to look next.
    """

    def __init__(self, cluster: Cluster, origin: float, workers: Collection[int], timeout_s: float | None) -> None:
        self._cluster, self._origin, self._workers, self._timeout_s = cluster, origin, workers, timeout_s
        self.due = math.inf
        self._times = TaskTimes()
        self._seen: RoundSeen | None = None  # the open round
        self._name, self._opened, self._round = "", 0.0, 0
        self._looked = -math.inf
        self._dropped: dict[int, tuple[float, float]] = {}  # when rounds of dropped jobs ended, and the grace they have
        self._stopped: dict[int, float] = {}  # when workers were first seen stopped
        self._quiet: set[int] = set()  # workers that sent nothing in the last round
        self._behind: set[int] = set()  # workers that are at a row of an earlier round
        self._overran: dict[int, bool] = {}  # of workers that were killed

    # what the driver tells

    def opened(self, running: Running, seen: RoundSeen) -> None:
        """A round was planned."""
        self._seen, self._times, self._name = seen, running.store.times, running.name
        self._opened, self._round = seen.start, seen.round
        self.due = min(self.due, seen.start + APART_S)

    def joined(self, now: float) -> None:
        """A worker came up."""
        if self._seen is not None:
            self.due = min(self.due, now + APART_S)

    def ended(self) -> None:
        """The open round is over."""
        self._seen = None

    def dropped(self, now: float) -> None:
        """The open round is over, because its job was cancelled, or failed."""
        self._dropped[self._round] = now, self._grace()
        self.due = min(self.due, now + APART_S)
        self._seen = None

    def round_over(self, seen: RoundSeen) -> None:
        """Note who sent nothing in a round."""
        spoke = {message.worker for message in seen.messages}
        self._quiet = {owner for owner, lane in zip(seen.workers, seen.lanes(), strict=True) if lane} - spoke
        if self._behind:
            self._behind -= spoke

    def heard(self, worker: int) -> None:
        """Note that a message of an earlier round came."""
        self._behind.discard(worker)

    def lost(self, worker: int) -> bool:
        """Forget a worker; return whether it was killed because it took too long."""
        for workers in (self._quiet, self._behind):
            workers.discard(worker)
        self._stopped.pop(worker, None)
        return self._overran.pop(worker, False)

    def free(self, workers: tuple[int, ...], round: int, now: float) -> tuple[int, ...]:
        """Return which workers can be given something in a round that is about to be planned: all, if none can."""
        if (self._behind or not self._quiet.isdisjoint(workers)) and now >= self._looked + AGAIN_S:
            self._note(now, self._cluster.doing(), round - 2)
        left = tuple(worker for worker in workers if worker not in self._behind) if self._behind else workers
        return left or workers

    # looks

    def look(self, now: float) -> None:
        """Kill what hangs."""
        doing = self._cluster.doing()
        self._note(now, doing, self._round - 1)
        for one in doing:
            if one.worker not in self._overran:
                self._judge(one, now)
        at = {one.at[0] for one in doing if one.at is not None}
        self._dropped = {round: ended for round, ended in self._dropped.items() if round in at}
        busy = self._seen is not None or at or self._stopped
        self.due = now + max(APART_S, SHARE * (now - self._opened)) if self._workers and busy else math.inf
        self.due = min([self.due, *(first + APART_S for first in self._stopped.values() if first + APART_S > now)])

    def _note(self, now: float, doing: Iterable[Doing], last: int) -> None:
        """Note who is behind: stopped, or at a row of a round up to the `last`."""
        self._looked = now
        self._behind = {one.worker for one in doing if one.stopped or (one.at is not None and one.at[0] <= last)}

    def _judge(self, one: Doing, now: float) -> None:
        if one.stopped:
            first = self._stopped.setdefault(one.worker, now)
            if now >= first + APART_S:
                self._kill(one, f"stopped by the operating system for at least {now - first:.3g} s", overran=False)
            return
        self._stopped.pop(one.worker, None)
        if one.at is None or one.since is None:
            return
        took = now - (one.since - self._origin)
        limit = self._limit(one.at)
        if took >= limit:
            self._kill(one, f"{took:.3g} s at one row, more than the {limit:.3g} s allowed", overran=True)
            return
        ended, grace = self._dropped.get(one.at[0], (math.inf, 0.0))
        if one.at[0] < self._round and self._all_behind():
            ended, grace = min((ended, grace), (self._opened, self._grace()))
        if now >= ended + grace:
            self._kill(one, f"{now - ended:.3g} s after its round was over", overran=False)

    def _limit(self, at: tuple[int, int, int]) -> float:
        """Return how long a worker may be at a row."""
        if self._timeout_s is not None:
            return self._timeout_s
        # of the next job nothing is known yet
        median = None if is_ahead(at[1]) and at[0] == self._round else self._times.median(self._seen)
        return FIRST_S if median is None else max(LEAST_S, MEDIANS * median)

    def _grace(self) -> float:
        median = self._times.median(self._seen)
        return GRACE_FIRST_S if median is None else max(GRACE_LEAST_S, GRACE_MEDIANS * median)

    def _all_behind(self) -> bool:
        return self._seen is not None and all(worker in self._behind for worker in self._seen.workers if worker >= 0)

    def _kill(self, one: Doing, why: str, *, overran: bool) -> None:
        self._overran[one.worker] = overran
        where = ""
        if one.at is not None:
            round, slot, row = one.at
            of = self._name if round == self._round else f"round {round}, which is over"
            where = f", computing row {row} of slot {slot} of {of}"
        try:
            self._cluster.kill(one.worker, f"killed after {why}{where}")
        except ClusterError as error:
            log.warning("worker %d hangs (%s%s) and can't be killed: %s", one.worker, why, where, error)
