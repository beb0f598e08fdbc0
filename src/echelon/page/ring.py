"""What readers have still to be sent: a bounded row of texts, from which the oldest are lost first."""

from collections import deque
from threading import Lock

MOST, MOST_BYTES = 400, 4 * 2**20


class Ring:
    """Numbered texts; who adds never waits, and a reader that is too slow loses the oldest.

    >>> ring = Ring(most=2)
    >>> for text in "abc":
    ...     ring.add(text)
    >>> ring.since(0), ring.since(2), ring.since(3)
    ((['b', 'c'], 3, 1), (['c'], 3, 0), ([], 3, 0))
    """

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0
        self._texts: deque[str] = deque()
        self._next = 0  # number of the text that comes next
        self._lock = Lock()

    def add(self, text: str) -> None:
        """Add a text, and drop what is too old."""
        with self._lock:
            self._texts.append(text)
            self._next += 1
            self._bytes += len(text)
            while len(self._texts) > self._most or (self._bytes > self._most_bytes and len(self._texts) > 1):
                self._bytes -= len(self._texts.popleft())

    def since(self, number: int) -> tuple[list[str], int, int]:
        """Return the texts from a number on, the number that comes next, and how many texts before are lost."""
        with self._lock:
            first = self._next - len(self._texts)
            lost = max(0, first - number)
            return list(self._texts)[max(0, number - first) :], self._next, lost
