"""The master: a pure machine. Events in, actions out; it handles no arrays and reads no clock.

    IDLE ──Submitted──► PLANNING ──Planned──► COLLECTING ──every slot Recovered──► UPDATING
      ▲                  ▲   ▲                    │ rows lost: Assign again            │
      │                  │   └─────────────────── │ ── Updated, not finished; Unread ──┤
      └── queue empty ───┴── next job ◄───────────┴── Failed, Cancelled ── Deliver ◄───┘

Jobs are served one at a time, in order of arrival, so they are delivered in that order. Workers for which a round has
nothing more may do the first round of the next job ahead, where the driver plans for that (`Ahead`). A message of an
earlier round, a repeated one or one of an unknown row changes nothing.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any

from echelon import checks
from echelon.cause import Cause
from echelon.errors import IllegalEvent
from echelon.master.actions import (
    Action,
    Approximate,
    Assign,
    Deliver,
    Outcome,
    Purge,
    Recover,
    Replan,
    SetTimer,
    Starve,
    Stop,
    Update,
)
from echelon.master.ahead import Ahead
from echelon.master.collection import Collection
from echelon.master.events import (
    Alarm,
    Cancelled,
    Event,
    Failed,
    Joined,
    Lost,
    Planned,
    Received,
    Recovered,
    Refused,
    Rejected,
    Submitted,
    Unread,
    Updated,
)
from echelon.master.lateness import Lateness
from echelon.master.lending import lend
from echelon.plan import AHEAD, is_ahead


class Phase(Enum):
    """What the master waits for."""

    IDLE = "a job"
    PLANNING = "a plan"
    COLLECTING = "messages"
    UPDATING = "the job's step"


class Master:
    """Queue, rounds, purge, loss: see the module's picture.

    `patience` is how long a round may go on without a single new message before the rows that it still needs are given
    out again; it doubles each time within a round, up to 64 times the first. With None the master learns how long
    silence is normal, and what late workers owe is given to others, too (`lateness` has the rule).

    >>> master = Master(patience=10.0)
    >>> master.handle(Joined(0.0, 7))
    []
    >>> master.handle(Submitted(1.0, 0))
    [Replan(job=0, round=1, workers=(7,), following=None)]
    """

    def __init__(self, *, patience: float | None) -> None:
        self.patience = None if patience is None else checks.number("patience", patience, above=0)
        self.phase = Phase.IDLE
        self.queue: deque[int] = deque()
        self.workers: dict[int, None] = {}
        self.job: int | None = None
        self.round = 0
        self.collection: Collection | None = None
        self.lateness = Lateness(0.0, None)
        self.out: set[int] = set()  # workers that get nothing in this round
        self.late: set[int] = set()  # workers whose rows others were given, too; they get no more meanwhile
        self.attempt = 0
        self.moved = False  # whether a message came since the timer was set
        self.ripe: float | None = None  # when the clock may end the round, as things stand
        self.lend = False
        self.ahead: Ahead | None = None  # what idle workers do in this round for the next job
        self.barred: set[int] = set()  # jobs not to be begun ahead: one of their rows killed a worker
        self.last_job = -1
        self._moves: dict[type, Callable[[Any], list[Action]]] = {
            Received: self._received,
            Recovered: self._recovered,
            Updated: self._updated,
            Unread: self._unread,
            Planned: self._planned,
            Submitted: self._submitted,
            Cancelled: self._cancelled,
            Joined: self._joined,
            Lost: self._lost,
            Refused: self._refused,
            Rejected: self._rejected,
            Failed: self._failed,
            Alarm: self._alarm,
        }

    def handle(self, event: Event) -> list[Action]:
        """Handle an event and return what to do, in order."""
        actions = self._moves[type(event)](event)
        return actions if self.ahead is None else self._with_ahead(self.ahead, event, actions)

    def _with_ahead(self, ahead: Ahead, event: Event, actions: list[Action]) -> list[Action]:
        """Return what to do, and what idle workers may do for the next job, unless the round needs them."""
        collection = self.collection
        if collection is None:
            self.ahead = None
            return actions
        if any(isinstance(action, Assign) and ahead.busy(action.worker) for action in actions):
            return [*self._all_hands(), *actions]
        if any(isinstance(action, Recover) for action in actions):
            return actions  # the round may be over
        if isinstance(event, Received) and event.round != self.round:
            return actions  # from a worker that was left out
        asked = {event.worker} & self.workers.keys() if isinstance(event, Received) else self._hands()
        return [*actions, *ahead.give(worker for worker in asked if collection.busy[worker] <= 0)]

    def _all_hands(self) -> list[Action]:
        """End what is done for the next job, for this round."""
        stops: list[Action] = [] if self.ahead is None else [Stop(self.round, AHEAD)]
        self.ahead = None
        return stops

    # jobs

    def _submitted(self, event: Submitted) -> list[Action]:
        if event.job <= self.last_job:
            raise IllegalEvent(f"job {event.job} came after job {self.last_job}: job numbers must grow")
        self.last_job = event.job
        self.queue.append(event.job)
        return self._next_job() if self.phase is Phase.IDLE else []

    def _cancelled(self, event: Cancelled) -> list[Action]:
        if event.job == self.job:
            return self._end(Outcome.CANCELLED)
        if event.job in self.queue:
            self.queue.remove(event.job)
            self.barred.discard(event.job)
            if self.ahead is not None and self.ahead.job == event.job:
                return [*self._all_hands(), Deliver(event.job, Outcome.CANCELLED)]
            return [Deliver(event.job, Outcome.CANCELLED)]
        return []

    def _failed(self, event: Failed) -> list[Action]:
        if event.round != self.round or self.phase is Phase.IDLE:
            return []
        return self._end(Outcome.FAILED, event.cause)

    def _end(self, outcome: Outcome, cause: Cause | None = None) -> list[Action]:
        """Deliver the job in service, drop what is left of its round, and turn to the next job."""
        assert self.job is not None
        actions: list[Action] = [Purge(self.round)] if self.phase is Phase.COLLECTING else []
        actions.append(Deliver(self.job, outcome, cause))
        self.job, self.collection = None, None
        return actions + self._next_job()

    def _next_job(self) -> list[Action]:
        if not self.queue:
            self.phase = Phase.IDLE
            return []
        self.job = self.queue.popleft()
        self.barred.discard(self.job)
        return self._next_round()

    # rounds

    def _next_round(self) -> list[Action]:
        self.round += 1
        self.phase, self.collection = Phase.PLANNING, None
        return self._ask_for_plan()

    def _ask_for_plan(self) -> list[Action]:
        assert self.job is not None
        if not self.workers:
            return [Starve(self.job, self.round)]
        following = self.queue[0] if self.queue and self.queue[0] not in self.barred else None
        return [Replan(self.job, self.round, tuple(self.workers), following)]

    def _planned(self, event: Planned) -> list[Action]:
        if event.round != self.round or self.phase is not Phase.PLANNING:
            return []
        if len(event.workers) != len(event.plan.lanes) or len(event.codes) not in (0, len(event.plan.slots)):
            raise IllegalEvent(
                f"round {event.round}: {len(event.plan.lanes)} lanes for {len(event.workers)} workers, "
                f"{len(event.codes)} codes for {len(event.plan.slots)} slots"
            )
        self.phase = Phase.COLLECTING
        collection = self.collection = Collection(event.round, event.plan, event.codes, event.time, event.came)
        self.ahead = None
        if event.ahead is not None and event.ahead.job in self.queue:
            self.ahead = Ahead(event.round, event.ahead)
        self.lend = event.lend
        self.attempt, self.moved, self.ripe = 0, False, None
        self.lateness = Lateness(event.time, event.silence)
        self.out, self.late = set(event.out), set()
        recover = [
            Recover(event.round, slot, tuple(collection.trackers[slot].received))
            for slot, ready in enumerate(collection.ready)
            if ready
        ]
        actions: list[Action] = []
        if len(recover) < len(event.plan.slots):  # else there is nothing left to do
            actions += [
                collection.give(worker, lane)
                for worker, whole in zip(event.workers, event.plan.lanes, strict=True)
                if worker in self.workers and (lane := collection.rest(whole))
            ]
            if not self.workers.keys() >= set(event.workers):  # some were lost while the plan was made
                actions += self._mend(collection)
            actions += collection.pull(self._hands())
            collection.fresh.clear()  # they have it since the start
        return [*actions, self._timer(event.time), *self._ripen(collection, event.time), *recover]

    def _timer(self, now: float) -> SetTimer:
        """Set the clock for the end of the round, or for the next look at what is late, whichever is first.

        A round that needs nothing more is not looked at.
        """
        if self.ripe is not None and self._met():
            at = max(self.ripe, now)
        else:
            wait = None if self.patience is None else self.patience * 2.0 ** min(self.attempt, 6)
            at = max(now, self.lateness.due) if wait is None else now + wait
            at = at if self.ripe is None else min(at, max(self.ripe, now))
        return SetTimer(at, self.round, self.attempt)

    def _met(self) -> bool:
        """Return whether an ending of its own has all that it needs."""
        collection = self.collection
        return collection is not None and collection.rule is not None and collection.rule.met(collection.recovered)

    def _received(self, event: Received) -> list[Action]:
        now, worker, round, slot, row = event
        collection = self.collection
        if round != self.round or self.phase is not Phase.COLLECTING or collection is None:
            return []
        if self.ahead is not None and is_ahead(slot):
            self.ahead.receive(worker, slot, row, now)
            return []
        if self.lend:
            collection.progress(worker, slot, row, now)
        if not collection.knows(slot, row):
            return []
        collection.busy[worker] -= 1
        if (slot, row) not in collection.received:
            self.moved = True
            if collection.receive(slot, row, now):
                return [Recover(round, slot, tuple(collection.trackers[slot].received))]
            if collection.rule is not None:
                ended = self._wait_or_end(collection, now)
                return ended if self.collection is None else [*self._pull(collection, worker), *ended]
        return self._pull(collection, worker)

    def _pull(self, collection: Collection, worker: int) -> list[Action]:
        """Give a worker whose message came what it has room for."""
        if not collection.pool or worker not in self.workers:
            return []
        pulled = collection.pull([worker])
        collection.fresh.discard(worker)  # its message says since when
        return [*pulled]

    def _recovered(self, event: Recovered) -> list[Action]:
        collection = self.collection
        if event.round != self.round or self.phase is not Phase.COLLECTING or collection is None:
            return []
        idle = collection.settle(event.slot, event.time)
        if collection.over():
            return self._end_round()
        stop: list[Action] = [Stop(self.round, event.slot)] if idle else []
        stop += collection.pull(self._hands())
        if collection.rule is not None:
            return [*stop, *self._wait_or_end(collection, event.time)]
        return [*stop, *lend(collection, self._hands(), event.time)] if self.lend else stop

    def _wait_or_end(self, collection: Collection, now: float) -> list[Action]:
        """End a round that has all it waits for, or let the clock end one that has what it needs."""
        return self._end_round() if collection.over() else self._ripen(collection, now)

    def _ripen(self, collection: Collection, now: float) -> list[Action]:
        """Let the clock end a round as soon as the time is known, or another than before.

        It is always the clock, even if the time has come: what arrives at the same moment counts.
        """
        ripe = None if collection.rule is None else collection.rule.ripe(collection.recovered)
        if ripe == self.ripe:
            return []
        self.ripe = ripe
        return [self._timer(now)]

    def _end_round(self) -> list[Action]:
        assert self.job is not None
        assert self.collection is not None
        nearly = [Approximate(self.round, slot, rows) for slot, rows in self.collection.nearly()]
        self.phase, self.collection = Phase.UPDATING, None
        return [Purge(self.round), *nearly, Update(self.job, self.round)]

    def _refused(self, event: Refused) -> list[Action]:
        collection = self.collection
        if event.round != self.round or self.phase is not Phase.COLLECTING or collection is None:
            return []
        if collection.exhausted(event.slot):
            text = (
                f"slot {event.slot}: all rows arrived and still give too noisy a result; raise the job's tolerance or "
                "choose a better conditioned code"
            )
            return self._end(Outcome.FAILED, Cause(text, slot=event.slot))
        collection.refused[event.slot] = True
        if self.workers and not collection.given:
            # all rows came before the round began, and none is on its way
            mended: list[Action] = [*collection.share(collection.missing(event.slot), self._hands())]
        else:
            mended = self._mend(collection)
        mended += collection.pull(self._hands())
        return mended if collection.rule is None else [*mended, *self._wait_or_end(collection, event.time)]

    def _rejected(self, event: Rejected) -> list[Action]:
        collection = self.collection
        if event.round != self.round or self.phase is not Phase.COLLECTING or collection is None:
            return []
        awaited = collection.reject(event.slot, event.rows, event.time)
        if collection.ready[event.slot] and not collection.refused[event.slot]:
            return [Recover(event.round, event.slot, tuple(collection.trackers[event.slot].received))]
        mended = [*([] if awaited else self._mend(collection)), *collection.pull(self.workers)]
        return [*mended, *self._ripen(collection, event.time)]

    def _updated(self, event: Updated) -> list[Action]:
        if event.round != self.round or self.phase is not Phase.UPDATING:
            return []
        return self._end(Outcome.DONE) if event.finished else self._next_round()

    def _unread(self, event: Unread) -> list[Action]:
        return self._next_round() if event.round == self.round and self.phase is Phase.UPDATING else []

    # workers

    def _joined(self, event: Joined) -> list[Action]:
        if event.worker in self.workers:
            raise IllegalEvent(f"worker {event.worker} is here already: one that comes back needs a new number")
        self.workers[event.worker] = None
        if len(self.workers) > 1:
            collection = self.collection
            if collection is None:
                return []
            # it may do what those that are here may not do again
            mended = self._mend(collection) if collection.barred else []
            return [*mended, *collection.pull([event.worker])]
        # no worker was left: what waits can go on
        if self.phase is Phase.PLANNING:
            return self._ask_for_plan()
        if self.phase is Phase.COLLECTING and self.collection is not None:
            mended = [*self._mend(self.collection), *self.collection.pull([event.worker])]
            return [*mended, self._timer(event.time)]
        return []

    def _lost(self, event: Lost) -> list[Action]:
        if event.worker not in self.workers:
            return []
        del self.workers[event.worker]
        if self.phase is not Phase.COLLECTING or self.collection is None:
            return []
        at, stops = event.at, list[Action]()
        ahead, idle = self.ahead, self.collection.busy[event.worker] <= 0
        if ahead is not None and ahead.lose(event.worker) and (at is None or is_ahead(at[1])) and idle:
            # it worked on the next job, which may have killed it
            self.barred.add(ahead.job)
            at, stops = None, self._all_hands()
        given_up = self.collection.lose(event.worker, at, event.reason, overran=event.overran)
        if given_up is not None:
            return self._end(Outcome.FAILED, given_up)
        if self.collection.over():  # no worker is left to wait for
            return self._end_round()
        return [*stops, *self._mend(self.collection), *self.collection.pull(self._hands())]

    def _hands(self) -> list[int]:
        """Return the workers that may be given something: not those that are late or left out, if there are others."""
        return [worker for worker in self.workers if worker not in self.late | self.out] or list(self.workers)

    def _mend(self, collection: Collection) -> list[Action]:
        """Give out again what lost workers leave undone, where the round can't end without it."""
        if not self.workers:
            assert self.job is not None
            return [Starve(self.job, self.round)]
        hands = self._hands()
        given = collection.share(collection.orphans(hands), hands)
        # what none of them may do, as they did it before and it does not count
        return [*given, *collection.share(collection.orphans(self.workers), self.workers)]

    def _alarm(self, event: Alarm) -> list[Action]:
        stale = event.round != self.round or event.attempt != self.attempt
        if stale or self.phase is not Phase.COLLECTING or self.collection is None or not self.workers:
            return []
        if self.ripe is not None:
            if event.time >= self.ripe:
                return self._end_round()
            if self._met():
                return []  # an alarm from before the wait began
        if self.patience is None:
            return self._look(event, self.collection)
        if self.moved:
            self.moved = False
            return [self._timer(event.time)]
        return self._repeat(event.time, self.collection)

    def _look(self, event: Alarm, collection: Collection) -> list[Action]:
        """Give what late workers owe to others, too."""
        self.late.clear()
        self.late, lost = self.lateness.judge(event, collection, self._hands())
        if lost and not self.late:
            return self._repeat(event.time, collection)
        left = self._hands()
        owing = any(collection.pending.get(worker) for worker in left)
        if self.late and not owing and self._met():
            return self._end_round()  # only late workers owe something, and it is not needed
        waiting = any(collection.pending.get(worker) for worker in self.workers)
        given = self._mend(collection) if self.late or not waiting else []
        given += collection.pull(left)
        if lost and not given:
            return self._repeat(event.time, collection)
        self.attempt += bool(given)
        return [*given, self._timer(event.time)]

    def _repeat(self, now: float, collection: Collection) -> list[Action]:
        """Give out everything that the round lacks: nothing that is on its way may ever come."""
        overdue = collection.overdue()
        if not overdue and self._met():
            return self._end_round()  # what it waits for is lost and not needed
        self.attempt += 1
        stops = self._all_hands()
        again = collection.share(overdue, self.workers, afresh=True)
        self.lateness.repeated(now, self.workers)
        return [*stops, *again, *collection.pull(self.workers), self._timer(now)]
