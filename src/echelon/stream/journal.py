"""A journal in SQLite: jobs as submitted, their state after each iteration, and what was delivered.

After kill -9 of the whole program a stream that opens the same journal goes on with every job that was not delivered,
from its last state. A delivery is marked before it is handed over, so it is never handed over twice; its result stays
in the journal, so it is not lost either if the program dies at that very moment (`Journal.result`).

What becomes of a job:

    open ──► finished ──► delivered      done; its result stays
     └─────► failed ────► dropped        its error waits until it is taken; cancelled jobs are dropped at once

A job that can't go on here, because its module is gone or its pickle is damaged, is set aside where it is; ``echelon
journal FILE`` lists, retries, exports and drops it.

A step writes state and status at once, and so does every other change: a program that dies between any two leaves a job
in one of these places, never between them.
"""

import pickle
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import cloudpickle

from echelon.codes import ErrorEstimate
from echelon.errors import ArgumentError, JournalError
from echelon.jobs import IterativeJob
from echelon.stream.journal_file import Base

_LISTED = (
    "number, key, name, CASE WHEN aside IS NULL THEN status ELSE 'set aside' END, iteration, relative_to_terms, "
    "relative_to_result, residual, COALESCE(aside, reason), "
    "COALESCE(LENGTH(state), 0) + COALESCE((SELECT LENGTH(job) FROM works WHERE works.number = jobs.number), 0)"
)
_TYPES = (int, str | None, str | None, str, int, float, float, float, str, int)
_WHERE = {"job": "works", "state": "jobs"}  # the table of each pickle
_FORGET = (  # the data of a job that will not run again
    "DELETE FROM works WHERE number IN "
    "(SELECT number FROM jobs WHERE number = ? AND status IN ('delivered', 'dropped'))"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A job as the journal lists it; nothing is unpickled for it.

    key: what it was submitted under, if anything.
    status: open, finished, failed, delivered, dropped or set aside; see the module.
    iteration: how many it has taken. error, residual: of decoding, and of sums that are not exact, over all of them.
    reason: why it failed, was dropped or set aside.
    nbytes: of the job and its state.
    """

    number: int
    key: str | None
    name: str
    status: str
    iteration: int
    error: ErrorEstimate
    residual: float
    reason: str
    nbytes: int


class Journal:
    """What a stream must remember to go on after a crash. It unpickles what it wrote: open your own journals only.

    timeout_s: how long to wait for another program that still holds it.
    look: only list what is there, even if another program holds it.
    """

    def __init__(self, path: Path, *, timeout_s: float = 2.0, look: bool = False) -> None:
        self.path = path
        self._base = Base(path, timeout_s=timeout_s, look=look)

    # what a stream writes

    def submitted(self, job: IterativeJob, *, key: str | None = None) -> int:
        """Keep a job and return its number, which no job in this journal had before."""
        try:
            blob = cloudpickle.dumps(job, protocol=5)
        except Exception as error:
            raise ArgumentError(f"job: it can't be kept in the journal; pickle says: {error}") from error
        try:
            number = self._base.write(
                ("INSERT INTO jobs (key, name) VALUES (?, ?)", (key, job.name)),
                ("INSERT INTO works VALUES (last_insert_rowid(), ?, ?)", (blob, crc32(blob))),
            )
        except (sqlite3.DataError, OverflowError) as error:
            raise ArgumentError(
                f"job: {len(blob)} bytes can't be kept in the journal ({error}); let workers load large data (load=)"
            ) from None
        assert number is not None
        return number

    def stepped(
        self, number: int, state: Any, iteration: int, error: ErrorEstimate, residual: float, finished: bool
    ) -> None:
        """Keep the state after an iteration."""
        blob = cloudpickle.dumps(state, protocol=5)
        errors = error.relative_to_terms, error.relative_to_result, residual
        self._base.write(
            (
                "UPDATE jobs SET state = ?, state_check = ?, iteration = ?, relative_to_terms = ?, "
                "relative_to_result = ?, residual = ?, status = ? WHERE number = ?",
                (blob, crc32(blob), iteration, *errors, "finished" if finished else "open", number),
            )
        )

    def failed(self, number: int, reason: str) -> None:
        """Keep why a job failed, until that was taken."""
        self._base.write(("UPDATE jobs SET status = 'failed', reason = ? WHERE number = ?", (reason, number)))

    def delivered(self, number: int) -> None:
        """Mark a job as handed over: its result stays, a failed one is not tried again and gives its key free."""
        self._base.write(
            (
                "UPDATE jobs SET key = CASE status WHEN 'failed' THEN NULL ELSE key END, "
                "status = CASE status WHEN 'failed' THEN 'dropped' ELSE 'delivered' END "
                "WHERE number = ? AND status IN ('finished', 'failed')",
                (number,),
            ),
            (_FORGET, (number,)),
        )

    def dropped(self, number: int, reason: str = "cancelled") -> None:
        """Forget a job, whatever became of it: it is not tried again, and gives its key free."""
        self._base.write(
            (
                "UPDATE jobs SET state = NULL, state_check = NULL, key = NULL, status = 'dropped', reason = ?, "
                "aside = NULL WHERE number = ?",
                (reason, number),
            ),
            (_FORGET, (number,)),
        )

    def set_aside(self, number: int, reason: str) -> None:
        """Keep a job that can't go on here, and why, and leave it out from now on."""
        self._base.write(("UPDATE jobs SET aside = ? WHERE number = ?", (reason, number)))

    def retry(self, number: int) -> None:
        """Let a job that failed or was set aside go on from its last state, when the journal is opened again."""
        if self.entry(number).status not in ("failed", "set aside"):
            raise ArgumentError(f"number: {number} is not allowed; must be a job that failed or was set aside")
        self._base.write(
            (
                "UPDATE jobs SET status = CASE status WHEN 'failed' THEN 'open' ELSE status END, reason = '', "
                "aside = NULL WHERE number = ?",
                (number,),
            )
        )

    # what it holds

    def taken(self) -> int:
        """Return how many jobs the journal ever received."""
        ((count,),) = self._base.read("SELECT COUNT(*) FROM jobs")
        return int(count)

    def entries(self, where: str = "1", values: tuple[Any, ...] = ()) -> list[Entry]:
        """Return all jobs in order of arrival, or those for which a condition holds."""
        rows = self._base.read(f"SELECT {_LISTED} FROM jobs WHERE {where} ORDER BY number", values)
        for row in rows:
            if not all(isinstance(value, kind) for value, kind in zip(row, _TYPES, strict=True)):
                raise JournalError(f"the journal {self.path} is damaged: job {row[0]!r} has values of wrong types")
        return [
            Entry(number, key, name or f"job {number}", status, iteration, ErrorEstimate(terms, result), *rest)
            for number, key, name, status, iteration, terms, result, *rest in rows
        ]

    def undelivered(self) -> list[Entry]:
        """Return the jobs that are still to be delivered, in order of arrival."""
        return self.entries("status IN ('open', 'finished', 'failed') AND aside IS NULL")

    def entry(self, number: int) -> Entry:
        """Return one job."""
        found = self.entries("number = ?", (number,))
        if not found:
            raise ArgumentError(f"number: {number!r} is not allowed; no such job is in this journal")
        return found[0]

    def find(self, key: str) -> Entry | None:
        """Return the job that was submitted under a key, if there is one."""
        return next(iter(self.entries("key = ?", (key,))), None)

    def load(self, number: int) -> tuple[IterativeJob, Any]:
        """Return a job and its last state; `JournalError` says what is wrong with it."""
        job = _unpickled(number, "job", self.pickled(number, "job"))
        if not isinstance(job, IterativeJob):
            raise JournalError(f"job {number} is no job but a {type(job).__name__}")
        blob = self.pickled(number, "state")
        return job, job.state if blob is None else _unpickled(number, "state", blob)

    def result(self, number: int) -> Any:
        """Return the result of a job that finished, delivered or not."""
        if not self.entries("number = ? AND status IN ('finished', 'delivered')", (number,)):
            raise ArgumentError(f"number: {number!r} is not allowed; no such job finished in this journal")
        return _unpickled(number, "state", self.pickled(number, "state"))

    def pickled(self, number: int, what: str) -> bytes | None:
        """Return the pickle of a job's "state", or of the "job" itself, if it has one that is whole."""
        rows = self._base.read(f"SELECT {what}, {what}_check FROM {_WHERE[what]} WHERE number = ?", (number,))
        blob, check = rows[0] if rows else (None, None)
        if blob is None:
            return None
        if not isinstance(blob, bytes) or crc32(blob) != check:
            raise JournalError(f"the {what} of job {number} is damaged")
        return blob

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._base.closed

    def close(self) -> None:
        """Close the file."""
        self._base.close()


def _unpickled(number: int, what: str, blob: bytes | None) -> Any:
    if blob is None:
        raise JournalError(f"the {what} of job {number} is missing")
    try:
        return pickle.loads(blob)
    except Exception as error:  # of any kind: a module that is gone, a class of another version, ...
        raise JournalError(f"the {what} of job {number} can't be unpickled: {error!r}") from error
