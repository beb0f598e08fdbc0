"""The driver: turns what a cluster reports into events, does what the master wants, and arranges the arithmetic.

The same for every cluster, in virtual and in real time: the cluster has the clock. One thread at a time drives; others
reach it through `order`.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from echelon import trees
from echelon.cause import Cause, caught
from echelon.clusters import Added, Cluster, Down, Message, Report, Trouble, Unread, Up
from echelon.master import actions, events
from echelon.plan import Task, is_ahead
from echelon.stream.ahead import Ahead, widely, work_of
from echelon.stream.approximating import Approximating
from echelon.stream.blame import Blame
from echelon.stream.defaults import Defaults
from echelon.stream.failing import job_failed
from echelon.stream.kept import Store
from echelon.stream.liveness import Liveness
from echelon.stream.observer import Arrival, Observer, Observers, RoundSeen, Running
from echelon.stream.pacing import Pacing, observations
from echelon.stream.planning import Planning
from echelon.stream.round_messages import RoundMessages
from echelon.stream.stepping import FATAL, Calls, Stepping
from echelon.stream.task_times import heard
from echelon.stream.unkept import Unkept
from echelon.stream.verifying import Verifying

log = logging.getLogger("echelon.stream")

Decide = Callable[[events.Event], list[actions.Action]]

# made once per message, at half the cost of their constructors
_arrival: Callable[[tuple[Any, ...]], Arrival] = partial(tuple.__new__, Arrival)
_received: Callable[[tuple[Any, ...]], events.Received] = partial(tuple.__new__, events.Received)

_SOON_S = 0.003  # until what can wait is done, where nobody needs anything else
_LONGEST_S = 1e6  # that a cluster can wait: more milliseconds are too many for the operating system
_MIXED = "parts gave results of different forms, {} and {}; all must have one shape and type"


class Driver:
    """Runs jobs on a cluster as a master decides. See the module.

    handle: the master's: an event in, actions out.
    part_timeout_s: what a part may take; see `Liveness`.
    overlap: whether workers for which a round has nothing more begin the next job.
    """

    def __init__(
        self,
        cluster: Cluster,
        handle: Decide,
        pacing: Pacing,
        observers: Observers,
        defaults: Defaults | None = None,
        part_timeout_s: float | None = None,
    ) -> None:
        self.pacing = pacing
        self.overlap = self.stopped = False
        self.places: dict[int, int] = {}  # of living workers
        self._cluster, self._handle, self._observers = cluster, handle, observers
        self._origin = cluster.now()
        self._orders: deque[Callable[[], None]] = deque()
        self._jobs: dict[int, Running] = {}
        self._served: Running | None = None  # the job whose round is open
        self._seen: RoundSeen | None = None  # the round that is open
        self._timer: tuple[float, int, int] | None = None
        self._store: Store | None = None  # of the last round
        self._planning, self._ahead = Planning(self.places, pacing, defaults), Ahead(cluster)
        self._approximating = Approximating(self.places)
        self._liveness = Liveness(cluster, self._origin, self.places.keys(), part_timeout_s)
        self._blame = Blame(cluster, self.places, observers, self.now)
        self._verifying = Verifying(cluster, self._blame)
        self._rows = RoundMessages(cluster, self._approximating, self._verifying, self.now)
        self._unkept = Unkept(self.now)
        calls = Calls(self.now, self.tell, self.order, self._unload)
        self._steps = Stepping(cluster, self._rows, self._planning, observers, self._unkept, calls)

    def now(self) -> float:
        """Return seconds since the stream opened."""
        return self._cluster.now() - self._origin

    def order(self, what: Callable[[], None]) -> None:
        """Have the driving thread do something; from any thread. After the end nothing more is done."""
        self._orders.append(what)
        self._cluster.wake()

    def stop(self) -> None:
        """End `run`, after a last try to keep what is left to keep; from any thread."""
        self.order(self._unkept.again)
        self.order(partial(setattr, self, "stopped", True))

    @property
    def unkept_jobs(self) -> set[int]:
        """The jobs of which a full journal does not hold all."""
        return self._unkept.jobs

    def submit(self, running: Running) -> None:
        """Enter a job; call through `order`."""
        self._jobs[running.number] = running
        running.store.users += 1
        if running.store.coded is not None:
            running.codes, running.decoders = running.store.coded
        self._observers.tell(Observer.submitted, running.arrived, running)
        self.tell(events.Submitted(self.now(), running.number))

    def forget(self, store: Store) -> None:
        """Let the workers forget a job's work as soon as no job needs it; call through `order`."""
        store.kept = False
        self._unload(store)

    def _unload(self, store: Store) -> None:
        if store.loaded and not store.kept and not store.users:
            store.loaded = False
            self._cluster.unload(store.key)

    def run(self) -> None:
        """Drive until stopped."""
        while not self.stopped:
            self.turn(None)

    def turn(self, timeout_s: float | None) -> None:
        """Do what was ordered, then what the cluster reports next, after waiting for it at most this long."""
        while self._orders and not self.stopped:
            self._orders.popleft()()
        if self.stopped or self._cluster.virtual or self._seen is not None:
            self._tidy()
        if self.stopped:
            return
        due = min(self._timer[0] if self._timer else math.inf, self._liveness.due, self._unkept.due)
        if due < math.inf:
            left = min(max(0.0, due - self.now()), _LONGEST_S)
            timeout_s = left if timeout_s is None else min(timeout_s, left)
        if self._steps.over:
            # a thread that waits for the result goes first: it may have the next job
            timeout_s = _SOON_S if timeout_s is None else min(timeout_s, _SOON_S)
        reports = self._cluster.poll(timeout_s if timeout_s is None else min(timeout_s, _LONGEST_S))
        if self._seen is None and not self._orders:
            self._tidy()
        for report in reports:
            self._hear(report)
        if due < math.inf or self._timer is not None:
            self._ring(self.now(), quiet=not reports)

    def _ring(self, now: float, *, quiet: bool) -> None:
        """Do what is due, and let the alarm go off; what arrives at the same moment comes first."""
        if now >= self._unkept.due:
            self._unkept.again()
        if now >= self._liveness.due:
            self._liveness.look(now)
        if self._timer is None:
            return
        at, round, attempt = self._timer
        if now > at or (quiet and now >= at):
            self._timer = None
            heard_at, gap = ({}, 0.0) if self._seen is None else heard(self._seen)
            self.tell(events.Alarm(now, round, attempt, heard_at, gap))

    def _hear(self, report: Report) -> None:
        now = self.now()
        match report:
            case Message():
                self._receive(report, now)
            case Trouble(worker=worker, round=round, cause=cause):
                if self._seen is not None and round == self._seen.round:  # else the round did without it
                    place = self.places.get(worker)
                    self.tell(events.Failed(now, round, replace(cause, worker=worker, place=place)))
            case Added():
                self._answer(self._steps.added(report))
            case Unread(messages=messages):
                self._unread(messages, now)
            case Up(worker=worker, place=place):
                self.places[worker] = place
                self._liveness.joined(now)
                self._observers.tell(Observer.worker_up, now, worker, place)
                self.tell(events.Joined(now, worker))
            case Down(worker=worker, place=place, reason=reason, at=at):
                self.places.pop(worker, None)
                self._blame.lost(worker, place)
                self._observers.tell(Observer.worker_down, now, worker, place, reason)
                self.tell(events.Lost(now, worker, at, reason, self._liveness.lost(worker)))

    def _receive(self, message: Message, now: float) -> None:
        worker, round, slot, row, seconds, form, _, _, _ = message
        nbytes = trees.layout(form).nbytes
        arrival = worker, round, slot, row, now, seconds, nbytes
        received = _received((now, worker, round, slot, row))
        seen, running = self._seen, self._served
        if seen is None or running is None or round != seen.round:
            self._cluster.release(message)
            self._observers.tell(Observer.received, _arrival((*arrival, "late")))
            self._liveness.heard(worker)
            self.tell(received)
            return
        if is_ahead(slot):
            self._observers.tell(Observer.received, _arrival((*arrival, "ahead")))
            if self._ahead.receive(message):
                self.tell(received)
            return
        new = self._rows.lacks(slot, row)
        came = _arrival((*arrival, "new" if new else "again"))
        seen.received += 1
        seen.nbytes += nbytes
        seen.messages.append(came)
        self._observers.tell(Observer.received, came)
        expected = self._rows.form(message) if new else form
        if running.verify is not None and new and form == expected and self._verifying.votes(slot):
            self._vote(widely(self._cluster, message), seen, received)
            return
        if not new or form != expected:
            self._cluster.release(message)
        else:
            self._rows.keep(widely(self._cluster, message))
            seen.end = now
        if form != expected:
            mixed = _MIXED.format(expected.decode(), form.decode())
            cause = Cause(mixed, worker=worker, place=self.places.get(worker), slot=slot, row=row)
            self.tell(events.Failed(now, round, cause))
        else:
            self.tell(received)

    def _vote(self, message: Message, seen: RoundSeen, received: events.Received) -> None:
        """Take in a message that counts when another worker has sent the same."""
        found = self._verifying.vote(message, received.time)
        if isinstance(found, Message):
            self._rows.keep(found)
            seen.end = received.time
        self.tell(received if isinstance(found, Message) else found)

    # what the master wants

    def tell(self, event: events.Event) -> None:
        """Tell the master an event, and do what it wants, until nothing is left to do."""
        wanted = self._handle(event)
        if not wanted:
            return  # as after most messages
        actions = deque(wanted)
        while actions:
            answer = self._do(actions.popleft())
            if answer is not None:
                actions.extend(self._handle(answer))

    def _do(self, action: actions.Action) -> events.Event | None:
        match action:
            case actions.Assign(worker=worker, round=round, tasks=tasks):
                self._assign(worker, round, tasks)
            case actions.Replan(job=job, round=round, workers=workers, following=following):
                return self._open(self._jobs[job], round, workers, following)
            case actions.Recover(round=round, slot=slot, rows=rows):
                assert self._seen is not None
                assert self._seen.round == round
                return self._rows.recover(self._seen, slot, rows)
            case actions.Approximate(slot=slot, rows=rows):
                self._rows.approximate(slot, rows)
            case actions.Stop(round=round, slot=slot):
                self._cluster.stop(round, slot)
            case actions.Purge(round=round):
                self._cluster.purge(round)
                self._timer = None
            case actions.Update(job=job):
                return self._update(self._jobs[job])
            case actions.Deliver(job=job, outcome=outcome, cause=cause):
                self._deliver(job, outcome, cause)
            case actions.SetTimer(at=at, round=round, attempt=attempt):
                self._timer = (at, round, attempt)
                if attempt and self._seen is not None:
                    self._seen.repeated = True
            case actions.Starve(job=job):
                self._observers.tell(Observer.starved, self.now(), job)
        return None

    def _assign(self, worker: int, round: int, tasks: Sequence[Task]) -> None:
        assert self._seen is not None
        if is_ahead(tasks[0].slot):  # of the next job: the worker that loads its data delays no other
            if self._ahead.load():
                self._cluster.assign(worker, round, tasks)
            return
        self._cluster.assign(worker, round, tasks)
        if not self._seen.as_planned():
            self._seen.given.setdefault(worker, []).extend(tasks)

    def _open(self, running: Running, round: int, workers: tuple[int, ...], following: int | None) -> events.Event:
        """Plan a round and tell the cluster what it is computed from."""
        store, job, ahead = running.store, running.job, None
        here, workers = workers, self._liveness.free(workers, round, self.now())
        taken = self._ahead.take(running)
        try:
            if taken is None and not self._rows:  # else some rows of this iteration are there
                self._recode(running, workers)
            loading = not store.loaded if taken is None else taken.loading
            if not store.loaded:
                self._load(running)
            if store is not self._store:
                self._tidy()  # what the job before showed is its own
                self.pacing.new_job()
                self._store = store
            elif not self.pacing.known:
                self._tidy()  # the first round is there to be learnt from
            made = job.open(self._cluster, running.state)
            if self.overlap and following is not None and made is None:
                ahead = self._begin(self._jobs[following], running, workers)
            start = self.now()
            state = job.request(running.state) if taken is None else taken.request
            self._cluster.broadcast(round, store.key, state if ahead is None else self._ahead.with_ahead(state))
            plan, owners = self._planning.now(running, workers, made)
            plan = self._approximating.begin(running, plan)
            if running.verify is not None:
                self._verifying.begin(running, round, job.terms(state))
        except FATAL:
            raise
        except BaseException as error:  # user code that exits fails its job, not the stream
            self._steps.not_ctrl_c(error)
            for message in () if taken is None else taken.messages.values():
                self._cluster.release(message)
            self._rows.drop()
            return events.Failed(self.now(), round, caught(error))
        seen = RoundSeen(running.number, round, running.iteration, start, plan, owners, loading=loading)
        came = self._rows.begin(running, seen, None if taken is None else taken.messages)
        self._seen, self._served = seen, running
        self._liveness.opened(running, seen)
        self._observers.tell(Observer.opened, seen)
        out = () if workers is here else tuple(worker for worker in here if worker not in workers)
        silence = store.times.silence
        return events.Planned(self.now(), round, plan, owners, plan.codes, job.lend, came, ahead, silence, out)

    def _load(self, running: Running) -> None:
        """Send a job's work to the workers."""
        self._cluster.load(running.store.key, work_of(running))
        running.store.loaded = True

    def _recode(self, running: Running, workers: tuple[int, ...]) -> None:
        """Have the data of a job loaded again, with redundancy, if that is what its workers ask for."""
        store = running.store
        store.rounds += 1
        coded = self._planning.recoded(running, workers) if store.users == 1 else None
        if coded is not None:
            if store.loaded:
                self._cluster.unload(store.key)
            store.renew(coded, running.codes[0])
            running.codes, running.decoders = coded

    def _begin(self, following: Running, running: Running, workers: tuple[int, ...]) -> events.PlannedAhead | None:
        """Return what idle workers may do for the next job; None if it can't be begun."""
        if following.verify is not None or not self._ahead.adopt(following, running):
            return None
        plan, owners = self._planning.ahead(following, workers)
        return events.PlannedAhead(following.number, plan, owners, following.codes, tuple(self._ahead.messages))

    def _update(self, running: Running) -> events.Event | None:
        """Close the round, and let its job take its step."""
        seen, self._seen, self._served = self._seen, None, None
        self._liveness.ended()
        assert seen is not None
        if seen.plan.ending is not None:
            seen.end = self.now()  # it may have waited for more than it needed
        return self._steps.begin(running, seen)

    def _unread(self, messages: Sequence[Message], now: float) -> None:
        """Do without messages that can't be read: others are to compute their rows."""
        for message in messages:
            if self._rows.lose(message) and self._seen is not None:
                rows = ((message.row, message.worker),)
                self.tell(events.Rejected(now, self._seen.round, message.slot, rows))
        self._answer(self._steps.unread())

    def _answer(self, event: events.Event | None) -> None:
        """Tell the master what came of something, if that is known by now."""
        if event is not None:
            self.tell(event)

    def _deliver(self, number: int, outcome: actions.Outcome, cause: Cause | None) -> None:
        running = self._jobs.pop(number)
        if self._ahead.running is running:
            self._ahead.drop()
        running.store.users -= 1
        self._unload(running.store)
        if running is self._rows.owner:
            self._steps.drop()
            self._rows.drop()
        if running is self._served:
            self._seen = self._served = None
            self._liveness.dropped(self.now())
        running.job.ended(running.state)
        error = None if cause is None else job_failed(running, cause)
        self._unkept.drop(number)
        self._unkept.keep(
            number,
            partial(self._observers.tell, Observer.delivered, self.now(), running, outcome, error),
            lambda: None,
        )

    def _tidy(self) -> None:
        """Do what can wait until the workers are busy: estimates and records of the rounds that are over."""
        rounds, self._steps.over = self._steps.over, []
        for seen, store in rounds:
            store.times.observe(seen)
            self._approximating.observe(seen, store)
            self._liveness.round_over(seen)
            self.pacing.observe(observations(seen, self.places, self.pacing))
            self._observers.tell(Observer.round_over, seen)
