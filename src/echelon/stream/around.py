"""What the program and its workers print while a display is on the terminal: whole lines, above it."""

import io
import sys
from collections.abc import Callable, Sequence
from threading import Lock, get_ident
from typing import TextIO

from echelon.clusters import seat

_NAMES = "stdout", "stderr"


class Around:
    """Stands in place of standard output and errors, as far as both are terminals, and gives lines to a display.

    show: takes lines, without their ends. names: of workers' places, for those that are threads.
    """

    def __init__(self, show: Callable[[list[str]], None], names: Sequence[str]) -> None:
        self._show, self._names = show, names
        self._stood: dict[str, tuple[TextIO, _Lines]] = {}

    def begin(self) -> None:
        """Take the place of what is a terminal."""
        for name in _NAMES:
            file = getattr(sys, name)
            if is_terminal(file):
                lines = _Lines(file, self._show, self._names)
                self._stood[name] = file, lines
                setattr(sys, name, lines)

    def end(self) -> None:
        """Give it back, unless somebody else took it meanwhile."""
        for name, (file, lines) in self._stood.items():
            if getattr(sys, name) is lines:
                setattr(sys, name, file)
            lines.pass_on()
        self._stood = {}


def is_terminal(file: TextIO | None) -> bool:
    """Return whether a file is there, open, and a terminal."""
    try:
        return file is not None and file.isatty()
    except ValueError:  # it is closed
        return False


def taken() -> bool:
    """Return whether a display is on the terminal already: a second one would draw over it."""
    return any(isinstance(file, _Lines) and not file.ended for file in (sys.stdout, sys.stderr))


class _Lines(io.TextIOBase):
    """Keeps what each thread writes until its line is whole, and is in all else the file whose place it takes."""

    def __init__(self, file: TextIO, show: Callable[[list[str]], None], names: Sequence[str]) -> None:
        super().__init__()
        self._file, self._show, self._names = file, show, names
        self._begun: dict[int, tuple[int | None, str]] = {}  # by thread: the worker's place, and its line so far
        self._lock = Lock()
        self.ended = False

    def write(self, text: str) -> int:
        """Show the lines that are whole now."""
        if self.ended:  # somebody kept it for later
            return self._file.write(text)
        place = seat.of_thread()
        with self._lock:
            _, begun = self._begun.pop(get_ident(), (None, ""))
            *whole, rest = (begun + text).split("\n")
            if rest:
                self._begun[get_ident()] = place, rest
        if whole:
            self._show([self._named(place, line) for line in whole])
        return len(text)

    def _named(self, place: int | None, line: str) -> str:
        return line if place is None or place >= len(self._names) else f"[{self._names[place]}] {line}"

    def flush(self) -> None:
        """Show the line that was begun, such as a question; workers' lines wait for their ends."""
        if seat.of_thread() is None:
            with self._lock:
                _, begun = self._begun.pop(get_ident(), (None, ""))
            if begun:
                self._show([begun])

    def pass_on(self) -> None:
        """Show what is left, and do nothing more."""
        with self._lock:
            self.ended, begun = True, list(self._begun.values())
        for place, line in begun:
            self._file.write(self._named(place, line) + "\n")

    def isatty(self) -> bool:
        """Return what the file says."""
        return self._file.isatty()

    def fileno(self) -> int:
        """Return the file's."""
        return self._file.fileno()

    def writable(self) -> bool:
        """Return that it can be written."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The file's."""
        return self._file.encoding
