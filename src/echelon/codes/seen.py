"""The distinct rows that a tracker has taken in."""

from typing import Self


class Seen:
    """The rows that were taken in, in order."""

    def __init__(self) -> None:
        self._seen: dict[int, None] = {}

    @property
    def received(self) -> list[int]:
        """The distinct rows taken in, in order of arrival."""
        return list(self._seen)

    def copy(self) -> Self:
        """Return an independent copy that has taken in the same rows."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _seen=self._seen.copy())
        return made
