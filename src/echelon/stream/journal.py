"""A journal in SQLite: jobs as submitted, their state after each iteration, and what was delivered.

After kill -9 of the whole program a stream that opens the same journal goes on with every job that was not delivered,
from its last state. A delivery is marked before it is handed over, so it is never handed over twice; its result stays
in the journal, so it is not lost either if the program dies at that very moment (`Journal.result`).
"""

import pickle
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle

from echelon.codes import ErrorEstimate
from echelon.errors import ArgumentError, JournalError
from echelon.jobs import IterativeJob

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    job BLOB NOT NULL,
    state BLOB,
    iteration INTEGER NOT NULL DEFAULT 0,
    relative_to_terms REAL NOT NULL DEFAULT 0,
    relative_to_result REAL NOT NULL DEFAULT 0,
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'finished', 'delivered', 'dropped'))
)
"""
_COLUMNS = "number, job, state, iteration, relative_to_terms, relative_to_result, status"


@dataclass(frozen=True, slots=True)
class Kept:
    """A job as the journal has it; `state` is that after `iteration` iterations."""

    number: int
    job: IterativeJob
    state: Any
    iteration: int
    error: ErrorEstimate
    finished: bool


class Journal:
    """What a stream must remember to go on after a crash. It unpickles what it wrote: open your own journals only."""

    def __init__(self, path: Path, *, timeout_s: float = 10.0) -> None:
        try:
            # the driver's thread writes states, the user's deliveries: SQLite lets both in, one at a time
            self._base = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=timeout_s)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.execute(_SCHEMA)
            self._base.execute(f"SELECT {_COLUMNS} FROM jobs LIMIT 0")  # one of another version may lack some
            # no other stream may go on with the same jobs
            self._base.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._base.execute("BEGIN IMMEDIATE")
            self._base.execute("COMMIT")
        except sqlite3.Error as error:
            held = "; another stream holds it" if "locked" in str(error) else ""
            raise ArgumentError(f"journal: {str(path)!r} is not allowed; {error}{held}") from None

    def submitted(self, job: IterativeJob) -> int:
        """Keep a job and return its number, which no job in this journal had before."""
        blob = cloudpickle.dumps(job, protocol=5)
        try:
            number = self._write("INSERT INTO jobs (job) VALUES (?)", (blob,)).lastrowid
        except (sqlite3.DataError, OverflowError) as error:
            raise ArgumentError(
                f"job: {len(blob)} bytes can't be kept in the journal ({error}); let workers load large data (load=)"
            ) from None
        assert number is not None
        return number

    def stepped(self, number: int, state: Any, iteration: int, error: ErrorEstimate, finished: bool) -> None:
        """Keep the state after an iteration."""
        self._write(
            "UPDATE jobs SET state = ?, iteration = ?, relative_to_terms = ?, relative_to_result = ?, status = ? "
            "WHERE number = ?",
            (
                cloudpickle.dumps(state, protocol=5),
                iteration,
                error.relative_to_terms,
                error.relative_to_result,
                "finished" if finished else "open",
                number,
            ),
        )

    def _write(self, statement: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        try:
            return self._base.execute(statement, values)
        except sqlite3.DataError:
            raise
        except sqlite3.Error as error:
            raise JournalError(f"the journal can't be written: {error}; fix that and open it again") from error

    def delivered(self, number: int) -> None:
        """Mark a job as handed over."""
        self._write(
            "UPDATE jobs SET status = 'delivered', job = x'' WHERE number = ? AND status = 'finished'", (number,)
        )

    def dropped(self, number: int) -> None:
        """Mark a job as failed or cancelled: it is not tried again."""
        self._write("UPDATE jobs SET status = 'dropped', job = x'' WHERE number = ?", (number,))

    def taken(self) -> int:
        """Return how many jobs the journal ever received."""
        count: int = self._base.execute("SELECT COUNT(*) FROM jobs").fetchone()[0]
        return count

    def undelivered(self) -> Iterator[Kept]:
        """Yield the jobs that are still to be delivered, in order of arrival."""
        rows = self._base.execute(f"SELECT {_COLUMNS} FROM jobs WHERE status IN ('open', 'finished') ORDER BY number")
        for number, blob, kept, iteration, terms, result, status in rows.fetchall():
            job = pickle.loads(blob)
            state = job.state if kept is None else pickle.loads(kept)
            yield Kept(number, job, state, iteration, ErrorEstimate(terms, result), status == "finished")

    def result(self, number: int) -> Any:
        """Return the result of a job that finished, delivered or not."""
        row = self._base.execute(
            "SELECT state FROM jobs WHERE number = ? AND status IN ('finished', 'delivered')", (number,)
        ).fetchone()
        if row is None:
            raise ArgumentError(f"number: {number!r} is not allowed; no such job finished in this journal")
        return pickle.loads(row[0])

    def close(self) -> None:
        """Close the file."""
        self._base.close()
