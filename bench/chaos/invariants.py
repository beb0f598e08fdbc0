"""What must hold after every event of a master, whatever happened before.

watcher = Watcher(master)
actions = watcher.handle(event)      # as master.handle, but every promise is checked
"""

from echelon.errors import EchelonError
from echelon.master.actions import (
    Action,
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
from echelon.master.events import (
    Alarm,
    Event,
    Failed,
    Received,
    Recovered,
    Refused,
    Rejected,
    Submitted,
    Unread,
    Updated,
)
from echelon.master.machine import Master, Phase
from echelon.plan import AHEAD

_SOME = 4  # one in this many rounds is checked with every message


class BrokenPromise(EchelonError):
    """The master did what it must never do."""


class Watcher:
    """Hands events to a master and checks what it does with them."""

    def __init__(self, master: Master) -> None:
        self.master = master
        self.submitted: list[int] = []
        self.ended: dict[int, Outcome] = {}
        self._purged = self._updated = 0
        self._timer: tuple[int, int] | None = None
        self._jobs: tuple[int | None, ...] = ()  # those held, and how many there were, when they were last checked

    def handle(self, event: Event) -> list[Action]:
        """Return what the master wants done, or raise `BrokenPromise`."""
        round_before = self.master.round
        actions = self.master.handle(event)
        if isinstance(event, Submitted):
            self.submitted.append(event.job)
        if isinstance(event, Received | Recovered | Refused | Rejected | Updated | Unread | Failed | Alarm):
            stale = event.round != round_before
            self._promise(not (stale and actions), "late news", event, round_before, actions)
        for action in actions:
            self._check_action(action)
        self._check_state(event)
        return actions

    def _promise(self, kept: bool, text: str, *what: object) -> None:
        """Raise unless a promise is kept; the message is built only then."""
        if not kept:
            raise BrokenPromise(f"{text}: {', '.join(map(str, what))}" if what else text)

    def _check_action(self, action: Action) -> None:
        master = self.master
        match action:
            case Assign(worker=worker, round=number, tasks=tasks):
                held = master.collection
                recovered = held.recovered if held is not None else []
                own = [task for task in tasks if task.slot < len(recovered)]
                self._promise(not any(recovered[task.slot] for task in own), "for a recovered slot", action)
                self._promise(
                    len(own) == len(tasks) or (not own and held is not None and held.busy[worker] <= 0),
                    "for the next job, while the round has work for this worker",
                    action,
                )
                self._promise(worker in master.workers, "this worker is gone", action)
                self._promise(number > self._purged, "after its purge", action)
            case Replan(round=number, workers=workers):
                self._promise(bool(workers) and set(workers) == set(master.workers), "wrong workers", action)
                self._promise(number > self._purged, "after its purge", action)
            case Recover(round=number, rows=rows):
                self._promise(number == master.round and len(set(rows)) == len(rows), "not this round's rows", action)
            case Stop(round=number, slot=slot):
                held = master.collection
                self._promise(
                    held is not None
                    and number == master.round
                    and (slot == AHEAD or (held.recovered[slot] and not all(held.recovered))),
                    "not a slot that is recovered before the others, nor one of the next job",
                    action,
                )
            case Purge(round=number):
                self._promise(number > self._purged, "for the second time", action)
                self._purged = number
            case Update(round=number):
                self._promise(number == self._purged > self._updated, "before its purge, or twice", action)
                self._updated = number
            case SetTimer(round=number, attempt=attempt):
                self._timer = (number, attempt)
            case Starve():
                self._promise(not master.workers, "with workers", action, list(master.workers))
            case Deliver(job=job, outcome=outcome):
                self._promise(
                    job in self.submitted and job not in self.ended, "unknown, or for the second time", action
                )
                # a job that is cancelled may leave the queue at any time; all others leave in order of arrival
                earlier = [other for other in self.submitted if other < job and other not in self.ended]
                self._promise(outcome is Outcome.CANCELLED or not earlier, "before others", action, earlier)
                self.ended[job] = outcome

    def _check_state(self, event: Event) -> None:
        master = self.master
        jobs = *master.queue, master.job, len(self.ended), len(self.submitted)
        if jobs != self._jobs:
            self._jobs = jobs
            self._check_jobs()
        self._promise(
            (master.job is None) == (master.phase is Phase.IDLE), "a job in service, or none, in the wrong phase"
        )
        self._promise(master.phase is not Phase.IDLE or not master.queue, "idle while jobs wait")
        collecting = master.phase is Phase.COLLECTING
        self._promise(collecting == (master.collection is not None), "rows are held outside of a round")
        if collecting and master.collection is not None:
            self._promise(self._timer == (master.round, master.attempt), "an open round without a timer")
            self._promise(set(master.collection.pending) <= set(master.workers), "rows are awaited from the dead")
            # a message moves a row from what is awaited to what arrived: checking is expensive, and done in some rounds
            look = not isinstance(event, Received) or (master.round % _SOME == 0 and not master.collection.codes)
            held = master.collection
            stuck = look and [
                task for task in held.orphans(master.workers)
                if any(held.may(worker, (task.slot, task.row)) for worker in master.workers)
            ]  # fmt: skip
            self._promise(not stuck, "a round can't end with what is on its way", master.round, stuck)

    def _check_jobs(self) -> None:
        master = self.master
        self._promise(list(master.queue) == sorted(master.queue), "the queue is out of order")
        self._promise(not self.ended.keys() & {*master.queue, master.job}, "an ended job is still held")
        held = {*master.queue} | ({master.job} if master.job is not None else set())
        self._promise(held | self.ended.keys() == set(self.submitted), "a job is lost")
