"""The way out of a stream: outstanding jobs, and deliveries that wait to be taken, in order."""

import logging
from threading import Condition

from echelon.errors import ClusterError, JobFailed
from echelon.master.actions import Outcome
from echelon.stream.handle import Delivery, Handle, PassTime
from echelon.stream.journal import Journal
from echelon.stream.observer import Observer, RoundSeen, Running

log = logging.getLogger("echelon.stream")

_WARNINGS = 10  # failed jobs that are named when nobody asked about them


class Deliverer(Observer):
    """Takes what a driver reports of jobs and workers, in its thread; hands out deliveries to any other.

    changed: notified of everything that a thread may wait for.
    broken: the error that ended the stream early.
    closed: whether the user ended it.
    pass_time: lets the stream's time pass until a condition holds; set before any wait.
    """

    pass_time: PassTime

    def __init__(self, journal: Journal | None) -> None:
        self.changed = Condition()
        self.broken: BaseException | None = None
        self.closed = False
        self._journal = journal
        self._handles: dict[int, Handle] = {}  # of jobs that have not ended
        self._silent: set[int] = set()  # those left out of the deliveries
        self._withdrawn: set[int] = set()  # those cancelled that the driver has not dropped yet
        self._unasked: dict[int, JobFailed] = {}  # failures that no caller has seen
        self._ready: dict[int, Delivery] = {}  # by number
        self._starved = -1

    # for those that wait for results

    def expect(self, handle: Handle, *, deliver: bool) -> None:
        """Note a job that comes in, and whether it is among the deliveries."""
        with self.changed:
            self.check_whole()
            if not deliver:
                self._silent.add(handle.number)
            self._handles[handle.number] = handle

    def add(self, delivery: Delivery) -> None:
        """Add a delivery that a journal held; it is handed out after those of all jobs before it."""
        with self.changed:
            self._ready[delivery.number] = delivery
            self.changed.notify_all()

    def _next(self) -> Delivery | None:
        """Return the next delivery, or None while an earlier job is still outstanding."""
        first = min(self._ready, default=None)
        earlier = next((number for number in self._handles if number not in self._silent), None)
        return None if first is None or (earlier is not None and earlier < first) else self._ready[first]

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for a delivery, or until none is expected; return whether one is."""
        timeout_s = self.pass_time(self._settled, timeout_s)
        with self.changed:
            self.changed.wait_for(self._settled, timeout_s)
            if self._next() is None:
                self.check_whole()
            return bool(self._ready or self._awaited())

    def _settled(self) -> bool:
        with self.changed:
            return self._next() is not None or not self._awaited()

    def _idle(self) -> bool:
        with self.changed:
            return not self._handles or self.broken is not None

    def _awaited(self) -> bool:
        """Return whether a job is outstanding that will be among the deliveries."""
        return len(self._handles) > len(self._silent)

    def take(self) -> Delivery | None:
        """Return the next delivery, if one is there, marked as delivered before it leaves the queue."""
        with self.changed:
            delivery = self._next()
            if delivery is None:
                return None
            if self._journal is not None:
                if self.closed:
                    raise ClusterError("the stream is closed: open its journal again for what was not taken")
                (self._journal.delivered if delivery.error is None else self._journal.dropped)(delivery.number)
            self._unasked.pop(delivery.number, None)
            return self._ready.pop(delivery.number)

    def took(self, delivery: Delivery) -> Delivery:
        """Return the delivery that a handle is about to give to the caller."""
        with self.changed:
            self._unasked.pop(delivery.number, None)
        return delivery

    def withdraw(self, number: int) -> bool:
        """Leave a job out from now on, because it was cancelled; return whether it was still expected."""
        with self.changed:
            if number not in self._handles or number in self._withdrawn:
                return False
            self._withdrawn.add(number)
            return True

    def warn_of_unasked(self) -> None:
        """Say in the log which jobs failed without anybody having seen it."""
        with self.changed:
            unasked, self._unasked = list(self._unasked.values()), {}
        for error in unasked[:_WARNINGS]:
            log.warning("a job failed, and nobody asked: %s", str(error).partition("\n")[0])
        if len(unasked) > _WARNINGS:
            log.warning("%d more jobs failed, and nobody asked", len(unasked) - _WARNINGS)

    def outstanding(self) -> list[Handle]:
        """Return the handles of all jobs that have not ended."""
        with self.changed:
            return list(self._handles.values())

    def wait_for_all(self) -> None:
        """Wait until no job is outstanding, or the stream broke down."""
        self.pass_time(self._idle, None)
        with self.changed:
            self.changed.wait_for(self._idle)

    def drop_all(self) -> None:
        """Forget all outstanding jobs, as if they had been cancelled."""
        for handle in self._let_go():
            handle.drop()

    def break_down(self, error: BaseException) -> None:
        """Fail all outstanding jobs: there will be no more results."""
        for handle in self._let_go(error):
            handle.set_exception(ClusterError(f"the stream broke down: {error}"))

    def _let_go(self, error: BaseException | None = None) -> list[Handle]:
        with self.changed:
            if error is not None:
                self.broken = error
            left = list(self._handles.values())
            self._handles.clear()
            self.changed.notify_all()
            return [handle for handle in left if handle.number not in self._withdrawn]

    def check_whole(self) -> None:
        """Raise if the stream broke down."""
        if self.broken is not None:
            what = "; its jobs go on when the journal is opened again" if self._journal is not None else ""
            raise ClusterError(f"the stream broke down: {self.broken}{what}") from self.broken

    # what a driver reports

    def stepped(self, running: Running, seen: RoundSeen, finished: bool) -> None:
        """A job has a new state."""
        self._handles[running.number].iteration = running.iteration
        if self._journal is not None:
            self._journal.stepped(running.number, running.state, running.iteration, running.error_estimate, finished)

    def delivered(self, time_s: float, running: Running, outcome: Outcome, error: JobFailed | None) -> None:
        """A job ended."""
        with self.changed:  # a cancel comes before this, or too late
            if running.number in self._withdrawn:
                outcome, error = Outcome.CANCELLED, None
            handle, delivery = self._ended(time_s, running, outcome, error)
            self._withdrawn.discard(running.number)
        # outside the lock: callbacks of the future may do anything
        if outcome is not Outcome.CANCELLED:
            handle.finish(delivery)
        log.info("%s %s after %.3f s, %d iterations", handle.name, outcome.value, delivery.delay, running.iteration)

    def _ended(
        self, time_s: float, running: Running, outcome: Outcome, error: JobFailed | None
    ) -> tuple[Handle, Delivery]:
        """Note the end of a job; return its handle, which is not told yet, and its delivery."""
        if self._journal is not None and outcome is Outcome.CANCELLED:
            self._journal.dropped(running.number)
        with self.changed:
            handle = self._handles.pop(running.number)
            delay = time_s - running.arrived
            result = running.state if outcome is Outcome.DONE else None
            delivery = Delivery(
                handle.name, running.number, result, error, delay, running.iteration, running.error_estimate,
                running.messages, running.nbytes,
            )  # fmt: skip
            handle.iteration = running.iteration
            if outcome is not Outcome.CANCELLED and running.number not in self._silent:
                self._ready[running.number] = delivery
            if error is not None:
                self._unasked[running.number] = error
            self._silent.discard(running.number)
            self.changed.notify_all()
        return handle, delivery

    def worker_up(self, time_s: float, worker: int, place: int) -> None:
        """A worker joined."""
        log.info("worker %d (place %d) is ready", worker, place)
        with self.changed:
            self.changed.notify_all()

    def starved(self, time_s: float, job: int) -> None:
        """No worker is left for a job."""
        # once per job: workers that come and go all the time would fill the log
        if job != self._starved:
            self._starved = job
            log.warning("no worker is left for job %d; it goes on when one joins", job)

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        """A worker was lost."""
        log.warning("worker %d (place %d) is lost: %s; another takes its place", worker, place, reason)

    def round_over(self, seen: RoundSeen) -> None:
        """A round was recovered and its job took a step."""
        log.debug("job %d, iteration %d: %.4f s", seen.job, seen.iteration, seen.end - seen.start)
