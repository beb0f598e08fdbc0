"""Streams in virtual time whose workers take scripted times: what the evaluators are held to. The watcher looks on."""

import numpy as np

from bench.chaos.invariants import Watcher
from echelon.clusters import VirtualCluster
from echelon.clusters.pace import Pace
from echelon.codes import cyclic, mds, uncoded
from echelon.delays import Deterministic
from echelon.jobs import HollowJob
from echelon.master.actions import Outcome
from echelon.master.machine import Master
from echelon.schemes import CodedPlan
from echelon.stream import Observer, Stream


class ScriptedPace(Pace):
    """A worker's times: the i-th task of a round, both counted from where they begin, takes ``times(round, i)``."""

    def __init__(self, times, link=0.0):
        super().__init__(Deterministic(time=1.0), link, None)
        self._scripted = times

    def begin(self, *, round, start, parts):
        self._round, self._at, self._base, self._spent = round, 0, start + self.link, 0.0

    def _next(self):
        self._at += 1
        return float(self._scripted(self._round, self._at - 1))


def scripted(times, links):
    """Return the paces of workers that take ``times(place, round, i)``."""
    return [
        ScriptedPace(lambda round, i, place=place: times(place, round, i), link) for place, link in enumerate(links)
    ]


def every_second(workers):
    """Return the paces of workers that take a second for each part."""
    return scripted(lambda place, round, i: 1.0, [0.0] * workers)


def coded(plan, *, summed=False):
    """Return a plan with codes of which as many rows are enough as its slots say; summed: for the sum of all parts."""
    if isinstance(plan, CodedPlan):
        return plan
    codes = [_code(slot.rows, slot.threshold, summed) for slot in plan.slots]
    made = CodedPlan(codes, plan.lanes, ending=plan.ending, pool=plan.pool)
    assert [(slot.rows, slot.threshold) for slot in made.slots] == [(slot.rows, slot.threshold) for slot in plan.slots]
    return made


def _code(rows, threshold, summed):
    if rows == threshold:
        return uncoded(parts=rows)
    if summed:
        return cyclic(rows=rows, load=rows - threshold + 1, rng=np.random.default_rng(1))
    return mds(parts=threshold, rows=rows, rng=np.random.default_rng(1))


class WatchedStream(Stream):
    """A stream in virtual time whose master's promises are looked after."""

    def __init__(self, paces, *, patience_s=1e9, faults=None, observers=(), **options):
        cluster = VirtualCluster(paces=paces, faults=faults)
        super().__init__(cluster, patience_s=patience_s, observers=observers, progress=False, **options)

    def _decider(self, patience_s):
        return Watcher(Master(patience=patience_s)).handle


class Log(Observer):
    """What happened.

    rounds: job, round, start and end of each. ended: job, outcome and time of each. starved: how often nobody was left.
    """

    def __init__(self):
        self.rounds, self.ended, self.starved_times = [], [], 0

    def stepped(self, running, seen, finished):
        self.rounds.append((seen.job, seen.round, seen.start, seen.end))

    def delivered(self, time_s, running, outcome, error):
        self.ended.append((running.number, outcome, time_s))

    def starved(self, time_s, job):
        self.starved_times += 1

    @property
    def durations(self):
        return np.array([end - start for _, _, start, end in self.rounds])

    @property
    def departures(self):
        """When each job ended, in order, all of them well."""
        assert all(outcome is Outcome.DONE for _, outcome, _ in self.ended)
        assert [job for job, _, _ in self.ended] == list(range(len(self.ended)))
        return [time for _, _, time in self.ended]


def run(plan, paces, arrivals, iterations, *, lend=False, **options):
    """Run hollow jobs by a plan, that arrive at these times; return the log."""
    log = Log()
    plan = coded(plan)
    with WatchedStream(paces, observers=[log], **options) as stream:
        for arrival in arrivals:
            stream.sleep(max(0.0, arrival - stream.now()))
            stream.submit(HollowJob(plan, iterations=iterations, lend=lend))
    return log
