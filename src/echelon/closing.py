"""Things that are closed at the end of a ``with``."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Closed when a ``with`` ends; told whether the block ended without an error."""

    @abstractmethod
    def _leave(self, *, well: bool) -> None:
        """Do what is left to do at the end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(well=kind is None)
