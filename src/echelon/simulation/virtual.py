"""The master in virtual time: the production master, a heap of events, workers that only take time, and faults.

Events are ordered by (time, serial), so a run is one thing, whatever the machine. Without faults the rounds take
exactly what `RoundSampler` computes from the same draws.

A master that crashes is followed by a new one, which knows what a journal keeps: the jobs submitted, the iterations
that each has left, and those that were delivered. Everything else that was under way is void.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from typing import Any, Protocol

from echelon.codes import Code
from echelon.errors import EchelonError
from echelon.master import (
    Action,
    Alarm,
    Assign,
    Begun,
    Cancelled,
    Deliver,
    Event,
    Failed,
    Joined,
    Lost,
    Master,
    Outcome,
    Planned,
    Purge,
    Received,
    Recover,
    Recovered,
    Refused,
    Replan,
    SetTimer,
    Starve,
    Stop,
    Submitted,
    Update,
    Updated,
)
from echelon.master.invariants import Watcher
from echelon.plan import Plan, Task
from echelon.simulation.faults import Cancel, Crash, Faults, Incident, Join, MasterCrash, Partition, Raise, Slowdown
from echelon.simulation.virtual_result import Ended, VirtualResult

Planner = Callable[[int, int], Plan]  # job and number of workers to a plan
Times = Callable[[int, int], float]  # place and round to the time of the next task, per unit of cost


class Rounds(Protocol):
    """Plans that depend on the rounds before, with one lane a place."""

    def open(self) -> Plan:
        """Return the plan of the next round."""

    def close(self, received: Collection[tuple[int, int]], settled: Collection[int]) -> bool:
        """Take in the rows that came, as (slot, row), and the slots recovered; return whether that was the last."""


class NeverEnds(EchelonError):
    """A virtual run that goes on and on: a job is stuck."""


class _MasterDied(Exception):
    """The master dies here and now, perhaps between two actions."""


@dataclass(slots=True)
class _Worker:
    """A worker that computes nothing: it only takes time."""

    number: int
    place: int
    link: float
    round: int = 0
    lane: deque[tuple[int, Task]] = field(default_factory=deque)
    at: tuple[int, Task] | None = None
    base: float = 0.0
    spent: float = 0.0
    sent: float = 0.0
    serial: int = 0
    alive: bool = True
    cut: bool = False
    slow: float = 1.0


class VirtualCluster:
    """Runs jobs through the master in virtual time.

    planner: the plan for a job on so many workers, or `Rounds`, for one job whose plans depend on what came.
    times: the next task time of a place. links: one a place. codes: of a plan's slots, where counting rows is not
    enough. lend: whether workers of recovered slots may help others. overlap: whether workers that a round has nothing
    more for begin the next job.

    >>> from echelon.schemes import any_k
    >>> any_two = lambda job, workers: any_k([1] * workers, 2)
    >>> cluster = VirtualCluster(any_two, lambda place, round: 1.0 + place, links=[0.5] * 3)
    >>> cluster.run([0.0], [2]).ended[0].time
    5.0
    """

    def __init__(
        self,
        planner: Planner | Rounds,
        times: Times,
        links: Sequence[float],
        *,
        codes: tuple[Code, ...] = (),
        lend: bool = False,
        overlap: bool = False,
        patience: float = 1e9,
        faults: Faults | None = None,
        watch: bool = True,
    ) -> None:
        self.planner, self.times, self.links, self.codes = planner, times, list(links), codes
        self.faults, self.lend, self.overlap = faults, lend, overlap
        self._settled: set[int] = set()
        self._patience, self._watch = patience, watch
        self._new_master()
        self._heap: list[tuple[float, int, int | None, Callable[[], None]]] = []  # time, serial, life, what happens
        self._life = 0  # of the master: what was under way in an earlier one is void
        self._doom: tuple[int, float] | None = None  # actions until the master dies, and how long it stays dead
        self._back: float | None = None  # when a dead master comes back
        self._entered: list[int] = []  # jobs that the journal has
        self._serial = self._numbers = 0
        self._workers: dict[int, _Worker] = {}  # by place
        self._names: dict[int, _Worker] = {}  # by the number that the master knows
        self.now = 0.0
        self.result = VirtualResult()
        self._left: list[int] = []
        self._plans: dict[tuple[int, int], Plan] = {}
        self._opened: dict[int, float] = {}
        self._rows: dict[tuple[int, int], set[int]] = {}
        self._came: dict[int, set[tuple[int, int]]] = {}  # rows of jobs whose turn has not come

    def run(self, arrivals: Sequence[float], iterations: Sequence[int], *, most_events: int = 10**7) -> VirtualResult:
        """Run jobs that arrive at these times and take so many iterations each; return when all have ended."""
        self._left = list(iterations)
        for place in range(len(self.links)):
            self._spawn(place)
        for job, time in enumerate(arrivals):
            self._at_last(time, partial(self._submit, job))
        for incident in self.faults.incidents if self.faults else ():
            self._at_last(incident.time, partial(self._befall, incident))
        for _ in range(most_events):
            if len(self.result.ended) == len(arrivals):
                return self.result
            if not self._heap:
                raise NeverEnds(f"nothing more happens after {self.now:g}, with {len(self.result.ended)} jobs ended")
            self.now, _, life, happen = heappop(self._heap)
            if life is None and self._back is not None:
                self._at_last(self._back, happen)  # nobody is there to take it
            elif life is None or life == self._life:
                try:
                    happen()
                except _MasterDied:
                    self._die()
        raise NeverEnds(f"{most_events} events and {len(self.result.ended)} of {len(arrivals)} jobs ended")

    def _at(self, time: float, happen: Callable[[], None]) -> None:
        self._serial += 1
        heappush(self._heap, (time, self._serial, self._life, happen))

    def _at_last(self, time: float, happen: Callable[[], None]) -> None:
        """Have something happen whatever becomes of the master: later, if it is dead then."""
        self._serial += 1
        heappush(self._heap, (time, self._serial, None, happen))

    # the master's lives

    def _new_master(self) -> None:
        self.master = Master(patience=self._patience)
        self._handle = Watcher(self.master).handle if self._watch else self.master.handle

    def _die(self) -> None:
        assert self._doom is not None
        self._back, self._doom = self.now + self._doom[1], None
        self._life += 1
        self.result.crashes += 1
        for worker in self._workers.values():
            worker.alive = False
        self._at(self._back, self._resume)

    def _resume(self) -> None:
        """Begin again with what the journal has."""
        self._back = None
        self._opened, self._rows, self._came = {}, {}, {}
        self._new_master()
        for place in range(len(self.links)):
            self._spawn(place)
        ended = {end.job for end in self.result.ended}
        for job in self._entered:
            if job in ended:
                continue
            if self._left[job]:
                self._tell(Submitted(self.now, job))
            else:
                self.result.ended.append(Ended(job, self.now, Outcome.DONE, ""))

    def _submit(self, job: int) -> None:
        self._entered.append(job)
        self._tell(Submitted(self.now, job))

    # the master and what it wants

    def _tell(self, event: Event) -> None:
        for action in self._handle(event):
            self._do(action)

    def _tell_later(self, kind: Callable[..., Event], *fields: Any) -> None:
        """Tell the master an event that happens now, at the end of a delay."""
        self._tell(kind(self.now, *fields))

    def _do(self, action: Action) -> None:
        if self._doom is not None:
            left, down = self._doom
            if not left:
                raise _MasterDied
            self._doom = left - 1, down
        match action:
            case Assign(worker=number):
                self._pass(self._names[number], partial(self._take, number, action))
            case Purge(round=round):
                for worker in self._workers.values():
                    self._pass(worker, partial(self._stop, worker, round))
            case Stop(round=round, slot=slot):
                for worker in self._workers.values():
                    self._pass(worker, partial(self._skip, worker, round, slot))
            case Replan(job=job, round=round, workers=workers, behind=behind):
                self._opened[round] = self.now
                plan, lanes = self._plan(job, workers)
                came = tuple(self._came.pop(job, ()))
                for slot, row in came:
                    self._rows.setdefault((round, slot), set()).add(row)
                begun = None if behind is None or not self.overlap else self._begun(behind, workers)
                self._tell(Planned(self.now, round, plan, lanes, self.codes, self.lend, came, begun))
            case Recover(round=round, slot=slot, rows=rows):
                assert set(rows) <= self._rows[round, slot], "a row is counted that never came"
                self.result.recovered.append((round, slot, rows))
                refused = self.faults is not None and self._more(slot, rows) and self.faults.refuses()
                if not refused:
                    self._settled.add(slot)
                self._tell((Refused if refused else Recovered)(self.now, round, slot))
            case Update(job=job, round=round):
                self._left[job] -= 1
                if not callable(self.planner) and self._close(self.planner, round):
                    self._left[job] = 0
                self.result.rounds.append((job, round, self._opened.pop(round), self.now))
                self._rows, self._settled = {}, set()
                self._tell(Updated(self.now, round, self._left[job] == 0))
            case Deliver(job=job, outcome=outcome, error=error):
                self.result.ended.append(Ended(job, self.now, outcome, error))
            case SetTimer(at=time, round=round, attempt=attempt):
                self._at(time, partial(self._tell_later, Alarm, round, attempt))
            case Starve():
                self.result.starved += 1

    def _plan(self, job: int, workers: tuple[int, ...]) -> tuple[Plan, tuple[int, ...]]:
        """Return a plan and whose its lanes are; those of empty places are nobody's."""
        if not callable(self.planner):
            by_place = {self._names[worker].place: worker for worker in workers}
            plan = self.planner.open()
            return plan, tuple(by_place.get(place, -1 - place) for place in range(len(plan.lanes)))
        if (job, len(workers)) not in self._plans:
            self._plans[job, len(workers)] = self.planner(job, len(workers))
        return self._plans[job, len(workers)], workers

    def _begun(self, job: int, workers: tuple[int, ...]) -> Begun:
        plan, lanes = self._plan(job, workers)
        return Begun(job, plan, lanes, self.codes, tuple(self._came.get(job, ())))

    def _close(self, rounds: Rounds, round: int) -> bool:
        received = {(slot, row) for (of, slot), rows in self._rows.items() if of == round for row in rows}
        return rounds.close(received, self._settled)

    def _more(self, slot: int, rows: tuple[int, ...]) -> bool:
        """Return whether a slot has rows that have not arrived."""
        assert self.master.collection is not None
        return len(rows) < self.master.collection.plan.slots[slot].rows

    def _pass(self, worker: _Worker, arrive: Callable[[], None], due: float | None = None) -> None:
        """Let something pass between the master and a worker, in either direction, if faults let it; by default now."""
        if worker.cut:
            return
        for added in self.faults.copies() if self.faults else (0.0,):
            if due is None and not added:
                arrive()
            else:
                self._at((self.now if due is None else due) + added, arrive)

    # workers

    def _spawn(self, place: int) -> None:
        worker = _Worker(self._numbers, place, self.links[place])
        self._workers[place] = worker
        self._join(worker)

    def _join(self, worker: _Worker) -> None:
        worker.number = self._numbers
        self._names[worker.number] = worker
        self._numbers += 1
        self._tell(Joined(self.now, worker.number))

    def _take(self, number: int, assign: Assign) -> None:
        worker = self._names[number]
        if not worker.alive or worker.cut or assign.round < worker.round:
            return
        if assign.round > worker.round:
            self._stop(worker, worker.round)
            worker.round = assign.round
        worker.lane.extend((assign.round, task) for task in assign.tasks)
        if worker.at is None:
            worker.base, worker.spent, worker.sent = self.now, 0.0, worker.link
            self._compute(worker)

    def _stop(self, worker: _Worker, round: int) -> None:
        if worker.round <= round:
            worker.lane.clear()
            worker.at = None
            worker.serial += 1

    def _skip(self, worker: _Worker, round: int, slot: int) -> None:
        """Let a worker drop its tasks of a slot, also the one that it is at."""
        if worker.round != round:
            return
        worker.lane = deque(held for held in worker.lane if held[1].slot != slot)
        if worker.at is not None and worker.at[1].slot == slot:
            worker.serial += 1
            worker.base, worker.spent, worker.sent = self.now, 0.0, worker.link
            self._compute(worker)

    def _compute(self, worker: _Worker) -> None:
        worker.at = worker.lane.popleft() if worker.lane else None
        if worker.at is None:
            return
        time = self.times(worker.place, worker.at[0]) * worker.at[1].cost * worker.slow
        worker.spent += time
        worker.sent += time
        self._at(worker.base + worker.spent, partial(self._finish, worker, worker.serial))

    def _finish(self, worker: _Worker, serial: int) -> None:
        if serial != worker.serial or worker.at is None:
            return
        round, task = worker.at
        message = partial(self._arrive, worker.number, round, task.slot, task.row)
        self._pass(worker, message, due=worker.base + worker.sent)
        self._compute(worker)

    def _arrive(self, number: int, round: int, slot: int, row: int) -> None:
        early = self.master.early
        if round == self.master.round and early is not None and slot >= early.first:
            self._came.setdefault(early.job, set()).add((slot - early.first, row))
        elif round == self.master.round:
            self._rows.setdefault((round, slot), set()).add(row)
        self._tell(Received(self.now, number, round, slot, row))

    # incidents

    def _befall(self, incident: Incident) -> None:
        worker = None if isinstance(incident, Cancel | Join | MasterCrash) else self._workers.get(incident.place)
        match incident:
            case MasterCrash(actions=actions, down=down):
                self._doom = actions, down
            case Cancel(job=job):
                self._tell(Cancelled(self.now, job))
            case Join():
                self.links.append(self.links[0])
                self._spawn(len(self.links) - 1)
            case Slowdown(length=length, factor=factor) if worker:
                worker.slow = factor
                self._at(self.now + length, partial(setattr, worker, "slow", 1.0))
            case Raise() if worker and worker.at is not None and not worker.cut:
                self._tell(Failed(self.now, worker.at[0], "raised on purpose"))
            case Crash(notice=notice, restart=restart) if worker and worker.alive:
                worker.alive = False
                at = None if worker.at is None else (worker.at[0], worker.at[1].slot, worker.at[1].row)
                self._stop(worker, worker.round)
                self._at(self.now + notice, partial(self._tell_later, Lost, worker.number, at))
                self._at(self.now + notice + restart, partial(self._spawn, worker.place))
            case Partition(length=length, reported=reported) if worker and worker.alive and not worker.cut:
                worker.cut = True
                if reported:
                    self._tell(Lost(self.now, worker.number))
                self._at(self.now + length, partial(self._heal, worker, reported))

    def _heal(self, worker: _Worker, reported: bool) -> None:
        worker.cut = False
        if reported and worker.alive:
            self._join(worker)
