"""The page of a record: of a run that is over, or that is still writing it."""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO

from echelon.errors import ArgumentError
from echelon.page.board import Board
from echelon.page.drawn import drawn_round
from echelon.page.server import PageServer
from echelon.page.showing import WAIT_S, Showing, finite
from echelon.stream.record_reader import entry_of

_AT_ONCE = 2**20  # bytes that are read in a row


class Followed:
    """Takes in a record as it grows; one that is written anew is begun anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.board = Board()
        self._file, self._begun = self._opened()
        self._rest, self._line = b"", 0

    def _opened(self) -> tuple[BinaryIO, os.stat_result]:
        try:
            file = self._path.open("rb")
        except OSError as error:
            raise ArgumentError(f"{self._path}: can't be read; {error.strerror}") from None
        return file, os.fstat(file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def go_on(self) -> bool:
        """Take in what was written since, up to a megabyte of it; return whether there was something."""
        if self._anew():
            self._file.close()
            self.board, self._rest, self._line = Board(), b"", 0
            self._file, self._begun = self._opened()
        more = self._file.read(_AT_ONCE)
        *lines, self._rest = (self._rest + more).split(b"\n")
        for line in lines:
            self._line += 1
            try:
                entry = entry_of(line.decode())
                if entry is None:
                    raise ArgumentError("must be JSON")
                self.board.take(entry)
            except (ArgumentError, UnicodeDecodeError) as error:
                raise ArgumentError(f"{self._path}: line {self._line} can't be taken in; {error}") from None
        return bool(more)

    def _anew(self) -> bool:
        try:
            now = self._path.stat()
        except OSError:
            return False  # what was there stays
        return now.st_ino != self._begun.st_ino or now.st_size < self._file.tell()


def show_record(path: Path, where: tuple[str, int], told: Callable[[str], None], until: Event) -> None:
    """Serve the page of a record until an event is set; `told` is given its address.

    Raises `ArgumentError` where the file is no record, or ceases to be one.
    """
    followed = Followed(path)
    try:
        while followed.go_on():
            pass
        board = followed.board
        if not board.begun:
            raise ArgumentError(f"{path}: this is not the record of a run; it must begin with an entry of kind 'run'")
        showing = Showing(path.name)
        server = PageServer(showing, *where)
        try:
            told(server.url)
            while not until.wait(0.0 if followed.go_on() else WAIT_S):
                if followed.board.begun:
                    showing.put(followed.board, lambda: followed.board.state(title=path.name))
        finally:
            server.close()
    finally:
        followed.close()


def whole_record(path: Path, replayed: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return all that the page shows of a record, for a page that is one file; replayed: as `what_if` says it."""
    followed = Followed(path)
    try:
        while followed.go_on():
            pass
    finally:
        followed.close()
    board = followed.board
    names = board.record.job_names
    rounds = [
        drawn_round(number, seen, tasks, names.get(seen.job, f"job {seen.job}")) for number, seen, tasks in board.drawn
    ]
    data: dict[str, Any] = finite({"state": board.state(title=path.name) | {"what_if": replayed}, "rounds": rounds})
    return data
