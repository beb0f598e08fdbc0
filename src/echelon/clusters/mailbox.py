"""The master's end of one worker process: what is known of it, and frames on their way to it."""

import os
import select
import socket
from collections import deque
from collections.abc import Sequence

from echelon.clusters.memory import Arena


class Mailbox:
    """Sends frames at once, or when a worker that is behind has room for them again; it never waits.

    told: the last round whose state the worker has.
    full: whether its socket had no room, and is watched for it.
    """

    def __init__(self, number: int, place: int, link: socket.socket, arena: Arena, epoll: select.epoll) -> None:
        self.number, self.place, self.socket, self.arena = number, place, link, arena
        self.pid = 0
        self.up = False
        self.told = 0
        self.full = False
        self.outbox: deque[tuple[int, bytes, Sequence[int]]] = deque()  # round (0: none), frame, descriptors
        self._epoll = epoll

    def send(self, round: int, frame: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send a frame, in its turn, and close the descriptors that go with it."""
        self.outbox.append((round, frame, descriptors))
        self.flush()

    def flush(self) -> None:
        """Send what there is room for."""
        while self.outbox:
            _, frame, descriptors = self.outbox[0]
            try:
                if descriptors:
                    socket.send_fds(self.socket, [frame], descriptors)
                else:
                    self.socket.send(frame)
            except BlockingIOError:
                self._watch(True)
                return
            except OSError:
                pass  # it died; what it sent before is read first, then its death is seen
            self.outbox.popleft()
            for descriptor in descriptors:
                os.close(descriptor)
        self._watch(False)

    def _watch(self, full: bool) -> None:
        if full != self.full:
            self.full = full
            self._epoll.modify(self.socket, select.EPOLLIN | (select.EPOLLOUT if full else 0))

    def forget(self, over: int) -> None:
        """Drop lanes of rounds that are over and were not sent yet."""
        if self.outbox:
            self.outbox = deque(entry for entry in self.outbox if not 0 < entry[0] <= over)

    def discard(self) -> None:
        """Drop all that was not sent."""
        for _, _, descriptors in self.outbox:
            for descriptor in descriptors:
                os.close(descriptor)
        self.outbox.clear()
