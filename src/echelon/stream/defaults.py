"""What is done about late workers where nobody said how much redundancy: by default, from what rounds showed.

A round begins uncoded, with shares by speed. The last of P workers, whose lanes of n tasks deviate by s sqrt(n), is
late by about s sqrt(2 n ln P). Where that is less than a part, nothing pays: whoever is done first would take as long
to repeat a part. Where it is more, idle workers repeat what has not come; a fifth of the rows is kept back for the
quick ones where messages travel quickly; and where rounds are no shorter for it, it ends (`trial`). Products with a
matrix can do better, since parity costs no more than other rows: they get as many rows to spare as the workers are late
by, once encoding them pays.
"""

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from math import ceil, log
from weakref import WeakKeyDictionary

import numpy as np

from echelon.arrays import FloatArray, IntArray
from echelon.codes import Code
from echelon.jobs import IterativeJob
from echelon.plan import Plan
from echelon.schemes import CodedPlan, pull
from echelon.schemes.coded_plan import lane_tasks
from echelon.stream.coding import Coded
from echelon.stream.kept import Store
from echelon.stream.observer import RoundSeen, Running
from echelon.stream.pacing import Pacing
from echelon.stream.trial import Trial

LATE, CALM = 1.0, 0.5  # parts by which the last worker is late: from there on something is done, and until here
COPIES = 4  # of a row, at most: more gain nothing
HELD = 0.8  # of its share that a worker has from the start, where the rest is handed out on demand
NEAR = 0.3  # parts that a message may travel for rows to be handed out on demand
AHEAD = 2  # tasks, at most, that a worker still has when it is sent the next, where messages travel long
PLANS = 32  # of a job, kept
SURE = 8  # rounds that a place must have shown before data is encoded for it
MOST_SPARE = 128  # rows of parity: the code of more takes long to make


class Defaults:
    """Plans of jobs that bring no plan and no code, on streams without a given redundancy.

    coded: makes the code of a job for a redundancy, and its decoder.
    """

    def __init__(self, pacing: Pacing, coded: Callable[[IterativeJob, float], Coded]) -> None:
        self._pacing, self._coded = pacing, coded
        self._late = False
        self._trials: WeakKeyDictionary[Store, Trial] = WeakKeyDictionary()
        self._verdicts: dict[tuple[type[IterativeJob], int], tuple[bool, bool]] = {}

    def plan(self, running: Running, counts: IntArray, places: tuple[int, ...]) -> Plan:
        """Return the plan of a round by whose split each of these places has so many rows; earlier ones are kept."""
        at, code, plans = np.array(places), running.codes[0], running.store.plans
        how = self._how(self._trial(running), counts, at)
        key = -1, *how, *counts.tolist()  # counts alone name plans that are made ahead
        if key not in plans:
            if len(plans) >= PLANS:
                plans.pop(next(iter(plans)))
            plans[key] = _plan(code, counts, *how)
        return plans[key]

    def observe(self, running: Running, seen: RoundSeen) -> None:
        """Note how long a round took."""
        trial = self._trials.get(running.store)
        if trial is not None and not seen.loading and not seen.came:
            trial.note(seen.end - seen.start, helped=seen.plan.pool is not None)
            self._verdicts[_kind(running)] = trial.failed, trial.settled

    def _trial(self, running: Running) -> Trial:
        """Return the trial of a job; it begins with what jobs of its kind and size showed before."""
        trial = self._trials.get(running.store)
        if trial is None:
            failed, proven = self._verdicts.get(_kind(running), (False, False))
            trial = self._trials[running.store] = Trial(failed=failed, proven=proven)
        return trial

    def _how(self, trial: Trial, counts: IntArray, at: IntArray) -> tuple[bool, bool, int]:
        """Return whether workers are late, whether near, and how many tasks ahead they get the next."""
        if not self._pacing.known or len(at) < 2:
            self._late = False
        else:
            late = float(self._lag(counts, at).max()) * (2 * log(len(at))) ** 0.5
            self._late = late > (CALM if self._late else LATE)
        if not self._late or not trial.helped():
            return False, True, 0
        travel = float(self._pacing.speeds().link[at][counts > 0].max()) / self._part(counts, at)
        return True, travel < NEAR, min(AHEAD, 1 + round(travel))

    def recoded(self, running: Running, places: tuple[int, ...]) -> Coded | None:
        """Return a code with rows to spare for a product that is late without, if it pays to encode its data."""
        job, store, spread = running.job, running.store, self._pacing.spread
        at = np.array(places)
        if store.coded is not None or not job.encodes or spread.rounds[at].min() < SURE:
            return None
        trial = self._trial(running)
        if not self._late or not trial.settled:
            return None
        counts = self._pacing.counts_for_next(running.codes[0], places)
        lag, part = self._lag(counts, at), self._part(counts, at)
        rows_behind = np.minimum(lag * part / self._pacing.means[at], counts)
        spare = min(MOST_SPARE, job.parts, ceil(float(rows_behind.sum())))
        left = max(running.rounds_left(), store.rounds if store.kept else 0)
        # a round waits for about half of what its last worker is late by
        if spare == 0 or job.encoding_s(spare) > left * 0.5 * float(lag.max()) * part:
            return None
        trial.restart()
        return self._coded(job, 1 + spare / job.parts)

    def _lag(self, counts: IntArray, at: IntArray) -> FloatArray:
        """Return by how much the lanes of these places deviate, in parts of a usual worker."""
        deviations = self._pacing.spread.deviations()[at] * self._pacing.means[at] * np.sqrt(counts)
        return deviations / self._part(counts, at)

    def _part(self, counts: IntArray, at: IntArray) -> float:
        """Return how long a part takes a usual worker."""
        return float(np.median(self._pacing.means[at][counts > 0]))


def _kind(running: Running) -> tuple[type[IterativeJob], int]:
    return type(running.job), running.job.parts


def _plan(code: Code, counts: IntArray, late: bool, near: bool, ahead: int) -> Plan:
    if not late:
        return lanes(code, counts)
    pulled = partial(pull, workers=len(counts), parts=code.rows, code=code)
    if code.rows > code.parts:
        return pulled(shares=counts, ahead=ahead)
    copies = min(COPIES, len(counts))
    if near:
        return pulled(shares=np.floor(HELD * counts).astype(int), copies=copies)
    return pulled(shares=counts, copies=copies, ahead=ahead)


def lanes(code: Code, counts: IntArray) -> CodedPlan:
    """Return the plan in which worker p computes the next counts[p] of the code's first rows."""
    sizes, chunks = counts.tolist(), [range(code.parts)]
    made = [
        lane_tasks([code], chunks, [(0, row) for row in range(end - size, end)])
        for size, end in zip(sizes, accumulate(sizes), strict=True)
    ]
    return CodedPlan([code], made, chunks)
