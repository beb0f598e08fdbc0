"""The master's end of one worker process: what is known of it, and frames on their way to it."""

import contextlib
import errno
import os
import select
import signal
import socket
from collections import deque
from threading import Lock

from echelon.clusters.memory import Arena
from echelon.clusters.shipping import Packed

# descriptors under way to one worker: a worker that hangs must not use up what the kernel allows for all of them
LOADS = 16
# of these the kernel has too few just now; nothing tells when it has more
_SHORTAGES = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)
_Load = tuple[int, Packed]  # key, and what is loaded under it


class Mailbox:
    """Sends frames at once, or when a worker that is behind has room for them again; it never waits.

    What is loaded goes with a descriptor, of which few are under way at a time: the worker says when it took one. One
    that was not sent yet is dropped when it is no longer needed.

    told: the last round whose state the worker has.
    full: whether its socket had no room, and is watched for it.
    short: mailboxes for which the kernel had no resources, to be flushed again soon; shared by all.
    reason: why it was killed, if it was.
    ending: whether it is known to be gone, and nothing more can be sent to it.
    """

    def __init__(
        self, number: int, place: int, link: socket.socket, arena: Arena, epoll: select.epoll, short: "set[Mailbox]"
    ) -> None:
        self.number, self.place, self.socket, self.arena = number, place, link, arena
        self.pid = 0
        self.process: int | None = None  # descriptor of its process
        self.up = False
        self.told = 0
        self.full = self.ending = False
        self.reason: str | None = None
        self.outbox: deque[tuple[int, bytes, _Load | None]] = deque()  # round (0: none), frame
        self._under_way = 0  # descriptors
        self._epoll, self._short = epoll, short
        self._closing = Lock()  # no signal may go to a descriptor that is closed and perhaps used again

    def greet(self, pid: int) -> None:
        """Note that the worker is up, as this process."""
        self.pid, self.up = pid, True
        with contextlib.suppress(OSError):  # an old kernel, or too few descriptors: its socket tells as well
            self.process = os.pidfd_open(pid)

    def ended(self, wait_s: float = 0.0) -> bool:
        """Return whether the worker's process has ended, after waiting for it at most this long."""
        poll = select.poll()
        if self.process is not None:
            poll.register(self.process, select.POLLIN)
        return bool(poll.poll(wait_s * 1000))

    def kill(self) -> None:
        """Kill the worker's process; from any thread."""
        with self._closing, contextlib.suppress(ProcessLookupError):  # it died by itself, and the news is on its way
            if self.process is None and self.pid:
                os.kill(self.pid, signal.SIGKILL)
            elif self.process is not None:
                signal.pidfd_send_signal(self.process, signal.SIGKILL)

    def send(self, round: int, frame: bytes) -> None:
        """Send a frame, in its turn."""
        self.outbox.append((round, frame, None))
        self.flush()

    def load(self, key: int, frame: bytes, packed: Packed) -> None:
        """Send a frame with the descriptor of what it announces, in its turn."""
        self.outbox.append((0, frame, (key, packed)))
        self.flush()

    def unload(self, key: int, frame: bytes) -> None:
        """Send a frame that ends a load, unless that was not sent yet: then drop both."""
        for i, (_, _, load) in enumerate(self.outbox):
            if load is not None and load[0] == key:
                del self.outbox[i]
                return
        self.send(0, frame)

    def taken(self) -> None:
        """Note that the worker took a descriptor."""
        if not self._under_way:
            raise ValueError("it took what was not sent")
        self._under_way -= 1
        self.flush()

    def flush(self) -> None:
        """Send what there is room for."""
        if self.ending:
            self.outbox.clear()
        while self.outbox:
            _, frame, load = self.outbox[0]
            try:
                if load is None:
                    self.socket.send(frame)
                elif self._under_way < LOADS:
                    socket.send_fds(self.socket, [frame], [load[1].descriptor])
                    self._under_way += 1
                else:
                    break
            except BlockingIOError:
                self._watch(True)
                return
            except OSError as error:
                if error.errno in _SHORTAGES:
                    self._short.add(self)
                    break
                # else it died; what it sent before is read first, then its death is seen
            self.outbox.popleft()
        self._watch(False)

    def _watch(self, full: bool) -> None:
        if full != self.full:
            self.full = full
            self._epoll.modify(self.socket, select.EPOLLIN | (select.EPOLLOUT if full else 0))

    def forget(self, over: int) -> None:
        """Drop lanes of rounds that are over and were not sent yet."""
        if self.outbox:
            self.outbox = deque(entry for entry in self.outbox if not 0 < entry[0] <= over)

    def close(self) -> None:
        """Drop all that was not sent, and close what is open."""
        self.outbox.clear()
        self._short.discard(self)
        self.socket.close()
        with self._closing:
            self.pid, process, self.process = 0, self.process, None
            if process is not None:
                os.close(process)
