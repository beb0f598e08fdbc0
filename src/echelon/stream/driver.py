"""The live driver: turns what a cluster reports into events, does what the master wants, and does the arithmetic.

It runs in one thread, which owns the master, the cluster and all running jobs. Others speak to it through `order`.
"""

import logging
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from echelon import trees
from echelon.arrays import NumberArray
from echelon.clusters import Cluster, Down, Message, Report, Trouble, Up
from echelon.clusters.narrow import EPSILON, is_narrow
from echelon.codes import Weights, combine
from echelon.errors import ArgumentError, NotDecodable
from echelon.jobs import IterativeJob, RoundJob
from echelon.master import (
    Action,
    Alarm,
    Assign,
    Begun,
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
from echelon.plan import Task
from echelon.stream.ahead import Ahead, widely
from echelon.stream.kept import Store
from echelon.stream.observations import observations
from echelon.stream.observer import Observer, RoundSeen, Running
from echelon.stream.pacing import Pacing
from echelon.stream.planning import Planning

log = logging.getLogger("echelon.stream")

_MIXED = "parts gave results of different forms, {} and {}; all must have one shape and type"


class Driver:
    """Runs jobs on a cluster through the master. See the module.

    overlap: whether workers for whom a round has nothing more begin the next job.
    """

    def __init__(self, cluster: Cluster, pacing: Pacing, observers: list[Observer], *, patience: float) -> None:
        self.master = Master(patience=patience)
        self.pacing = pacing
        self.overlap = False
        self.places: dict[int, int] = {}  # of living workers
        self._cluster, self._observers = cluster, observers
        self._origin = time.monotonic()
        self._orders: deque[Callable[[], None]] = deque()
        self._jobs: dict[int, Running] = {}
        self._messages: dict[tuple[int, int], Message] = {}
        self._weights: dict[int, Weights] = {}
        self._forms: dict[int, bytes] = {}  # of a round's results, by slot where slots give different things
        self._timer: tuple[float, int, int] | None = None
        self._seen: RoundSeen | None = None
        self._served: Store | None = None  # whose round was the last
        self._planning, self._ahead = Planning(self.places, pacing), Ahead(cluster)
        self._finished_rounds: list[RoundSeen] = []
        self._stop = False

    def watch(self, observer: Observer) -> None:
        """Tell one more observer from now on; from any thread."""
        self.order(lambda: self._observers.append(observer))

    def now(self) -> float:
        """Return seconds since the stream opened."""
        return time.monotonic() - self._origin

    def order(self, what: Callable[[], None]) -> None:
        """Have something done in the driver's thread; from any thread. After the end nothing is done any more."""
        self._orders.append(what)
        self._cluster.wake()

    def stop(self) -> None:
        """End `run`; from any thread."""
        self.order(self._set_stop)

    def _set_stop(self) -> None:
        self._stop = True

    def submit(self, running: Running) -> None:
        """Take in a job; in the driver's thread."""
        self._jobs[running.number] = running
        running.store.users += 1
        for observer in self._observers:
            observer.submitted(running.arrived, running)
        self.tell(Submitted(self.now(), running.number))

    def forget(self, store: Store) -> None:
        """Let the workers forget a job's work as soon as no job needs it; in the driver's thread."""
        store.kept = False
        self._unload(store)

    def _unload(self, store: Store) -> None:
        if store.loaded and not store.kept and not store.users:
            store.loaded = False
            self._cluster.unload(store.key)

    def run(self) -> None:
        """Drive until stopped."""
        while not self._stop:
            while self._orders:
                self._orders.popleft()()
            if self._stop:
                break
            self._tidy()
            for report in self._cluster.poll(self._patience_left()):
                self._hear(report)
            self._ring()
        self._tidy()

    def _patience_left(self) -> float | None:
        if self._orders:
            return 0.0
        return None if self._timer is None else max(0.0, self._timer[0] - self.now())

    def _ring(self) -> None:
        if self._timer is not None and self.now() >= self._timer[0]:
            _, round, attempt = self._timer
            self._timer = None
            self.tell(Alarm(self.now(), round, attempt))

    def _hear(self, report: Report) -> None:
        now = self.now()
        match report:
            case Message():
                self._receive(report, now)
            case Trouble(worker=worker, round=round, error=error):
                self.tell(Failed(now, round, f"on worker {worker}:\n{error}"))
            case Up(worker=worker, place=place):
                self.places[worker] = place
                for observer in self._observers:
                    observer.worker_up(now, worker, place)
                self.tell(Joined(now, worker))
            case Down(worker=worker, place=place, reason=reason, at=at):
                self.places.pop(worker, None)
                for observer in self._observers:
                    observer.worker_down(now, worker, place, reason)
                self.tell(Lost(now, worker, at))

    def _receive(self, message: Message, now: float) -> None:
        at = (message.slot, message.row)
        if message.round != self.master.round or self._seen is None:
            self._cluster.release(message)  # late
            return
        assert self._seen.plan is not None
        own_slots = len(self._seen.plan.slots)
        if message.slot >= own_slots:
            if self.master.early is None:
                self._cluster.release(message)  # it was stopped
            elif self._ahead.receive(message, message.slot - own_slots):
                self.tell(Received(now, message.worker, message.round, message.slot, message.row))
            return
        self._seen.received += 1
        self._seen.nbytes += sum(segment.nbytes for segment in message.segments)
        self._seen.messages.append((message.worker, message.slot, message.row, now, message.seconds))
        if at in self._messages or message.slot in self._weights:
            self._cluster.release(message)  # a row that is there already, or that nobody needs any more
            self.tell(Received(now, message.worker, message.round, message.slot, message.row))
            return
        kind = message.slot if self._jobs[self._in_service()].job.by_slot else 0
        form = self._forms.setdefault(kind, message.form)
        if message.form != form:
            self._cluster.release(message)
            self.tell(Failed(now, message.round, _MIXED.format(form.decode(), message.form.decode())))
            return
        self._messages[at] = widely(self._cluster, message)
        self._seen.end = now
        self.tell(Received(now, message.worker, message.round, message.slot, message.row))

    # what the master wants

    def tell(self, event: Event) -> None:
        """Tell the master an event, and do what it wants, until nothing is left to do."""
        actions = deque(self.master.handle(event))
        while actions:
            answer = self._do(actions.popleft())
            if answer is not None:
                actions.extend(self.master.handle(answer))

    def _do(self, action: Action) -> Event | None:
        match action:
            case Assign(worker=worker, round=round, tasks=tasks):
                self._assign(worker, round, tasks)
            case Replan(job=job, round=round, workers=workers, behind=behind):
                return self._open(self._jobs[job], round, workers, behind)
            case Recover(round=round, slot=slot, rows=rows):
                return self._recover(round, slot, rows)
            case Stop(round=round, slot=slot):
                self._cluster.stop(round, slot)
            case Purge(round=round):
                self._cluster.purge(round)
                self._timer = None
            case Update(job=job, round=round):
                return self._update(self._jobs[job], round)
            case Deliver(job=job, outcome=outcome, error=error):
                self._deliver(job, outcome, error)
            case SetTimer(at=at, round=round, attempt=attempt):
                self._timer = (at, round, attempt)
            case Starve(job=job):
                for observer in self._observers:
                    observer.starved(job)
        return None

    def _assign(self, worker: int, round: int, tasks: Sequence[Task]) -> None:
        assert self._seen is not None
        assert self._seen.plan is not None
        if tasks[0].slot >= len(self._seen.plan.slots):  # of the next job: who asks for its data waits for nobody
            if self._ahead.load():
                self._cluster.assign(worker, round, tasks)
            return
        self._cluster.assign(worker, round, tasks)
        if not self._seen.as_planned():
            self._seen.given.setdefault(worker, []).extend(tasks)

    def _open(self, running: Running, round: int, workers: tuple[int, ...], behind: int | None) -> Event:
        """Plan a round and tell the cluster what it is computed from."""
        store, job, running.begun = running.store, running.job, True
        taken = self._ahead.take(running)
        loading, begun = not store.loaded, None
        if taken is not None:
            self._messages, loading = taken.messages, taken.loading
        try:
            if not store.loaded:
                self._cluster.load(store.key, job.work(running.codes))
                store.loaded = True
            if store is not self._served:
                self._tidy()  # what the job before showed is its own
                self.pacing.new_job()
                self._served = store
            elif not self.pacing.known:
                self._tidy()  # the first round is there to be learnt from
            made = job.open(self._cluster) if isinstance(job, RoundJob) else None
            if self.overlap and behind is not None and made is None:
                begun = self._begin(self._jobs[behind], running, workers)
            start = self.now()
            state = job.request(running.state) if taken is None else taken.request
            if begun is not None:
                state = self._ahead.beside(state, len(running.codes))
            self._cluster.broadcast(round, store.key, state)
            owned = self._planning.now(running, workers) if made is None else self._planning.by_place(made, workers)
        except Exception:
            return Failed(self.now(), round, f"on the master:\n{traceback.format_exc()}")
        plan, owners = owned
        self._seen = RoundSeen(
            running.number, round, running.iteration, start, loading=loading, plan=plan, workers=owners
        )
        came = tuple(self._messages)
        if taken is not None and came:
            self._seen.end, self._seen.nbytes = start, taken.nbytes
            self._seen.came = self._seen.received = len(came)
            self._forms = {slot if job.by_slot else 0: message.form for (slot, _), message in self._messages.items()}
        # the slots of such a job count what is still missing, and not all that its code needs
        codes = () if isinstance(job, RoundJob) else running.codes
        return Planned(self.now(), round, plan, owners, codes, job.lend, came, begun)

    def _begin(self, following: Running, running: Running, workers: tuple[int, ...]) -> Begun | None:
        """Return what workers may do for the next job that have nothing else to do; None if it can't be begun."""
        if not self._ahead.adopt(following, running):
            return None
        plan, owners = self._planning.ahead(following, workers)
        return Begun(following.number, plan, owners, following.codes, tuple(self._ahead.messages))

    def _recover(self, round: int, slot: int, rows: tuple[int, ...]) -> Event:
        running = self._jobs[self._in_service()]
        message = self._messages[slot, rows[-1]]
        coarsest = max(float(np.finfo(segment.dtype).eps) for segment in message.segments)
        coarsest = EPSILON if is_narrow(message.form) else coarsest
        held = running.job.held(slot) if isinstance(running.job, RoundJob) else ()
        try:
            weights = running.decoders[slot % len(running.decoders)].weights((*held, *rows))
        except NotDecodable:
            return Refused(self.now(), round, slot)
        error = weights.amplification * coarsest + weights.misfit
        tolerance = running.job.tolerance
        if error > (coarsest**0.5 if tolerance is None else tolerance):
            return Refused(self.now(), round, slot)
        self._weights[slot] = weights
        assert self._seen is not None
        self._seen.recovered[slot] = self._seen.end
        running.error = max(running.error, error)
        return Recovered(self.now(), round, slot)

    def _in_service(self) -> int:
        assert self.master.job is not None
        return self.master.job

    def _update(self, running: Running, round: int) -> Event:
        """Combine the messages and let the job take its step."""
        seen, self._seen = self._seen, None
        assert seen is not None
        try:
            running.messages += seen.received
            running.nbytes += seen.nbytes
            if isinstance(running.job, RoundJob):
                seen.end = self.now()
                messages, self._messages = self._messages, {}
                finished = running.job.close(messages, self._weights)
                running.iteration += 1
            else:
                self._step(running)
                finished = running.job.finished(running.state, running.iteration)
            for observer in self._observers:
                observer.stepped(running, finished)
        except Exception:
            return Failed(self.now(), round, f"on the master:\n{traceback.format_exc()}")
        finally:
            self._drop_messages()
        self._finished_rounds.append(seen)
        return Updated(self.now(), round, finished)

    def _step(self, running: Running) -> None:
        state = running.job.step(running.state, self._combined(running.job))
        if state is None and running.state is not None:
            raise ArgumentError("update: returned None; must return the next state")
        running.state = state
        running.iteration += 1

    def _combined(self, job: IterativeJob) -> Any:
        """Return what the messages amount to: the sum over slots, a list by slot, or all that the only slot gives."""
        used = [(weights, self._of(slot)) for slot, weights in self._weights.items()]
        first = used[0][1][0]
        if job.by_slot:
            return [self._summed(self._weights[slot].matrix, self._of(slot)) for slot in sorted(self._weights)]
        if job.stacked:
            ((weights, messages),) = used
            return trees.unflatten(
                first.form,
                [weights.combine([message.segments[i] for message in messages]) for i in range(len(first.segments))],
            )
        # one pass over the messages of all slots
        row = np.concatenate([weights.matrix[0] for weights, _ in used])[None]
        return self._summed(row, [message for _, messages in used for message in messages])

    def _of(self, slot: int) -> list[Message]:
        """Return the messages of a slot, in the order of its weights."""
        return [self._messages[slot, row] for row in self._weights[slot].rows.tolist()]

    @staticmethod
    def _summed(row: NumberArray, messages: list[Message]) -> Any:
        """Return one weighted sum of messages."""
        sums: list[NumberArray] = [
            combine(row, [message.segments[i] for message in messages])[0] for i in range(len(messages[0].segments))
        ]
        return trees.unflatten(messages[0].form, sums)

    def _drop_messages(self) -> None:
        for message in self._messages.values():
            self._cluster.release(message)
        self._messages, self._weights, self._forms = {}, {}, {}

    def _deliver(self, number: int, outcome: Outcome, error: str) -> None:
        running = self._jobs.pop(number)
        if self._ahead.running is running:
            self._ahead.drop()
        running.store.users -= 1
        self._unload(running.store)
        if running.begun:
            self._drop_messages()
            self._seen = None
        for observer in self._observers:
            observer.delivered(self.now(), running, outcome, error)

    def _tidy(self) -> None:
        """Do what can wait until the workers are busy: estimates and records of the rounds that are over."""
        rounds, self._finished_rounds = self._finished_rounds, []
        for seen in rounds:
            self.pacing.observe(observations(seen, self.places, self.pacing))
            for observer in self._observers:
                observer.round_over(seen)
