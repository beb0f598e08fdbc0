"""A lock that one process holds on a file, beside it: FILE.lock.

The lock belongs to the open lock file, not to the file that it guards: whoever opens, copies and closes that one does
not drop it. The kernel drops it when the process dies, however it does; so a lock file that lies about holds nobody up.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from echelon.errors import ArgumentError

if sys.platform != "win32":
    import fcntl

_TURN_S = 0.02  # how long to wait between two tries


class LockFile:
    """Held from its making to `release`; a second one for the same file is refused after `timeout_s`.

    name: the argument that an error names.
    """

    def __init__(self, path: Path, *, name: str, timeout_s: float) -> None:
        target = path.resolve()  # a link and what it leads to have one lock
        self._path = target.with_name(f"{target.name}.lock")
        self._descriptor, end = -1, time.monotonic() + timeout_s
        try:
            while not self._taken():
                if time.monotonic() >= end:
                    raise ArgumentError(
                        f"{name}: {str(path)!r} is not allowed; {self._holder()} holds it: wait until that has ended"
                    )
                time.sleep(_TURN_S)
            os.ftruncate(self._descriptor, 0)
            with suppress(OSError):  # a full disk: the lock holds all the same
                os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            self.abandon()
            raise ArgumentError(f"{name}: {str(path)!r} is not allowed; {self._path.name}: {error.strerror}") from None

    def _taken(self) -> bool:
        """Try once."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        self._descriptor = os.open(self._path, flags, 0o600)
        if sys.platform == "win32":
            return True  # there SQLite's own lock is not dropped by copies
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # who held it before may have deleted the file meanwhile: then this one is nobody's
            if os.path.samestat(os.fstat(self._descriptor), os.stat(self._path)):
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        self.abandon()
        return False

    def _holder(self) -> str:
        with suppress(OSError, ValueError):
            return f"process {int(self._path.read_text(encoding='ascii'))}"
        return "another program"

    def release(self) -> None:
        """Give the lock up and take its file away."""
        if self._descriptor >= 0:
            with suppress(OSError):
                self._path.unlink()
            self.abandon()

    def abandon(self) -> None:
        """Close the lock file: in a forked child the lock stays with the parent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
