"""The SQLite file of a journal: opened by one process, of this version, and safe from its forks.

Two threads may use it at a time: what they write is written one after another, each as a whole or not at all.
"""

import ctypes
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakSet

from echelon.errors import ArgumentError, JournalError, JournalFull
from echelon.stream.lock_file import LockFile

APPLICATION, VERSION = 0x4563686A, 3  # "Echj"; the version of the table below
# a job's data, which may be large, has a table of its own: SQLite writes a row as a whole, and a step writes the state
SCHEMA = {
    "jobs": """
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT UNIQUE,
    name TEXT,
    state BLOB,
    state_check INTEGER,
    iteration INTEGER NOT NULL DEFAULT 0,
    relative_to_terms REAL NOT NULL DEFAULT 0,
    relative_to_result REAL NOT NULL DEFAULT 0,
    residual REAL NOT NULL DEFAULT 0,
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'finished', 'failed', 'delivered', 'dropped')),
    reason TEXT NOT NULL DEFAULT '',
    aside TEXT
)""".strip(),
    "works": "CREATE TABLE works (number INTEGER PRIMARY KEY, job BLOB NOT NULL, job_check INTEGER NOT NULL)",
}
_CHECKED = 64 * 2**20  # files up to this size are checked as a whole when they are opened
_LONGEST = 200  # characters of what SQLite says
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT)

_open: "WeakSet[Base]" = WeakSet()


class Base:
    """The file at `path`: made where there is none, unless it is only looked at (`look`).

    Only one process has it open to write; one that looks needs no lock.
    """

    def __init__(self, path: Path, *, timeout_s: float, look: bool = False) -> None:
        self.path, self._process = path, os.getpid()
        self._lock: LockFile | None = None
        self._base: sqlite3.Connection | None = None
        self._writing = Lock()
        try:
            if not look:
                self._lock = LockFile(path, name="journal", timeout_s=timeout_s)
            self._base = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode={'ro' if look else 'rwc'}", uri=True,
                check_same_thread=False, isolation_level=None, timeout=timeout_s,
            )  # fmt: skip
            self._prepare(self._base, look=look)
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            self.close()
            raise ArgumentError(f"journal: {str(path)!r} is not allowed; {_line(error)}") from None
        except BaseException:
            self.close()
            raise
        _open.add(self)

    def _prepare(self, base: sqlite3.Connection, *, look: bool) -> None:
        base.text_factory = lambda text: text.decode("utf-8", "replace")  # a damaged name is no reason to give up
        base.execute("PRAGMA trusted_schema = OFF")
        tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")]
        application, version = (_single(base, f"PRAGMA {of}") for of in ("application_id", "user_version"))
        if tables and application != APPLICATION:
            what = (
                "it was written by an earlier version of echelon: finish its jobs with that, or choose another file"
                if "jobs" in tables
                else "it is the database of another program: choose another file"
            )
            raise ArgumentError(f"journal: {str(self.path)!r} is not allowed; {what}")
        if tables and version != VERSION:
            raise ArgumentError(
                f"journal: {str(self.path)!r} is not allowed; it has format {version}, and this version of echelon "
                f"reads {VERSION}: finish its jobs with the version that wrote it, or choose another file"
            )
        if look or tables:
            if self.path.stat().st_size <= _CHECKED:
                found = _line(_single(base, "PRAGMA integrity_check(1)"))
                if found != "ok":
                    raise ArgumentError(f"journal: {str(self.path)!r} is not allowed; it is damaged: {found}")
            if dict(base.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")) != SCHEMA:
                raise ArgumentError(f"journal: {str(self.path)!r} is not allowed; its tables were changed")
        if look:
            return
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("PRAGMA synchronous=NORMAL")
        if not tables:
            marks = f"PRAGMA application_id={APPLICATION}", f"PRAGMA user_version={VERSION}"
            for statement in ("BEGIN IMMEDIATE", *SCHEMA.values(), *marks, "COMMIT"):
                base.execute(statement)

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a statement selects."""
        try:
            return self._connection().execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise JournalError(f"the journal can't be read: {_line(error)}") from error

    def write(self, *statements: tuple[str, Sequence[Any]]) -> int | None:
        """Carry out all of some statements, or none; raise `JournalFull` where a later try may do better.

        Returns the number of the row that the last one inserted, if it did.
        """
        base = self._connection()
        try:
            with self._writing:
                if len(statements) == 1:
                    return base.execute(*statements[0]).lastrowid
                base.execute("BEGIN IMMEDIATE")
                try:
                    cursor = [base.execute(*statement) for statement in statements][-1]
                    base.execute("COMMIT")
                finally:
                    if base.in_transaction:
                        base.execute("ROLLBACK")
                return cursor.lastrowid
        except (sqlite3.DataError, OverflowError):
            raise
        except sqlite3.ProgrammingError as error:  # closed by another thread just now
            raise JournalError(f"the journal {self.path} is closed") from error
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _DAMAGED:
                raise JournalError(f"the journal can't be written: {_line(error)}; it is damaged") from error
            raise JournalFull(f"the journal can't be written: {_line(error)} ({self.path})") from error

    def _connection(self) -> sqlite3.Connection:
        if os.getpid() != self._process:
            raise JournalError(
                f"the journal {self.path} belongs to process {self._process}, of which this one is a fork: use it "
                "there, or open another file here"
            )
        if self._base is None:
            raise JournalError(f"the journal {self.path} is closed")
        return self._base

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._base is None

    def close(self) -> None:
        """Close the file and give up its lock; in a forked child, which has neither, do nothing."""
        if os.getpid() == self._process:
            base, self._base = self._base, None
            if base is not None:
                base.close()
            if self._lock is not None:
                self._lock.release()

    def leave(self) -> None:
        """Never touch the parent's file again, not even at the end of the interpreter; in a forked child."""
        if self._base is not None:
            # a connection that is closed here would take the parent's write-ahead file away: so it never is
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._base))
        if self._lock is not None:
            self._lock.abandon()


def _leave_all() -> None:
    for base in list(_open):
        base.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)


def _single(base: sqlite3.Connection, statement: str) -> Any:
    row = base.execute(statement).fetchone()
    return None if row is None else row[0]


def _line(said: object) -> str:
    """Return what SQLite says in one line; it may cite what is damaged."""
    return " ".join(str(said).replace("*** in database main ***", "").split())[:_LONGEST]
