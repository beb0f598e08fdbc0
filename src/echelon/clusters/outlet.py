"""Where lines of workers go: the program's standard output or errors, which may be slow, stuck, replaced or missing."""

import os
import select
import sys
import time
from contextlib import suppress

NAMES = {1: "stdout", 2: "stderr"}  # by descriptor, as `sys` has them
_PATIENCE_S = 1.0  # how long to wait for an output that takes nothing
_PIECE = select.PIPE_BUF  # a pipe that has room at all has room for this much


def wanted(descriptor: int) -> bool:
    """Return whether anybody could see what is written there."""
    if _replaced(descriptor):
        return True
    try:
        return os.fstat(descriptor).st_rdev != os.stat(os.devnull).st_rdev
    except OSError:  # it is closed
        return False


def _replaced(descriptor: int) -> bool:
    """Return whether the program has something of its own in place of that output: a display, a notebook, a test."""
    name = NAMES[descriptor]
    return getattr(sys, name) not in (None, getattr(sys, f"__{name}__"))


class Outlet:
    """Writes whole lines to standard output (1) or errors (2), as both are just then. For one thread.

    An output that takes nothing for a second is waited for no longer: what comes until it takes something again is left
    out and counted, so that nobody who writes lines is held up for good.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._left = b""  # of what is being written
        self._stuck = False
        self._lost = 0  # lines

    @property
    def behind(self) -> bool:
        """Whether something is left to be written."""
        return bool(self._left)

    @property
    def shown(self) -> bool:
        """Whether lines go to something that costs more than a write: a display, a notebook."""
        return _replaced(self._descriptor)

    def put(self, lines: bytes) -> None:
        """Write lines, each with its end."""
        if self.shown:
            with suppress(Exception):  # whatever stands there, a worker's print must not end this thread
                file = getattr(sys, NAMES[self._descriptor])
                file.write(lines.decode(errors="replace"))
                file.flush()
            return
        self.flush()
        if self._left:
            self._lost += lines.count(b"\n")
            return
        if self._lost:
            told = f"echelon: {self._lost} lines of workers were left out: nobody read {NAMES[self._descriptor]}\n"
            self._left, self._lost = told.encode(), 0
        self._left += lines
        self.flush()

    def flush(self) -> None:
        """Write what is left, waiting for an output that was not stuck before."""
        try:
            while self._left and self._ready():
                self._left = self._left[os.write(self._descriptor, self._left[:_PIECE]) :]
        except BlockingIOError:
            self._stuck = True
        except OSError:  # nobody will ever read it
            self._left = b""

    def _ready(self) -> bool:
        """Return whether the output takes something, after waiting for that unless it was stuck already."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        end = time.monotonic() + (0.0 if self._stuck else _PATIENCE_S)
        self._stuck = not poll.poll(max(0.0, end - time.monotonic()) * 1000)
        return not self._stuck
