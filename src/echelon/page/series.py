"""Values over time, of which a long run keeps as many as a picture can show."""

from collections.abc import Iterator

MOST = 1000

Point = tuple[float, ...]


class Series:
    """Points of a time and values; when there are too many, the larger of two neighbours is kept.

    >>> seen = Series(most=4)
    >>> for time in range(5):
    ...     seen.add(float(time), float(time % 2))
    >>> list(seen)
    [(1.0, 1.0), (3.0, 1.0), (4.0, 0.0)]
    """

    def __init__(self, most: int = MOST) -> None:
        self._most, self._every, self._waiting = most, 1, 0
        self._points: list[Point] = []

    def add(self, time: float, *values: float) -> None:
        """Add a point."""
        point = (time, *values)
        if self._waiting and max(values) <= max(self._points[-1][1:]):
            pass  # the larger one is there already
        elif self._waiting:
            self._points[-1] = point
        else:
            self._points.append(point)
        self._waiting = (self._waiting + 1) % self._every
        if len(self._points) > self._most:
            pairs = (self._points[i : i + 2] for i in range(0, len(self._points), 2))
            self._points = [max(pair, key=lambda each: max(each[1:])) for pair in pairs]
            self._every, self._waiting = 2 * self._every, 0

    def __iter__(self) -> Iterator[Point]:
        return iter(self._points)
