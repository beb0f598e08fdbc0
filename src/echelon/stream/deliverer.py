"""The way out of a stream: outstanding jobs, and deliveries that wait to be taken, in order."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Condition

from echelon.errors import ArgumentError, ClusterError, JobFailed, JournalError, JournalFull
from echelon.master.actions import Outcome
from echelon.stream.handle import Delivery, Handle, PassTime
from echelon.stream.journal import Journal
from echelon.stream.observer import Observer, RoundSeen, Running
from echelon.stream.ready import Ready

log = logging.getLogger("echelon.stream")

_WARNINGS = 10  # failed jobs that are named when nobody asked about them
PATIENCE = 9  # refusals in a row after which `close` waits no longer for a full journal
_FIRST_S, _MOST_S = 0.1, 10.0  # how long to wait before a mark is tried again


class Deliverer(Observer):
    """Takes what a driver reports of jobs and workers, in its thread; hands out deliveries to any other.

    changed: notified of everything that a thread may wait for.
    broken: the error that ended the stream early.
    closed: whether the user ended it.
    pass_time: lets the stream's time pass until a condition holds; set before any wait.
    full: what a journal said that can't be written just now.

    With a journal a job is handed over once, by `take` or by its handle (`took`), and marked just before.
    """

    pass_time: PassTime

    def __init__(self, journal: Journal | None) -> None:
        self.changed = Condition()
        self.broken: BaseException | None = None
        self.closed = False
        self._journal = journal
        self._handles: dict[int, Handle] = {}  # of jobs that have not ended
        self._silent: set[int] = set()  # those left out of the deliveries
        self._decided: dict[int, bool] = {}  # of jobs about to end, whether they were cancelled
        self._unasked: dict[int, JobFailed] = {}  # failures that no caller has seen
        self._keys: dict[str, int] = {}  # of jobs that have not ended
        self._ready = Ready(journal)
        self._unseen: set[int] = set()  # of the silent ones, those that ended and that nobody asked for
        self._unmarked: set[int] = set()  # handed over, and a full journal does not know of it yet
        self.full: JournalFull | None = None
        self._refusals, self._pause_s = 0, 0.0
        self._starved = -1

    # for those that wait for results

    def expect(self, handle: Handle, *, deliver: bool, key: str | None = None) -> None:
        """Note a job that comes in, whether it is among the deliveries, and under which key."""
        with self.changed:
            self.check_whole()
            if not deliver:
                self._silent.add(handle.number)
            self._handles[handle.number] = handle
            if key is not None:
                self._keys = {known: number for known, number in self._keys.items() if number in self._handles}
                self._keys[key] = handle.number

    def under(self, key: str) -> Handle | None:
        """Return the handle of the job under this key that has not ended, if there is one."""
        with self.changed:
            return self._handles.get(self._keys.get(key, -1))

    def add(self, delivery: Delivery) -> None:
        """Add a delivery that a journal held; it is handed out after those of all jobs before it."""
        with self.changed:
            self._ready.add(delivery)
            self.changed.notify_all()

    def _next(self) -> int | None:
        """Return the number of the next delivery, or None while an earlier job is still outstanding."""
        first = self._ready.first()
        earlier = next((number for number in self._handles if number not in self._silent), None)
        return None if first is None or (earlier is not None and earlier < first) else first

    def wait(self, timeout_s: float | None) -> bool:
        """Wait for a delivery, or until none is expected; return whether one is."""
        if self._pause_s:  # a full journal did not take the last mark
            self._wait_for(lambda: self.closed, self._pause_s if timeout_s is None else min(self._pause_s, timeout_s))
        timeout_s = self.pass_time(self._settled, timeout_s)
        with self.changed:
            self.changed.wait_for(self._settled, timeout_s)
            if self._next() is None:
                self.check_whole()
            return bool(self._ready or self._awaited())

    def _wait_for(self, condition: Callable[[], bool], timeout_s: float | None) -> None:
        timeout_s = self.pass_time(condition, timeout_s)
        with self.changed:
            self.changed.wait_for(condition, timeout_s)

    def _settled(self) -> bool:
        with self.changed:
            return (self._next() is not None and not self._ready.claimed) or not self._awaited()

    def _idle(self) -> bool:
        with self.changed:
            return not self._handles or self.broken is not None or self._refusals >= PATIENCE

    def _awaited(self) -> bool:
        """Return whether a job is outstanding, or being handed over, that may be among the deliveries."""
        return len(self._handles) > len(self._silent) or self._ready.claimed

    def take(self, save: Callable[[Delivery], None] | None = None) -> Delivery | None:
        """Return the next delivery, if one is there, marked as delivered before it leaves the queue.

        save: called with it before that; what it raises leaves the delivery in the queue.
        While a full journal does not take the mark, None is returned, and `wait` lets some time pass.
        """
        with self.changed:
            number = self._next()
            if number is not None and self._journal is not None and self.closed:
                raise ClusterError("the stream is closed: open its journal again for what was not taken")
            delivery = None if number is None else self._ready.claim(number)
        if delivery is None:
            return None
        taken = False
        try:
            whole = self._read(delivery)
            if whole is not None:
                if save is not None:
                    save(whole)
                self._mark(delivery.number)
            taken, self._pause_s = True, 0.0
            self._unasked.pop(delivery.number, None)
            return whole
        except JournalFull:
            self._pause_s = min(_MOST_S, 2 * self._pause_s or _FIRST_S)
            return None
        finally:
            self._settle(delivery.number, taken=taken)

    def took(self, delivery: Delivery) -> Delivery:
        """Return the delivery that a handle has, with its result, and marked as delivered if it was not before."""
        number = delivery.number
        with self.changed:
            self._unasked.pop(number, None)
        if self._journal is None:
            return delivery
        whole = self._ready.whole(delivery)
        with self.changed:
            claimed, unseen = self._ready.claim(number) is not None, number in self._unseen
            self._unseen.discard(number)
        if not claimed and not unseen:
            return whole
        try:
            self._mark(number)
        except JournalFull:
            self._unmarked.add(number)
        except (ArgumentError, JournalError) as error:
            log.warning("job %d comes again with the journal, though its result was taken: %s", number, error)
        if claimed:
            self._settle(number, taken=True)
        return whole

    def _settle(self, number: int, *, taken: bool) -> None:
        with self.changed:
            self._ready.settle(number, taken=taken)
            self.changed.notify_all()

    def _read(self, delivery: Delivery) -> Delivery | None:
        """Return a delivery with its result; None if that can't be read: then its job is set aside."""
        try:
            return self._ready.whole(delivery)
        except JournalError as error:
            self.set_aside(delivery.number, str(error))
            return None

    def _mark(self, number: int) -> None:
        if self._journal is None:
            return
        with self._keeping(), self._ready.opened() as journal:
            journal.delivered(number)

    def set_aside(self, number: int, reason: str) -> None:
        """Leave a job of the journal out, and say so; the others go on."""
        assert self._journal is not None
        log.warning(
            "job %d is set aside: %s; 'echelon journal %s' lists, retries, exports and drops such jobs",
            number, reason, self._journal.path,
        )  # fmt: skip
        with suppress(JournalFull), self._keeping():  # else it is tried, and set aside, again
            self._journal.set_aside(number, reason)

    def unkept(self, jobs: set[int]) -> str:
        """Return what a full journal lacks at the end of a stream, after a last try; of `jobs` it does not have all."""
        if self._unmarked:
            with suppress(JournalFull), self._keeping():
                pass
        listed = ", ".join(map(str, sorted(jobs | self._unmarked)))
        return listed and (
            f"{self.full}: what became of job {listed} last is not in it; when it is opened again, what it has goes on"
        )

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        """Note whether the journal takes what is written to it, and tell it what it did not take before."""
        try:
            for number in sorted(self._unmarked):
                with self._ready.opened() as journal:
                    journal.delivered(number)
                self._unmarked.discard(number)
            yield
        except JournalFull as error:
            if self.full is None:
                log.warning("%s: the stream takes no step before it is, and tries again", error)
            with self.changed:
                self.full, self._refusals = error, self._refusals + 1
                self.changed.notify_all()
            raise
        if self.full is not None:
            log.info("the journal can be written again: the stream goes on")
            self.full, self._refusals = None, 0

    def withdraw(self, number: int) -> bool:
        """Leave a job out from now on, because it was cancelled; return whether it was still expected."""
        with self.changed:
            if number not in self._handles or self._decided.get(number):
                return False
            self._decided[number] = True
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
        """Wait until no job is outstanding, the stream broke down, or its journal has been full for long."""
        self._wait_for(self._idle, None)

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
            return [handle for handle in left if not self._decided.get(handle.number)]

    def check_whole(self) -> None:
        """Raise if the stream broke down."""
        if self.broken is not None:
            what = "; its jobs go on when the journal is opened again" if self._journal is not None else ""
            raise ClusterError(f"the stream broke down: {self.broken}{what}") from self.broken

    # what a driver reports

    def stepped(self, running: Running, seen: RoundSeen, finished: bool) -> None:
        """A job has a new state."""
        if self._journal is not None:
            with self._keeping():
                self._journal.stepped(
                    running.number,
                    running.state,
                    running.iteration,
                    running.error_estimate,
                    running.residual,
                    finished,
                )
        self._handles[running.number].iteration = running.iteration

    def delivered(self, time_s: float, running: Running, outcome: Outcome, error: JobFailed | None) -> None:
        """A job ended. Told again, by what a full journal did not take, it only writes that."""
        with self.changed:
            if self._decided.setdefault(running.number, outcome is Outcome.CANCELLED):
                outcome, error = Outcome.CANCELLED, None
        if self._journal is not None and error is not None:
            with self._keeping():
                self._journal.failed(running.number, str(error))
        if running.number in self._handles:
            outcome = self._end(time_s, running, outcome, error)
        # last: who cancels a job need not wait for a disk
        if self._journal is not None and outcome is Outcome.CANCELLED:
            with self._keeping():
                self._journal.dropped(running.number)
        del self._decided[running.number]

    def _end(self, time_s: float, running: Running, outcome: Outcome, error: JobFailed | None) -> Outcome:
        """Let go of a job, and tell its handle; return how it ended."""
        with self.changed:
            if self._decided[running.number]:  # a cancel comes before this, or too late
                outcome, error = Outcome.CANCELLED, None
            handle = self._handles.pop(running.number)
            delay = time_s - running.arrived
            result = running.state if outcome is Outcome.DONE else None
            delivery = Delivery(
                handle.name, running.number, result, error, delay, running.iteration, running.error_estimate,
                running.messages, running.nbytes, running.residual, running.left_out,
            )  # fmt: skip
            handle.iteration = running.iteration
            if outcome is not Outcome.CANCELLED and running.number not in self._silent:
                self._ready.add(delivery)
            if error is not None:
                self._unasked[running.number] = error
            if running.number in self._silent:
                self._silent.discard(running.number)
                self._unseen.update({running.number} if self._journal is not None else ())
            self.changed.notify_all()
        # outside the lock: callbacks of the future may do anything
        if outcome is not Outcome.CANCELLED:
            handle.finish(delivery)
        log.info("%s %s after %.3f s, %d iterations", handle.name, outcome.value, delay, running.iteration)
        return outcome

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
