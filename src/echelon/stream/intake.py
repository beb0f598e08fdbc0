"""The way into a stream: jobs are checked, planned, numbered and entered, and those of a journal resumed."""

from copy import deepcopy
from functools import partial
from threading import Lock
from typing import Any

from echelon.codes import NO_ERROR, ErrorEstimate
from echelon.errors import ArgumentError, ClusterError
from echelon.jobs import IterativeJob
from echelon.master.events import Cancelled
from echelon.schemes import CodedPlan
from echelon.stream.coding import Coding
from echelon.stream.deliverer import Deliverer
from echelon.stream.driver import Driver
from echelon.stream.handle import Delivery, Handle
from echelon.stream.journal import Entry, Journal
from echelon.stream.kept import Kept, Store
from echelon.stream.observer import Running
from echelon.stream.ready import delivery_of
from echelon.stream.strategist import Strategist
from echelon.stream.verifying import check_choice

_LONGEST_KEY = 1000


class Intake:
    """Takes jobs in for a driver, one at a time, from any thread.

    out: where their handles wait for what comes of them.
    strategist: chooses plans, and whether jobs overlap where the caller left that to it (`overlap` None).
    workers: how many places the stream has.
    verify: how results are checked, of jobs that don't say so themselves.
    """

    def __init__(
        self,
        driver: Driver,
        out: Deliverer,
        coding: Coding,
        strategist: Strategist | None,
        journal: Journal | None,
        *,
        workers: int,
        verify: str | None,
        overlap: bool | None,
    ) -> None:
        self._driver, self._out, self._coding = driver, out, coding
        self._strategist, self._journal = strategist, journal
        self._workers, self._verify, self._overlap = workers, verify, overlap
        driver.overlap = bool(overlap)
        self._entering = Lock()
        self._next = 0

    def close(self) -> bool:
        """Take no more jobs; return whether this call was the one that closed."""
        with self._entering:
            open_until_now = not self._out.closed
            self._out.closed = True
        return open_until_now

    def submit(self, job: IterativeJob, *, deliver: bool, key: str | None) -> Handle:
        """See `Stream.submit`."""
        self._check(job)
        if key is not None and (not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY):
            raise ArgumentError(f"key: {key!r} is not allowed; must be a text of 1 to {_LONGEST_KEY} characters")
        with self._entering:
            self._check_open()
            known = self._under(key)
        if known is not None:
            return known
        plan = self._plan(job)
        with self._entering:  # so that jobs reach the master in the order of their numbers
            self._check_open()
            known = self._under(key)  # by now, perhaps
            if known is not None:
                return known
            # a copy: the job's own state stays as it is, so that it can be submitted again
            state = deepcopy(job.state)
            number = self._journal.submitted(job, key=key) if self._journal is not None else self._next
            return self._enter(number, job, state, Store(plan), deliver=deliver, key=key)

    def keep(self, job: IterativeJob) -> Kept:
        """See `Stream.keep`."""
        self._check(job)
        if not job.restarts:
            raise ArgumentError(f"job: {type(job).__name__} is not allowed; must be one that begins with a state")
        if self._journal is not None:
            raise ArgumentError(
                "stream: one with a journal is not allowed for what is asked again and again (gradients, operators), "
                "which a journal does not record; must be one without (train has checkpoint= to go on from)"
            )
        return Kept(job, self._plan, self._submit_kept, self._drop_kept)

    def resume(self) -> list[Handle]:
        """Enter the jobs that a journal holds and that were not delivered, with their last states."""
        if self._journal is None:
            return []
        handles = []
        for entry in self._journal.undelivered():
            if entry.status != "open":
                delivery = delivery_of(entry)
                handles.append(self._ended(entry, delivery))
                self._out.add(delivery)
                continue
            try:
                kept = self._journal.load(entry.number)
                self._check(kept[0])
                store = Store(self._plan(kept[0]))
            except Exception as error:  # one job that can't go on here does not hold up the others
                self._out.set_aside(entry.number, str(error))
                continue
            handles.append(
                self._enter(entry.number, *kept, store, entry.iteration, entry.error, entry.residual, key=entry.key)
            )
        return handles

    def _check(self, job: IterativeJob) -> None:
        if not isinstance(job, IterativeJob):
            raise ArgumentError(f"job: {type(job).__name__} is not allowed; must be a SumJob, a LinearJob or the like")
        if job.plan is not None and len(job.plan.lanes) != self._workers:
            raise ArgumentError(
                f"plan: {len(job.plan.lanes)} lanes; must be {self._workers}, one per worker of the stream"
            )
        if job.workers not in (None, self._workers):
            raise ArgumentError(f"job: it is for {job.workers} workers; the stream has {self._workers}")

    def _check_open(self) -> None:
        self._out.check_whole()
        if self._out.closed:
            raise ClusterError("this stream is closed: it takes no more jobs")

    def _under(self, key: str | None) -> Handle | None:
        """Return the handle of the job that was submitted under a key before, if there is one."""
        handle = None if key is None else self._out.under(key)
        if handle is not None or key is None or self._journal is None:
            return handle
        entry = self._journal.find(key)
        return None if entry is None else self._ended(entry, delivery_of(entry))

    def _plan(self, job: IterativeJob) -> CodedPlan | None:
        """Return the plan of a job, if it has one; also makes its code, which may take long."""
        plan = job.plan if self._strategist is None else self._strategist.plan(job)
        if self._strategist is not None and self._overlap is None:
            self._driver.overlap = self._strategist.overlap
        _, decoders = self._coding.of(job, plan)
        check_choice(self._verify_of(job), job, decoders, plan, self._workers)
        return plan

    def _verify_of(self, job: IterativeJob) -> str | None:
        """Return how a job's results are checked: its own choice comes first."""
        return self._verify if job.verify is None else job.verify

    def _drop_kept(self, store: Store) -> None:
        self._driver.order(partial(self._driver.forget, store))

    def _submit_kept(self, job: IterativeJob, state: Any, store: Store) -> Handle:
        with self._entering:
            self._check_open()
            return self._enter(self._next, job, state, store, deliver=False)

    def _enter(
        self,
        number: int,
        job: IterativeJob,
        state: Any,
        store: Store,
        iteration: int = 0,
        error: ErrorEstimate = NO_ERROR,
        residual: float = 0.0,
        deliver: bool = True,
        key: str | None = None,
    ) -> Handle:
        codes, decoders = self._coding.of(job, store.plan)
        handle = self._handle(number, job.name, job.iterations, iteration)
        running = Running(number, handle.name, job, codes, decoders, state, self._driver.now(), store, iteration, error)
        running.residual = residual
        running.verify = self._verify_of(job)
        self._out.expect(handle, deliver=deliver, key=key)
        self._driver.order(partial(self._driver.submit, running))
        return handle

    def _ended(self, entry: Entry, delivery: Delivery) -> Handle:
        """Return a handle of a job that has ended, as the journal says."""
        handle = self._handle(entry.number, entry.name, entry.iteration, entry.iteration)
        handle.finish(delivery)
        return handle

    def _handle(self, number: int, name: str | None, iterations: int | None, iteration: int) -> Handle:
        self._next = max(self._next, number + 1)
        name = f"job {number}" if name is None else name
        return Handle(number, name, iterations, self._cancel, self._out.pass_time, iteration, self._out.took)

    def _cancel(self, number: int) -> bool:
        found = self._out.withdraw(number)
        if found:
            self._driver.order(lambda: self._driver.tell(Cancelled(self._driver.now(), number)))
        return found
