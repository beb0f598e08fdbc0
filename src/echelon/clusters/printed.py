"""What worker processes print: whole lines, with the name of the worker before each.

Descriptors 1 and 2 of a worker are a pipe, or two where the program's own differ. One thread of the master reads them
all. So lines of several workers never mix, and what a worker printed before it was killed is still in its pipe.
"""

import logging
import os
import select
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread

from echelon.clusters.outlet import Outlet, wanted

log = logging.getLogger("echelon.clusters")

_CHUNK = 1 << 16  # bytes read at once
_LONGEST = 1 << 16  # bytes of a line that has no end; then it is cut
_LAST = 1 << 20  # bytes read at most of a pipe that is still open when the cluster is closed
_JOIN_S = 5.0
_AGAIN_S = 1.0  # how often an output that was stuck is tried again
_REST_S = 0.03  # between two writes to a display, which draws itself again each time


@dataclass(slots=True)
class _Source:
    """The end of a pipe at which a worker's output is read; `line` has no end yet."""

    prefix: bytes
    outlet: int  # which of them
    line: bytes = b""

    def lines(self, data: bytes) -> bytes:
        """Return the whole lines that some output completes, each behind the prefix."""
        *whole, line = [_shown(each) for each in (self.line + data).split(b"\n")]
        if len(line) > _LONGEST:
            whole, line = [*whole, line], b""
        self.line = line
        return b"".join([self.prefix + each + b"\n" for each in whole])

    def rest(self) -> bytes:
        """Return the last line, which has no end and will have none."""
        return self.lines(b"\n") if self.line else b""


def _shown(line: bytes) -> bytes:
    """Return what a terminal would show of a line: a return without a new line goes back to its start."""
    if b"\r" not in line:
        return line
    ended = line.endswith(b"\r")
    return (line[:-1] if ended else line).rpartition(b"\r")[2] + (b"\r" if ended else b"")


class Printed:
    """Reads what workers print, and writes it where the program writes.

    names: of the places.
    passed: for each pipe of a worker, the descriptors that it stands for; none where nobody could see any output.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        seen = [descriptor for descriptor in (1, 2) if wanted(descriptor)]
        one = seen == [1, 2] and os.path.sameopenfile(1, 2)
        self.passed: tuple[tuple[int, ...], ...] = ((1, 2),) if one else tuple((each,) for each in seen)
        self._outlets = [Outlet(targets[0]) for targets in self.passed]
        self._sources: dict[int, _Source] = {}  # by descriptor
        self._closed = Event()
        self._said: list[bytes] = [b""] * len(self._outlets)  # lines that are not written yet
        self._thread: Thread | None = None
        if not self.passed:
            return
        self._epoll = select.epoll()
        try:
            self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError:
            self._epoll.close()
            raise
        self._epoll.register(self._wake, select.EPOLLIN)
        self._thread = Thread(target=self._read, name="echelon-printed", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._end()
            raise OSError(f"no thread for what workers print: {error}") from error

    def pipes(self, place: int) -> list[int]:
        """Return the ends for a new worker to write to, one for each of `passed`; the caller closes them.

        What was opened before an `OSError` is closed by the thread, which sees that nobody has the other end.
        """
        ends: list[int] = []
        prefix = f"[{self._names[place]}] ".encode()
        try:
            for outlet in range(len(self._outlets)):
                ours, theirs = os.pipe2(os.O_CLOEXEC)
                ends.append(theirs)
                os.set_blocking(ours, False)
                self._sources[ours] = _Source(prefix, outlet)
                try:
                    self._epoll.register(ours, select.EPOLLIN)
                except OSError:
                    self._drop(ours)
                    raise
        except OSError:
            for end in ends:
                os.close(end)
            raise
        return ends

    def close(self) -> None:
        """Write what is left of workers that have ended, and leave nothing behind."""
        if self._thread is None:
            return
        self._closed.set()
        with suppress(OSError, ValueError):  # it has ended already
            os.eventfd_write(self._wake, 1)
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            log.warning("standard output is stuck; what workers printed last is lost")

    # in the thread

    def _read(self) -> None:
        try:
            while not self._closed.is_set():
                behind = any(outlet.behind for outlet in self._outlets)
                for descriptor, _ in self._epoll.poll(_AGAIN_S if behind else None):
                    self._take(descriptor)
                self._write()
                if any(outlet.shown for outlet in self._outlets):
                    self._closed.wait(_REST_S)
            for descriptor in list(self._sources):
                taken = 0
                while descriptor in self._sources and taken < _LAST and (more := self._take(descriptor)):
                    taken += more
                    self._write()
        finally:
            self._end()

    def _take(self, descriptor: int) -> int:
        """Read once; return how many bytes there were."""
        source = self._sources.get(descriptor)
        if source is None:
            return 0
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return 0
        self._said[source.outlet] += source.lines(data) if data else source.rest()
        if not data:
            self._drop(descriptor)
        return len(data)

    def _write(self) -> None:
        said, self._said = self._said, [b""] * len(self._outlets)
        for outlet, lines in zip(self._outlets, said, strict=True):
            if lines:
                outlet.put(lines)
            elif outlet.behind:
                outlet.flush()

    def _drop(self, descriptor: int) -> None:
        del self._sources[descriptor]
        with suppress(OSError):  # it was never registered
            self._epoll.unregister(descriptor)
        os.close(descriptor)

    def _end(self) -> None:
        for descriptor, source in list(self._sources.items()):
            self._said[source.outlet] += source.rest()
            self._drop(descriptor)
        self._write()
        self._epoll.close()
        wake, self._wake = self._wake, -1  # no write may go to a descriptor that is closed and perhaps reused
        os.close(wake)
