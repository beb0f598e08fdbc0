"""One schedule: a program that submits, cancels, reads and closes, is killed and started again, until all jobs end.

After each it is checked that every job was delivered once and in order, with the state that one process computes; that
what the journal held after every crash is a state of the serial run; that the record adds up to what was delivered;
that every handle ended; and that all memory of messages was given back, once.
"""

import errno
import os
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from bench.chaos.products import run_products
from bench.chaos.watch import NeverEnds, Notes, WatchedCluster, WatchedStream
from bench.chaos.world import World, drawn, faults
from echelon.clusters.faults import Endless, MasterCrash, MasterKilled, Raise
from echelon.clusters.pace import Pace
from echelon.codes import ErrorEstimate
from echelon.delays import Exponential
from echelon.errors import JournalError, JournalFull
from echelon.seeds import place_generator
from echelon.stream import Delivery, Journal, read_record

READS = 12  # times that a life looks at its deliveries before the end
PRODUCTS = 10  # one in this many schedules also has a stream of products
LIVES = 6  # after which the master is no longer killed
LONG_S = 5e5  # virtual seconds after which a job counts as stuck: some days, since the first task may take one
OVERRAN = "took too long on 3 workers"
MEMORY = "/dev/shm"  # where files cost least, on Linux


@dataclass
class Tally:
    """Totals over schedules."""

    schedules: int = 0
    lives: int = 0
    events: int = 0


@dataclass
class Seen:
    """What is known about a schedule, over all lives of its program."""

    deliveries: list[Delivery] = field(default_factory=list)
    by_handle: list[Delivery] = field(default_factory=list)  # taken through their handles
    asked: set[int] = field(default_factory=set)  # jobs whose cancellation may have been under way when the master died
    cancelled: set[int] = field(default_factory=set)
    errors: dict[int, list[float]] = field(default_factory=dict)
    raised: bool = False
    endless: bool = False


def run_schedule(seed: int, tally: Tally | None = None) -> None:
    """Run one schedule; raise where anything is wrong."""
    if seed % PRODUCTS == 0:
        run_products(seed)
    world = drawn(seed)
    with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None) as folder:
        program = Program(world, Path(folder))
        while not program.over:
            program.live()
        program.check_end()
    if tally is not None:
        tally.schedules += 1
        tally.lives += program.lives
        tally.events += program.events


class Program:
    """A user's program that works off a schedule, in as many lives as it takes."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.seen = world, Seen()
        self.lives = self.events = 0
        self.over = False
        self._journal = folder / "journal" if world.journalled else None
        self._folder = folder
        self._first = 1 if world.journalled else 0  # number of the first job

    def live(self) -> None:
        """Live once: from the journal as it is to the end, or until killed."""
        self.lives += 1
        assert self.lives < 3 * LIVES, "a program that is killed for ever"
        world, record = self.world, self._folder / f"record-{self.lives}"
        rng = np.random.default_rng([world.seed, self.lives])
        crashes = self._journal is not None and self.lives < LIVES
        trouble = faults(rng, places=world.places, horizon=20.0, crashes=crashes, liar=world.liar)
        self.seen.raised |= any(isinstance(incident, Raise) for incident in trouble.incidents)
        self.seen.endless |= any(isinstance(incident, Endless) for incident in trouble.incidents)
        paces = [
            Pace(Exponential(rate=1 / mean), link, place_generator(world.seed, place))
            for place, (mean, link) in enumerate(zip(world.means, world.links, strict=True))
        ]
        cluster = WatchedCluster(
            paces=paces, faults=trouble, costs=world.costs, stay_bytes=world.stay_bytes,
            harm=np.random.default_rng([world.seed, self.lives, 1]),
        )  # fmt: skip
        notes = Notes(cluster, self.seen.errors)
        stream: WatchedStream | None = None
        try:
            stream = object.__new__(WatchedStream)
            stream.__init__(  # by hand: a stream half made when the master dies must be reachable
                cluster, journal=self._journal, record=record, observers=[notes], progress=False, **world.options
            )
            Life(self, stream, cluster, rng).run()
            self._check_record(record, stream)
        except MasterKilled:
            assert any(isinstance(incident, MasterCrash) for incident in trouble.incidents)
        finally:
            if stream is not None:
                self.events += stream.rows.events if hasattr(stream, "rows") else 0
                bury(stream)
        assert not notes.wrong, notes.wrong
        self._check_journal()
        if record.exists() and stream is not None:
            self._check_torn_record(record, getattr(stream, "began_at", {}))

    def _check_state(self, number: int, iteration: int, state: Any, residual: float) -> None:
        """Compare the state of a job after some iterations with that of one process, or with what was told of it."""
        states = self.world.jobs[number - self._first].states
        _same(state, residual if states is None else states[iteration])
        assert residual == 0.0 or states is None, f"job {number} is exact, and told to be off by {residual}"

    def take(self, delivery: Delivery) -> None:
        """Take a delivery as a user would, and check it."""
        self.seen.deliveries.append(delivery)
        numbers = [one.number for one in self.seen.deliveries]
        assert numbers == sorted(set(numbers)), f"out of order, or twice: {numbers}"
        self.check(delivery)

    def check(self, delivery: Delivery) -> None:
        """Check a delivery, taken by the loop or through its handle."""
        numbers = [one.number for one in (*self.seen.deliveries, *self.seen.by_handle)]
        assert len(numbers) == len(set(numbers)), f"taken by the loop and through its handle: {numbers}"
        planned = self.world.jobs[delivery.number - self._first]
        if delivery.error is not None:
            text = str(delivery.error)
            overran = self.seen.endless and OVERRAN in text
            assert overran or (self.seen.raised and "raised on purpose" in text), delivery
            return
        assert delivery.iterations == planned.job.iterations, delivery
        assert delivery.error_estimate == reduce(ErrorEstimate.worst, self.seen.errors[delivery.number]), delivery
        self._check_state(delivery.number, delivery.iterations, delivery.result, delivery.residual)
        assert delivery.residual < 1 or planned.job.unbiased, "a round ended with nothing"
        assert np.isfinite(delivery.residual), delivery

    def _check_journal(self) -> None:
        """Compare the journal with a serial run, and with what was delivered."""
        if self._journal is None or not self._journal.exists():
            return
        journal = Journal(self._journal)
        try:
            taken = [*self.seen.deliveries, *self.seen.by_handle]
            done = {one.number for one in taken} | self.seen.cancelled
            for kept in journal.undelivered():
                assert kept.number not in done, f"job {kept.number} was delivered or cancelled, and goes on"
                job, state = journal.load(kept.number)
                self._check_state(kept.number, kept.iteration, state, kept.residual)
                assert (kept.status == "finished") == (kept.iteration == job.iterations), kept
                assert kept.status != "failed" or self.seen.raised or (self.seen.endless and OVERRAN in kept.reason), (
                    kept
                )
                if kept.status == "failed" and kept.number % 2 and not self.over:
                    journal.retry(kept.number)  # as a user may: it goes on, next to later ones that are finished
                assert kept.iteration == len(self.seen.errors.get(kept.number, [])), kept
            for one in taken:
                if one.error is None:
                    _same(journal.result(one.number), one.result)
        finally:
            journal.close()

    def _check_record(self, path: Path, stream: Any) -> None:
        """Add up the record of a life that ended well."""
        record = read_record(path)
        for one in stream.delivered_here:
            rounds = [seen for seen in record.rounds if seen.job == one.number]
            assert record.outcomes[one.number] == ("done" if one.error is None else "failed"), one
            if one.error is None:
                assert len(rounds) == one.iterations - stream.began_at[one.number], one
                assert sum(len(seen.messages) + seen.came for seen in rounds) == one.messages, one

    def _check_torn_record(self, path: Path, began_at: dict[int, int]) -> None:
        """No round is on record that its job did not take, however a life ended."""
        rounds = Counter(seen.job for seen in read_record(path).rounds)
        for job, count in rounds.items():
            taken = len(self.seen.errors.get(job, []))
            assert count <= taken - began_at.get(job, 0), f"{count} rounds of job {job} on record, {taken} were taken"

    def check_end(self) -> None:
        """Every job was delivered or cancelled; nothing is left in the journal."""
        ended = {one.number for one in (*self.seen.deliveries, *self.seen.by_handle)}
        assert not ended & self.seen.cancelled, "delivered, and cancelled"
        if self._journal is not None:
            left = set(range(1, len(self.world.jobs) + 1)) - ended - self.seen.cancelled - self.seen.asked
            assert not left, f"jobs {left} are lost"


class Life:
    """What the program does between two starts."""

    def __init__(self, program: Program, stream: Any, cluster: WatchedCluster, rng: np.random.Generator) -> None:
        self._program, self._world, self._stream, self._cluster, self._rng = (
            program, program.world, stream, cluster, rng,
        )  # fmt: skip
        stream.delivered_here, stream.began_at = [], {}
        self._handles: dict[int, Any] = {}
        self._recording, self._full = True, False
        first = program.lives == 1
        self._closes = self._world.closes if first else None
        self._full_journal = self._world.full_journal if program.lives <= 2 else None
        self._full_record = self._world.full_record if first else None

    def run(self) -> None:
        """Do everything in its time, then wait for what is left and close."""
        stream, program = self._stream, self._program
        for handle in stream.resumed:
            self._enter(handle)
        due = [(max(planned.arrives if program.lives == 1 else 0.0, 0.0), 0, number) for number, planned in self._new()]
        if program.lives == 1:
            due += [(time, 1, job) for job, time in self._world.cancels.items()]
        room = None if self._full_journal is None else self._full_journal + self._rng.exponential(10.0)
        for kind, time in ((2, self._closes), (3, self._full_journal), (4, self._full_record), (6, room)):
            due += [] if time is None else [(time, kind, 0)]
        due += [(time, 5, 0) for time in np.cumsum(self._rng.exponential(self._world.reads, READS)).tolist()]
        for time, kind, job in sorted(due):
            if kind == 5 and not stream._out.outstanding():
                continue  # what has come is taken at the end
            self._pass(time)
            if kind == 2:
                return self._close_at_once()
            doing = self._submit, self._cancel, None, self._fill_journal, self._fill_record, self._read, self._make_room
            doing[kind](job)
            if kind == 3 and self._rng.random() < 0.2:
                return self._close_full()
        stream.pass_time(lambda: not stream._out.outstanding() or stream._out.broken is not None, LONG_S)
        stream._out.check_whole()
        if stream._out.outstanding():
            raise NeverEnds(f"{stream._out.outstanding()} after {stream.now():g} virtual seconds")
        for delivery in stream.deliveries():
            self._take(delivery)
        assert not self._cluster.lent, f"memory of {len(self._cluster.lent)} messages was not given back"
        stream.close()
        self._check_closed()
        program.over = True

    def _new(self) -> list[tuple[int, Any]]:
        """Return the jobs that were never submitted, by their place in the schedule."""
        taken = self._stream.taken if self._world.journalled else 0
        return list(enumerate(self._world.jobs))[taken:]

    def _enter(self, handle: Any) -> None:
        self._handles[handle.number] = handle
        self._stream.began_at[handle.number] = handle.iteration

    def _pass(self, until: float) -> None:
        left = until - self._stream.now()
        if left > 0:
            self._stream.sleep(left)
        self._stream._out.check_whole()

    def _submit(self, job: int) -> None:
        planned = self._world.jobs[job]
        try:
            handle = self._stream.submit(planned.job)
        except JournalFull:
            assert self._full
            assert self._stream.taken == job, "a job was refused, and taken"
            self._make_room(0)
            handle = self._stream.submit(planned.job)
        assert handle.number == job + self._program._first, handle
        self._enter(handle)

    def _cancel(self, job: int) -> None:
        handle = self._handles.get(job + self._program._first)
        if handle is not None:
            if not handle.done():
                self._program.seen.asked.add(handle.number)
            handle.cancel()
            self._stream.sleep(0.0)
            self._stream._out.check_whole()
            assert handle.done(), f"{handle} was cancelled, and goes on"
            if handle.cancelled() and not self._full:  # else it is in the journal when there is room
                self._program.seen.cancelled.add(handle.number)

    def _fill_journal(self, _: int) -> None:
        """Let the disk of the journal be full: nothing more is written."""
        self._stream._journal._base.write = _no_room
        self._full = True

    def _make_room(self, _: int) -> None:
        vars(self._stream._journal._base).pop("write", None)
        self._full = False

    def _close_full(self) -> None:
        """Close while the journal can't be written: it says so, or all jobs have ended in what room there was."""
        with suppress(JournalError):
            self._stream.close()
        self._check_closed()

    def _fill_record(self, _: int) -> None:
        for observer in self._stream._told._all:
            if hasattr(observer, "_file"):
                observer._file.close()
                observer._file = Full()
                self._recording = False

    def _read(self, _: int) -> None:
        if self._world.journalled and not self._full and self._rng.random() < 0.3:
            self._take_one_by_its_handle()
        while (delivery := self._stream._out.take()) is not None:
            self._take(delivery)
            if self._rng.random() < 0.5:
                return

    def _take(self, delivery: Delivery) -> None:
        if self._recording and delivery.number in self._handles:
            handle = self._handles[delivery.number]
            if handle._delivery.messages:  # without a call of the cluster, which may kill the program
                self._stream.delivered_here.append(delivery)
        self._program.take(delivery)

    def _take_one_by_its_handle(self) -> None:
        seen = self._program.seen
        taken = {one.number for one in (*seen.deliveries, *seen.by_handle)}
        for number, handle in self._handles.items():
            if handle.done() and not handle.cancelled() and number not in taken:
                seen.by_handle.append(handle.delivery(0.0))
                return self._program.check(seen.by_handle[-1])

    def _close_at_once(self) -> None:
        self._stream.close(wait=False)
        self._check_closed()
        self._program.over = self._program._journal is None

    def _check_closed(self) -> None:
        for handle in self._handles.values():
            assert handle.done(), f"{handle} never ended"
            if handle.cancelled() and self._program._journal is None:
                self._program.seen.cancelled.add(handle.number)


def _no_room(*_: Any) -> None:
    raise JournalFull("the journal can't be written: database or disk is full")


class Full:
    """A file on a disk that is full."""

    def write(self, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def bury(stream: Any) -> None:
    """Close the files of a dead program, and nothing else."""
    if getattr(stream, "_journal", None) is not None:
        stream._journal.close()
    for observer in getattr(getattr(stream, "_told", None), "_all", ()):
        observer.close()


def _same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def run_schedules(first: int, count: int, tally: Tally | None = None) -> None:
    """Run schedules by seed; say which one failed and how to reproduce it."""
    for seed in range(first, first + count):
        try:
            run_schedule(seed, tally)
        except BaseException:
            print(f"schedule {seed} failed; replay it by: python -m bench.chaos --seed {seed}", file=sys.stderr)
            raise
