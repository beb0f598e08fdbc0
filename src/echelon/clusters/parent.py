"""The master's end of the process that forks the workers (`nursery`)."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from echelon.clusters import blas_threads, frames, proc

# large results are copied into shared memory past the cache, where no worker needs them again: nearly twice as quick
_TUNABLES, _PAST_THE_CACHE = "GLIBC_TUNABLES", "glibc.cpu.x86_non_temporal_threshold=0x100000"
_GRACE_S = 10.0  # time for it to end, with all workers
_LOOK_S = 0.1  # how often to look whether it can end at all


class Parent:
    """A process that forks workers, and tells how they ended; it ends with the master.

    shared: descriptors that all workers need. threads: how many a worker's linear algebra may use.
    """

    def __init__(self, shared: tuple[int, int], places: int, threads: int) -> None:
        environment = dict(os.environ) | dict.fromkeys(blas_threads.NAMES, str(threads))
        tunables = [environment[_TUNABLES]] if environment.get(_TUNABLES) else []
        environment[_TUNABLES] = ":".join([_PAST_THE_CACHE, *tunables])
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        passed = (theirs.fileno(), *shared)
        try:
            with theirs:
                self.process = subprocess.Popen(
                    [
                        sys.executable, "-P", "-m", "echelon.clusters.nursery",
                        *map(str, passed), str(places), str(os.getpid()),
                    ],
                    pass_fds=passed,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for the master alone
                )  # fmt: skip
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        self.control = ours

    @property
    def stopped(self) -> bool:
        """Whether somebody has stopped it: then it reports no death and forks no successor."""
        return proc.stopped(self.process.pid)

    def fork(self, number: int, descriptors: Sequence[int]) -> None:
        """Ask for a worker; an `OSError` where that is not possible now."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it is gone, which its end will tell
            socket.send_fds(self.control, [frames.pack_short(frames.FORK, number, len(descriptors))], descriptors)

    def hear(self) -> bytes | None:
        """Return its next frame; an empty one if it is gone, None if there is no other."""
        try:
            return self.control.recv(64)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            return b""

    def end(self, grace_s: float = 0.0) -> int:
        """End it, and with it all its workers, by force after this time; return its status."""
        try:
            with contextlib.suppress(OSError):  # it may be gone already
                self.control.shutdown(socket.SHUT_RDWR)
            self.control.close()
            end = time.monotonic() + grace_s
            while time.monotonic() < end and not self.stopped:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return self.process.wait(_LOOK_S)
        finally:  # also if Ctrl-C ends the wait
            if self.process.poll() is None:
                self.process.kill()
            status = self.process.wait()
        return status

    def close(self) -> None:
        """End it at the end of the cluster."""
        self.end(_GRACE_S)
