"""The public stream: submit jobs, iterate over deliveries."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from threading import Condition, Lock, Thread, current_thread
from types import TracebackType
from typing import Any

from echelon import checks
from echelon.clusters import CLUSTERS, Cluster
from echelon.codes import Code, Decoder
from echelon.errors import ArgumentError, ClusterError
from echelon.jobs import IterativeJob
from echelon.master import Cancelled, Outcome
from echelon.profile import Profile
from echelon.seeds import place_generator
from echelon.splits import SPLITS
from echelon.stream.display import show
from echelon.stream.driver import Driver, Observer, RoundSeen, Running
from echelon.stream.handle import Delivery, Handle, JobFailed
from echelon.stream.journal import Journal
from echelon.stream.pacing import Pacing
from echelon.stream.record import Recorder

log = logging.getLogger("echelon.stream")

PATIENCE_S = 30.0
_START_S = 60.0  # how long workers may take to start
_DECODER_LIMIT = 1e12  # the job's tolerance decides, and not the decoder


class Stream:
    """Jobs in, results out, in order of arrival, whatever the workers do.

    cluster: where to run, a name of `CLUSTERS` or a cluster that is started already (it is closed with the stream).
    workers: how many; by default as many as the machine has processors, or as the profiles say.
    redundancy: coded rows for each row that an iteration needs.
    profile: what is known of the workers; without, the first iteration measures them.
    emulate: let the workers take the times that this profile's laws draw (from `seed`).
    split: how rows are shared out, a name of `SPLITS`. adapt: whether the split follows the workers' speeds.
    patience_s: how long a round may be silent before what it lacks is given out again.
    journal: a file that keeps jobs, states and deliveries; opened again after a crash, the stream goes on from it.
    record: a file that takes the run, for ``echelon report`` and ``echelon trace``.
    progress: whether to show what goes on; by default on a terminal only.

    >>> import numpy as np
    >>> from echelon.jobs import SumJob
    >>> job = SumJob(partial=lambda w, x: x.sum() * w, update=lambda w, total: total / 10, state=1.0,
    ...              chunks=[np.arange(3.0), np.array([7.0])], iterations=3)
    >>> with Stream(cluster="threads", workers=2, redundancy=1.5) as stream:
    ...     round(float(stream.submit(job).result()), 9)
    1.0
    """

    def __init__(
        self,
        cluster: str | Cluster = "processes",
        *,
        workers: int | None = None,
        redundancy: float = 1.1,
        profile: Profile | None = None,
        emulate: Profile | None = None,
        split: str = "theorem2",
        adapt: bool = True,
        patience_s: float = PATIENCE_S,
        journal: str | Path | None = None,
        record: str | Path | None = None,
        progress: bool | None = None,
        seed: int = 1,
    ) -> None:
        self.redundancy = checks.number("redundancy", redundancy, least=1, size=1e3)
        checks.one_of("split", split, SPLITS)
        checks.number("patience_s", patience_s, above=0)
        self.seed = checks.whole("seed", seed, least=0)
        for name, path in (("journal", journal), ("record", record)):
            if path is not None and not isinstance(path, str | Path):
                raise ArgumentError(f"{name}: {path!r} is not allowed; must be the path of a file")
        self._changed = Condition()
        self._handles: dict[int, Handle] = {}  # of jobs that have not ended
        self._ready: deque[Delivery] = deque()
        self._codes: dict[tuple[type, int], tuple[Code, Decoder]] = {}
        self._coding, self._entering = Lock(), Lock()
        self._next = 0
        self._closed = False
        self._broken: BaseException | None = None
        self._cluster = _started(cluster, workers, profile, emulate, self.seed)
        try:
            places = self._cluster.workers
            if profile is not None and len(profile.workers) != places:
                raise ArgumentError(f"profile: {len(profile.workers)} workers; must be {places}, as the cluster has")
            pacing = Pacing(places, split, None if profile is None else profile.speeds, adapt=adapt)
            self._journal = None if journal is None else Journal(Path(journal))
            observers: list[Observer] = [_Deliverer(self)]
            if record is not None:
                names = None if profile is None else profile.names
                observers.append(Recorder(Path(record), places, split, self.redundancy, names))
            self._driver = Driver(self._cluster, pacing, observers, patience=patience_s)
        except BaseException:
            self._cluster.close()
            raise
        self._observers = observers
        self._display = show(self._driver, self._outstanding, progress)
        if self._display is not None:
            observers.append(self._display)
        self._thread = Thread(target=self._drive, name="echelon-stream", daemon=True)
        self._thread.start()
        self._await_workers()
        self.resumed = self._resume()

    @property
    def workers(self) -> int:
        """How many places for workers there are."""
        return self._cluster.workers

    def _await_workers(self) -> None:
        """Wait until all workers are there: a first round with only some of them would be a slow one."""
        with self._changed:
            there = self._changed.wait_for(
                lambda: self._broken is not None or len(self._driver.places) >= self._cluster.workers, _START_S
            )
        if self._broken is not None:
            raise ClusterError(f"no worker could be started: {self._broken}") from self._broken
        if not there:
            log.warning(
                "%d of %d workers are there after %g s", len(self._driver.places), self._cluster.workers, _START_S
            )

    def _drive(self) -> None:
        try:
            self._driver.run()
        except BaseException as error:
            log.exception("the stream broke down")
            self._broken = error
            with self._changed:
                for handle in self._handles.values():
                    handle.future.set_exception(ClusterError(f"the stream broke down: {error}"))
                self._handles.clear()
                self._changed.notify_all()
        finally:
            self._cluster.close()

    # jobs in

    def submit(self, job: IterativeJob) -> Handle:
        """Put a job at the end of the queue and return its handle."""
        if not isinstance(job, IterativeJob):
            raise ArgumentError(f"job: {type(job).__name__} is not allowed; must be a SumJob, a LinearJob or the like")
        self._coded(job)  # may take a while the first time
        with self._entering:  # so that jobs reach the master in the order of their numbers
            if self._broken is not None:
                raise ClusterError(f"the stream broke down: {self._broken}") from self._broken
            if self._closed:
                raise ClusterError("this stream is closed: it takes no more jobs")
            number = self._journal.submitted(job) if self._journal is not None else self._next
            name = f"job {number}" if job.name is None else job.name
            # a copy: the job's own state stays as it is, so that it can be submitted again
            return self._enter(number, name, job, deepcopy(job.state), 0)

    def _enter(self, number: int, name: str, job: IterativeJob, state: Any, iteration: int) -> Handle:
        running = Running(number, name, job, *self._coded(job), state, self._driver.now(), iteration)
        handle = Handle(number, name, job.iterations, self._cancel)
        handle.iteration = iteration
        with self._changed:
            self._next = max(self._next, number + 1)
            self._handles[number] = handle
        self._driver.order(partial(self._driver.submit, running))
        return handle

    def _coded(self, job: IterativeJob) -> tuple[Code, Decoder]:
        """Return the code of a job and its decoder, made once for all jobs of a kind and size."""
        key = (type(job), job.parts)
        with self._coding:
            if key not in self._codes:
                code = job.code(self.redundancy, place_generator(self.seed, 0))
                self._codes[key] = code, Decoder(code, limit=_DECODER_LIMIT)
            return self._codes[key]

    def _resume(self) -> list[Handle]:
        """Enter the jobs that a journal holds and that were not delivered, with their last states."""
        if self._journal is None:
            return []
        handles = []
        for kept in self._journal.undelivered():
            name = f"job {kept.number}" if kept.job.name is None else kept.job.name
            if kept.finished:
                handle = Handle(kept.number, name, kept.job.iterations, self._cancel)
                handle.iteration = kept.iteration
                delivery = Delivery(name, kept.number, kept.state, None, 0.0, kept.iteration, kept.error)
                handle.future.set_result(delivery)
                with self._changed:
                    self._next = max(self._next, kept.number + 1)
                    self._ready.append(delivery)
                handles.append(handle)
            else:
                handles.append(self._enter(kept.number, name, kept.job, kept.state, kept.iteration))
        return handles

    def _cancel(self, number: int) -> None:
        self._driver.order(lambda: self._driver.tell(Cancelled(self._driver.now(), number)))

    # results out

    def deliveries(self) -> Iterator[Delivery]:
        """Yield jobs as they end, in order of arrival, until none is outstanding; cancelled ones are left out.

        Each is yielded once, to whichever loop asks first. With a journal, it is marked as delivered just before.
        """
        while (delivery := self._take(wait=True)) is not None:
            yield delivery

    def __iter__(self) -> Iterator[Delivery]:
        return self.deliveries()

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        while (delivery := await asyncio.to_thread(self._take, True)) is not None:
            yield delivery

    def _take(self, wait: bool) -> Delivery | None:
        with self._changed:
            while wait and not self._ready and self._handles:
                self._changed.wait()
            if self._broken is not None and not self._ready:
                raise ClusterError(f"the stream broke down: {self._broken}") from self._broken
            if not self._ready:
                return None
            delivery = self._ready.popleft()
        if self._journal is not None:
            self._journal.delivered(delivery.number)
        return delivery

    def _outstanding(self) -> list[Handle]:
        with self._changed:
            return list(self._handles.values())

    def _ended(self, running: Running, outcome: Outcome, error: str) -> None:
        """Take in the end of a job; in the driver's thread."""
        failed = None if outcome is not Outcome.FAILED else JobFailed(f"{running.name}: {error}")
        if self._journal is not None and outcome is not Outcome.DONE:
            self._journal.dropped(running.number)
        with self._changed:
            handle = self._handles.pop(running.number)
            delay = self._driver.now() - running.arrived
            result = running.state if outcome is Outcome.DONE else None
            delivery = Delivery(
                handle.name, running.number, result, failed, delay, running.iteration, running.error
            )  # fmt: skip
            handle.iteration = running.iteration
            if outcome is Outcome.CANCELLED:
                handle.drop()
            else:
                handle.future.set_result(delivery)
                self._ready.append(delivery)
            self._changed.notify_all()
        log.info("%s %s after %.3f s, %d iterations", handle.name, outcome.value, delay, running.iteration)

    def _stepped(self, running: Running, finished: bool) -> None:
        self._handles[running.number].iteration = running.iteration
        if self._journal is not None:
            self._journal.stepped(running.number, running.state, running.iteration, running.error, finished)

    # the end

    def close(self, *, wait: bool = True) -> None:
        """Wait for all jobs that are outstanding, or with ``wait=False`` drop them; then stop all workers."""
        if current_thread() is self._thread:
            raise ClusterError("a job's own code can't close the stream that runs it")
        with self._changed:
            while wait and self._handles and self._broken is None:
                self._changed.wait()
        with self._entering:
            if self._closed:
                return
            self._closed = True
        self._driver.stop()
        self._thread.join()
        with self._changed:
            for handle in self._handles.values():
                handle.drop()
            self._handles.clear()
            self._changed.notify_all()
        for observer in self._observers:
            if isinstance(observer, Recorder):
                observer.close()
        if self._display is not None:
            self._display.close()
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(wait=kind is None)


class _Deliverer(Observer):
    """Passes on what a driver tells to its stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def stepped(self, running: Running, finished: bool) -> None:
        self._stream._stepped(running, finished)

    def delivered(self, time_s: float, running: Running, outcome: Outcome, error: str) -> None:
        self._stream._ended(running, outcome, error)

    def worker_up(self, time_s: float, worker: int, place: int) -> None:
        log.info("worker %d (place %d) is there", worker, place)
        with self._stream._changed:
            self._stream._changed.notify_all()

    def starved(self, job: int) -> None:
        log.warning("no worker is left for job %d; it goes on when one joins", job)

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        log.info("worker %d (place %d) is lost: %s", worker, place, reason)

    def round_over(self, seen: RoundSeen) -> None:
        log.debug("job %d, iteration %d: %.4f s", seen.job, seen.iteration, seen.end - seen.start)


def _started(
    cluster: str | Cluster, workers: int | None, profile: Profile | None, emulate: Profile | None, seed: int
) -> Cluster:
    for name, value in (("profile", profile), ("emulate", emulate)):
        if value is not None and not isinstance(value, Profile):
            raise ArgumentError(f"{name}: {value!r} is not allowed; must be a Profile (see read_profile)")
    if not isinstance(cluster, str):
        if isinstance(cluster, type) or not hasattr(cluster, "poll"):
            raise ArgumentError(
                f"cluster: {cluster!r} is not allowed; must be a name ({', '.join(CLUSTERS)}) or a cluster"
            )
        if workers is not None or emulate is not None:
            raise ArgumentError("workers, emulate: not allowed beside a cluster that is started already")
        return cluster
    checks.one_of("cluster", cluster, CLUSTERS)
    if workers is None and emulate is None:
        workers = len(profile.workers) if profile is not None else os.cpu_count() or 1
    return CLUSTERS[cluster](workers, emulate=emulate, seed=seed)
