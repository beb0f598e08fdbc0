"""The public stream: submit jobs, iterate over deliveries."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from echelon import checks
from echelon.closing import Closing
from echelon.clusters import Cluster
from echelon.errors import ArgumentError, ClusterError, JournalError
from echelon.jobs import IterativeJob
from echelon.jobs.base import checked_verify
from echelon.master.machine import Master
from echelon.profile import Profile, Speeds
from echelon.splits import SPLITS
from echelon.stream.coding import Coding
from echelon.stream.defaults import Defaults
from echelon.stream.deliverer import Deliverer
from echelon.stream.display import display
from echelon.stream.driver import Decide, Driver
from echelon.stream.handle import Delivery, Handle
from echelon.stream.intake import Intake
from echelon.stream.journal import Journal
from echelon.stream.kept import Kept
from echelon.stream.monitors import metrics_observer, page_at, page_observer
from echelon.stream.observer import Observer, Observers
from echelon.stream.pacing import Pacing
from echelon.stream.record import Recorder, check_apart
from echelon.stream.shown import line, tables
from echelon.stream.starting import started
from echelon.stream.strategist import Strategist
from echelon.stream.turning import Turning

log = logging.getLogger("echelon.stream")

_START_S = 60.0  # how long workers may take to start
_TURN_S = 0.1  # how long an asynchronous loop waits at a time


class Stream(Closing):
    """Jobs in, results out, in order of arrival, whatever the workers do.

    cluster: where to run, a name of `CLUSTERS` or a cluster that is started already (it is closed with the stream). On
        "virtual" the workers' times are virtual: see `clusters.VirtualCluster`.
    workers: how many; by default as many as the profiles say, or as the cluster has room for.
    redundancy: coded rows per row that an iteration needs. By default none is asked for beforehand: work is shared out
        by speed, idle workers repeat what is late where that pays, and a product with a matrix is encoded with what the
        measured spread of the workers asks for. Where you give it: a sum over P workers then takes about
        1 + P (1 - 1/redundancy) times the work, since every worker computes what its first row combines.
    profile: what is known of the workers; without, the first iteration measures them.
    emulate: let the workers take the times that this profile's laws draw (from `seed`).
    split: how rows are shared out, a name of `SPLITS`.
    strategy: "auto" lets each job without a plan of its own run by what `echelon.search` finds best for these workers,
        as the profile describes them or as earlier jobs showed them; it is asked again when they have changed.
        Redundancy and split are then not used. Advice takes seconds, once for jobs of a kind and size.
    adapt: whether the split follows the workers' speeds.
    overlap: whether workers for which a round has nothing more begin the first iteration of the next job, if one waits;
        jobs are still delivered in order. A round may then have to wait for workers that compute a part of the next
        job, for that part at most, and workers hold the data of two jobs. By default only where advice says that it
        pays.
    verify: whether results are checked before each step, for jobs that do not say so themselves: "spare" waits for rows
        beyond those needed, and finds wrong ones by the code; "vote" has every row computed by two workers, and asks
        a third where they differ. Who sends wrong results is named in the log, and replaced after three such rounds.
    patience_s: how long a round may be silent before what it lacks is given out again. By default that is learnt: what
        a worker owes is given to others, too, when it has been silent for 1.5 times the longest that workers normally
        are (`echelon.master.lateness` has the rule).
    part_timeout_s: how long a worker may be at one row of parts before it is killed and replaced; by default a hundred
        times the median of the job, and never less than a minute. A row that takes too long on three workers fails its
        job. Workers that the operating system has stopped are replaced after a second or two.
    journal: a file that keeps jobs, states and deliveries; opened again after a crash, the stream goes on from it.
        While it can't be written (a full disk), the stream takes no step, and goes on when it can.
    record: a file that takes the run, for ``echelon report`` and ``echelon trace``.
    metrics: a file for counts of what happens, in the text form of OpenMetrics, which Prometheus reads: written whole,
        every five seconds and at the end (docs/guide/metrics.md).
    page: whether to show the stream as a page in a browser: True, a port, or an address and a port ("0.0.0.0:8765",
        which others can reach). Its address, `page_url`, has a token, without which nothing is shown; it is printed.
    observers: objects told of all that happens; see `Observer`.
    progress: whether to show what goes on; by default on a terminal and in a notebook only.

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
        redundancy: float | None = None,
        profile: Profile | None = None,
        emulate: Profile | None = None,
        split: str = "theorem2",
        strategy: str | None = None,
        adapt: bool = True,
        overlap: bool | None = None,
        verify: str | None = None,
        patience_s: float | None = None,
        part_timeout_s: float | None = None,
        journal: str | Path | None = None,
        record: str | Path | None = None,
        metrics: str | Path | None = None,
        page: bool | str = False,
        observers: Sequence[Observer] = (),
        progress: bool | None = None,
        seed: int = 1,
    ) -> None:
        self.redundancy = None if redundancy is None else checks.number("redundancy", redundancy, least=1, size=1e3)
        checks.one_of("split", split, SPLITS)
        if strategy is not None:
            checks.one_of("strategy", strategy, ("auto",))
        if overlap is not None and not isinstance(overlap, bool):
            raise ArgumentError(f"overlap: {overlap!r} is not allowed; must be True, False or None")
        self.verify = checked_verify(verify)
        for name, seconds in (("patience_s", patience_s), ("part_timeout_s", part_timeout_s)):
            if seconds is not None:
                checks.number(name, seconds, above=0)
        self.seed = checks.whole("seed", seed, least=0)
        for name, path in (("journal", journal), ("record", record), ("metrics", metrics)):
            if path is not None and not isinstance(path, str | Path):
                raise ArgumentError(f"{name}: {path!r} is not allowed; must be the path of a file")
        check_apart(journal=journal, record=record, metrics=metrics)
        checks.flag("adapt", adapt)
        where = page_at(page)
        if progress is not None:
            checks.flag("progress", progress)
        observers = checks.items("observers", observers)
        for observer in observers:
            if not isinstance(observer, Observer):
                raise ArgumentError(f"observers: {observer!r} is not allowed; must be an Observer")
        coding = Coding(self.redundancy, self.seed)
        self._cluster = started(cluster, workers, profile, emulate, self.seed)
        with ExitStack() as undo:
            undo.callback(self._cluster.close)
            places = self._cluster.workers
            if profile is not None and len(profile.workers) != places:
                raise ArgumentError(f"profile: {len(profile.workers)} workers; must be {places}, as the cluster has")
            self._pacing = pacing = Pacing(places, split, None if profile is None else profile.speeds, adapt=adapt)
            self._journal = None if journal is None else Journal(Path(journal))
            if self._journal is not None:
                undo.callback(self._journal.close)
            self._out = Deliverer(self._journal)
            self._told = Observers(self._out)
            undo.callback(self._told.close)
            names = self._names = self._cluster.names if profile is None else profile.names
            if record is not None:
                self._told.add(Recorder(Path(record), places, split, self.redundancy, names))
            if metrics is not None:
                self._told.add(metrics_observer(metrics, names))
            for observer in observers:
                self._told.add(observer)
            defaults = Defaults(pacing, coding.at) if self.redundancy is None else None
            decide = self._decider(patience_s)
            self._driver = Driver(self._cluster, decide, pacing, self._told, defaults, part_timeout_s)
            strategist = None if strategy is None else Strategist(profile, pacing, self.seed)
            self._intake = Intake(
                self._driver, self._out, coding, strategist, self._journal,
                workers=places, verify=self.verify, overlap=overlap,
            )  # fmt: skip
            self.page_url = None if where is None else self._show_page(where, names, split)
            undo.pop_all()
        self._turning = Turning(self._driver, self._cluster, self._out.break_down)
        self.pass_time = self._out.pass_time = self._turning.pass_time
        try:
            shown = display(progress, self._driver, names, fixed=self._cluster.fixed)
            if shown is not None:
                self._told.add(shown)
            self._await_workers()
            self.resumed = self._intake.resume()
        except BaseException:
            self.close(wait=False)
            raise

    def _decider(self, patience_s: float | None) -> Decide:
        """Return the function that decides: takes an event, and returns what to do."""
        return Master(patience=patience_s).handle

    def _show_page(self, where: tuple[str, int], names: Sequence[str], split: str) -> str:
        """Show the stream as a page from now on; return its address."""
        page = page_observer(
            where, names, now=self._driver.now, expected=lambda: self._pacing.expected, virtual=self._cluster.virtual,
            cluster=type(self._cluster).__name__, split=split, redundancy=self.redundancy,
        )  # fmt: skip
        self._told.add(page)
        url: str = page.url
        return url

    def __repr__(self) -> str:
        where, jobs = type(self._cluster).__name__, len(self._out.outstanding())
        return f"<{line(where, len(self._there()), self.workers, jobs, closed=self._out.closed)}>"

    def _repr_html_(self) -> str:
        return tables(repr(self)[1:-1], self._names, self._there(), self.speeds(), self._out.outstanding())

    def _there(self) -> set[int]:
        return set() if self._out.closed else set(self._driver.places.copy().values())

    @property
    def virtual(self) -> bool:
        """Whether the stream's time passes only while a thread waits for it."""
        return self._cluster.virtual

    def now(self) -> float:
        """Return seconds since the stream opened, by its own clock."""
        return self._driver.now()

    def sleep(self, seconds: float) -> None:
        """Let this much of the stream's time pass."""
        checks.number("seconds", seconds, least=0)
        if self._cluster.virtual:
            self.pass_time(lambda: False, seconds)
        else:
            time.sleep(seconds)

    @property
    def workers(self) -> int:
        """How many places for workers there are."""
        return self._cluster.workers

    def speeds(self) -> Speeds | None:
        """Return means, deviations and links of all places, per part, as believed now; None before a round showed any.

        From any thread. For work that is unlike what was done before, only their relations count.
        """
        return self._pacing.speeds() if self._pacing.known else None

    def watch(self, observer: Observer) -> Callable[[], None]:
        """Tell an observer of all that happens from now on; return a function that ends that. From any thread.

        >>> with Stream("threads", workers=1) as stream:
        ...     forget = stream.watch(Observer())
        ...     forget()
        """
        checks.instance("observer", observer, Observer)
        self._driver.order(partial(self._told.add, observer))
        return partial(self._driver.order, partial(self._told.remove, observer))

    @property
    def one_host(self) -> bool:
        """Whether all workers are on this machine, and share its devices' memory."""
        return self._cluster.one_host

    @property
    def taken(self) -> int:
        """How many jobs the journal ever received, including those of earlier runs; 0 without a journal."""
        return 0 if self._journal is None else self._journal.taken()

    def pack(self, value: Any) -> Any:
        """Return a copy of a value that workers can be given at once; from any thread."""
        return self._cluster.pack(value)

    def _await_workers(self) -> None:
        """Wait until all workers are ready: a first round with only some of them would be a slow one."""
        out = self._out

        def settled() -> bool:
            return out.broken is not None or len(self._driver.places) >= self._cluster.workers

        left = self.pass_time(settled, _START_S)
        with out.changed:
            there = out.changed.wait_for(settled, left)
        if out.broken is not None:
            raise ClusterError(f"no worker could be started: {out.broken}") from out.broken
        if not there:
            log.warning(
                "%d of %d workers are ready after %g s", len(self._driver.places), self._cluster.workers, _START_S
            )

    # jobs in

    def submit(self, job: IterativeJob, *, deliver: bool = True, key: str | None = None) -> Handle:
        """Put a job at the end of the queue and return its handle.

        deliver: whether it appears in `deliveries`; the handle has its result in any case.
        key: makes the job once only. If a job was submitted under this key that has not ended, its handle is returned,
            and no other job is made; with a journal also if it has, in this or in an earlier run: then the handle has
            its result. A job that failed or was cancelled gives its key free when that was told.
        """
        return self._intake.submit(job, deliver=deliver, key=key)

    def keep(self, job: IterativeJob) -> Kept:
        """Return the job as one whose data goes to the workers once, run from one state after another.

        >>> import numpy as np
        >>> from echelon.jobs import LinearJob
        >>> job = LinearJob(matrix=np.eye(2), update=lambda state, product: product, state=None, parts=2, iterations=1)
        >>> with Stream(cluster="threads", workers=2) as stream, stream.keep(job) as product:
        ...     [product.run(np.full(2, x)).sum().round(9) for x in (1.0, 2.0)]
        [np.float64(2.0), np.float64(4.0)]
        """
        return self._intake.keep(job)

    # results out

    def deliveries(self, *, save: Callable[[Delivery], None] | None = None) -> Iterator[Delivery]:
        """Yield jobs as they end, in order of arrival, until none is outstanding; cancelled ones are left out.

        Each is yielded once, to the loop that asks first. With a journal, it is marked as delivered just before, and
        one that was taken through its handle is not yielded.

        save: called with each delivery before it is marked; what it raises ends the loop, and the delivery comes again,
            in the next run, too. So what it writes is written at least once, whenever the program dies.
        """
        while self._out.wait(None):
            delivery = self._out.take(save)
            if delivery is not None:
                yield delivery

    def __iter__(self) -> Iterator[Delivery]:
        return self.deliveries()

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        # only the waiting is done in another thread, in short turns: a loop that stops loses nothing
        while await asyncio.to_thread(self._out.wait, None if self.virtual else _TURN_S):
            delivery = self._out.take()
            if delivery is not None:
                yield delivery

    # the end

    def close(self, *, wait: bool = True) -> None:
        """Wait for all outstanding jobs, or with ``wait=False`` drop them; then stop all workers.

        A journal that can't be written is waited for, too, about half a minute; then a `JournalError` says so.
        """
        if self._turning.mine:
            raise ClusterError("a job's own code can't close the stream that runs it")
        if wait:
            self._out.wait_for_all()
        if not self._intake.close():
            return
        with ExitStack() as ends:
            ends.callback(self._out.warn_of_unasked)
            ends.callback(self._out.drop_all)
            if self._journal is not None:
                ends.callback(self._journal.close)
            ends.callback(self._told.close)
            self._driver.stop()
            self._turning.join()
            unkept = self._out.unkept(self._driver.unkept_jobs)
        if wait:
            self._out.check_whole()
        if unkept and wait:
            raise JournalError(unkept)
        if unkept:
            log.warning(unkept)

    def _leave(self, *, well: bool) -> None:
        self.close(wait=well)
