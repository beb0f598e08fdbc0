"""What a full journal did not take yet: the stream takes no further step before it does, and tries again."""

import math
from collections import deque
from collections.abc import Callable

from echelon.errors import JournalFull

FIRST_S, MOST_S = 0.1, 10.0  # how long to wait before the next try, in the stream's own time; each time twice as long


class Unkept:
    """Reports that were refused, told again in their order.

    now: the stream's clock.
    due: when to call `again`; never (infinity) while nothing is left.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._left: deque[tuple[int, Callable[[], None], Callable[[], None]]] = deque()
        self._pause_s = FIRST_S
        self.due = math.inf

    @property
    def jobs(self) -> set[int]:
        """Those of which something is left to tell."""
        return {job for job, _, _ in self._left}

    def keep(self, job: int, tell: Callable[[], None], then: Callable[[], None]) -> bool:
        """Tell something of a job and return True; if it must be told again later, return False, and do `then` then."""
        try:
            tell()
        except JournalFull:
            self._left.append((job, tell, then))
            self._wait()
            return False
        if self._left:
            self.due = self._now()  # there is room again
        return True

    def drop(self, job: int) -> None:
        """Forget what is left to tell of a job, because it has ended."""
        self._left = deque(entry for entry in self._left if entry[0] != job)
        if not self._left:
            self._rest()

    def again(self) -> None:
        """Tell what is left, as far as that is possible now."""
        while self._left:
            _, tell, then = self._left[0]
            try:
                tell()
            except JournalFull:
                return self._wait()
            self._left.popleft()
            then()
        self._rest()

    def _wait(self) -> None:
        self.due = self._now() + self._pause_s
        self._pause_s = min(MOST_S, 2 * self._pause_s)

    def _rest(self) -> None:
        self.due, self._pause_s = math.inf, FIRST_S
