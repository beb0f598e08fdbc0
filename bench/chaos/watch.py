"""A stream whose every event and message is checked while it runs."""

import math
from collections.abc import Callable
from functools import partial, reduce, wraps
from typing import Any

import numpy as np
from numpy.random import Generator

from bench.chaos.invariants import Watcher
from echelon.clusters import VirtualCluster
from echelon.clusters.faults import Crash, Hang, Incident, Partition
from echelon.codes import Code, ErrorEstimate
from echelon.endings import Ending, Policy
from echelon.master.actions import Action, Assign, Purge, Recover
from echelon.master.events import Event, Joined, Lost, Planned, Received, Recovered, Rejected
from echelon.master.machine import Master
from echelon.plan import AHEAD
from echelon.stream import Observer, Stream

MOST_POLLS = 100_000  # of one life, after which it counts as endless
MOST_HARM = 4  # times in a life that an adder is harmed


class NeverEnds(AssertionError):
    """A schedule that never ends: a job is stuck."""


class WatchedCluster(VirtualCluster):
    """Remembers which worker came up where, and stops endless lives.

    harm: the chance by which workers are harmed while they add up rows, a few times.
    """

    stuck_s = 0.0

    def __init__(self, *arguments: Any, harm: Generator | None = None, **options: Any) -> None:
        self.places: dict[int, int] = {}
        self._polls = self._harmed = 0
        self._harm = harm
        super().__init__(*arguments, **options)

    def add(self, round: int, sums: Any) -> None:
        super().add(round, sums)
        rng = self._harm
        if rng is not None and self._harmed < MOST_HARM and rng.random() < 0.3:
            self._harmed += 1
            when, place = self.time + rng.exponential(0.2), int(rng.integers(self.workers))
            self.at(when, partial(self._befall, _harm(rng, when, place)))

    def _greet(self, worker: Any) -> None:
        self.places[worker.number] = worker.place
        super()._greet(worker)

    def poll(self, timeout_s: float | None) -> list[Any]:
        self._polls += 1
        if self._polls > MOST_POLLS:
            raise NeverEnds(f"{MOST_POLLS} polls, {self.time:g} virtual seconds")
        return super().poll(timeout_s)


def _harm(rng: Generator, time: float, place: int) -> Incident:
    """Return what happens to an adder."""
    length = float(rng.choice([rng.exponential(1.0), rng.exponential(20.0)]))
    kind = int(rng.integers(4))
    if kind == 0:
        return Crash(time, place, float(rng.exponential(3.0)), float(rng.exponential(3.0)))
    if kind == 1:
        return Hang(time, place, math.inf if rng.random() < 0.3 else length)
    return Partition(time, place, length, kind == 2)


class Rows:
    """What came for every slot, and whether that is enough, by the rank of its rows alone."""

    known: dict[tuple[bytes, frozenset[int]], bool] = {}  # noqa: RUF012 - of all schedules

    def __init__(self) -> None:
        self.events = 0
        self._round = 0
        self._codes: tuple[tuple[bytes, Code], ...] = ()
        self._ending: Ending | None = None
        self._came: list[set[int]] = []
        self._done: list[bool] = []
        self._pooled: list[set[int]] = []
        self._given: dict[int, set[tuple[int, int]]] = {}  # what every living worker was given in this round
        self._alive: set[int] = set()
        self._barred: dict[tuple[int, int], set[int]] = {}  # whose results of a row do not count

    def check(self, event: Event, actions: list[Action]) -> None:
        """Check one event and what the master made of it."""
        self.events += 1
        recovers = {action.slot: action for action in actions if isinstance(action, Recover)}
        match event:
            case Planned(round=round, plan=plan, came=came) if actions:
                self._round = round
                self._codes = tuple((code.matrix.tobytes() + code.target.tobytes(), code) for code in plan.codes)
                self._ending = plan.ending
                self._came, self._done = [set() for _ in plan.slots], [False] * len(plan.slots)
                self._pooled, self._given, self._barred = [set() for _ in plan.slots], {}, {}
                for slot, row in came:
                    self._came[slot].add(row)
                for task in plan.pooled:
                    self._pooled[task.slot].add(task.row)
            case Joined(worker=worker):
                self._alive.add(worker)
            case Lost(worker=worker):
                self._alive.discard(worker)
                self._given.pop(worker, None)
            case Received(round=round, slot=slot, row=row) if round == self._round and slot < AHEAD:
                new = row not in self._came[slot] and not self._done[slot]
                self._came[slot].add(row)
                if self._codes and new and self._enough(slot, self._came[slot]):
                    assert slot in recovers, f"enough rows, and nothing is done: {event}"
            case Rejected(round=round, slot=slot, rows=rows) if round == self._round:
                self._came[slot] -= {row for row, _ in rows}
                for row, worker in rows:
                    self._barred.setdefault((slot, row), set()).add(worker)
            case Recovered(round=round, slot=slot) if round == self._round:
                self._done[slot] = True
        for slot, action in recovers.items():
            assert set(action.rows) <= self._came[slot], f"a row is counted that never came: {action}"
            assert not self._codes or self._enough(slot, action.rows), f"too few rows: {action}"
        for action in actions:
            if isinstance(action, Assign):
                self._given.setdefault(action.worker, set()).update((task.slot, task.row) for task in action.tasks)
        if any(isinstance(action, Purge) for action in actions):
            self._round = 0  # what comes now is late
        if self._round and self._alive and isinstance(event, Planned | Joined | Lost):
            self._check_on_its_way(event)

    def _check_on_its_way(self, event: Event) -> None:
        """Every slot can be recovered from what came, what living workers were given, and what is in the pool.

        A policy may have enough with less.
        """
        missed, slots = 0.0, 0
        for slot, (came, done) in enumerate(zip(self._came, self._done, strict=True)):
            given = {row for rows in self._given.values() for of, row in rows if of == slot}
            # these wait for a worker that joins
            given |= {row for (of, row), workers in self._barred.items() if of == slot and workers >= self._alive}
            enough = done or not self._codes or self._enough(slot, came | given | self._pooled[slot])
            slots += enough
            missed += 0.0 if enough else self._missed(slot, came | given | self._pooled[slot])
        share = 1 - missed / sum(code.parts for _, code in self._codes) if missed else 1.0
        there = isinstance(self._ending, Policy) and share > 0 and self._ending.enough(share, slots)
        assert slots == len(self._came) or there, f"too little is on its way to end the round: {event}"

    def _missed(self, slot: int, rows: set[int]) -> float:
        """Return the squared distance of the sum from what rows can give, by least squares."""
        code = self._codes[slot][1]
        held = code.matrix[sorted(rows)]
        weights = np.linalg.lstsq(held.T, code.target[0], rcond=1e-12)[0]
        return float(np.sum((weights @ held - code.target[0]) ** 2))

    def _enough(self, slot: int, rows: Any) -> bool:
        key, code = self._codes[slot]
        at = key, frozenset(rows)
        if at not in self.known:
            held = code.matrix[sorted(at[1])]
            both = np.vstack([held, code.target])
            self.known[at] = np.linalg.matrix_rank(both, tol=1e-8) == np.linalg.matrix_rank(held, tol=1e-8)
        return self.known[at]


class WatchedStream(Stream):
    """A stream whose master is watched."""

    def _decider(self, patience_s: float | None) -> Callable[[Event], list[Action]]:
        watcher, self.rows = Watcher(Master(patience=patience_s)), Rows()

        def handle(event: Event) -> list[Action]:
            actions = watcher.handle(event)
            self.rows.check(event, actions)
            return actions

        return handle


def noted(hook: Callable[..., None]) -> Callable[..., None]:
    """Keep what a hook raises: a guest that raises is only dropped."""

    @wraps(hook)
    def guarded(self: "Notes", *values: Any) -> None:
        try:
            hook(self, *values)
        except Exception as error:
            self.wrong.append(repr(error))

    return guarded


class Notes(Observer):
    """What the stream reports, compared with what is known: places, iterations, errors.

    errors: of each job, the error of every iteration that it took, in all lives.
    """

    def __init__(self, cluster: WatchedCluster, errors: dict[int, list[ErrorEstimate]]) -> None:
        self._cluster, self._errors = cluster, errors
        self.wrong: list[str] = []

    def _promise(self, kept: bool, text: str) -> None:
        if not kept:
            self.wrong.append(text)

    @noted
    def worker_up(self, time_s: float, worker: int, place: int) -> None:
        self._promise(self._cluster.places[worker] == place, f"worker {worker} is taken to be at place {place}")

    @noted
    def opened(self, seen: Any) -> None:
        places = [self._cluster.places[worker] for worker in seen.workers if worker >= 0]
        if len(seen.plan.lanes) == self._cluster.workers:
            expected = [place for place, worker in enumerate(seen.workers) if worker >= 0]
        else:
            expected = sorted(places)
        self._promise(places == expected, f"lanes for places {places} are given to {seen.workers}")

    @noted
    def stepped(self, running: Any, seen: Any, finished: bool) -> None:
        errors = self._errors.setdefault(running.number, [])
        errors.append(seen.error_estimate)
        self._promise(running.iteration == len(errors), f"job {running.number} is at iteration {running.iteration}")
        claimed = running.error_estimate
        self._promise(claimed == reduce(ErrorEstimate.worst, errors), f"job {running.number} claims {claimed}")
