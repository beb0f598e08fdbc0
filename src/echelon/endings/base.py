"""What an ending must say; a new ending is one subclass in one file and one line in the registry.

An ending is a frozen value in a plan. The master makes its rule when a round begins, tells it what happens, and asks it
whether the round may end; it knows nothing else about endings.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import ClassVar

from echelon.endings.sums import Sums

Row = tuple[int, int]  # slot and row
Lane = Collection[Row]

TIES = 1e-9  # relative slack of a wait for stragglers: what comes at its very end counts


class EndRule(ABC):
    """How far one round is, and whether it may end.

    A round ends at once where `over` says so. Where `ripe` knows a time, the clock ends it, at that time or now if the
    time has passed; what arrives at the same moment counts.
    """

    @abstractmethod
    def arrived(self, row: Row, now: float) -> None:
        """Take note of a row."""

    def dropped(self, now: float) -> None:  # noqa: B027 - lanes that were done stay done
        """Take note that rows which came do not count."""

    @abstractmethod
    def ripe(self, recovered: Sequence[bool]) -> float | None:
        """Return when the clock may end the round, as things stand; None while that is not known."""

    @abstractmethod
    def settled(self, slot: int, now: float) -> bool:
        """Take note that a slot is recovered; return whether workers may stop working on it."""

    @abstractmethod
    def met(self, recovered: Sequence[bool]) -> bool:
        """Return whether everything that is required has come: nothing that is lost is given out again."""

    @abstractmethod
    def over(self, recovered: Sequence[bool], coming: Iterable[Row]) -> bool:
        """Return whether the round may end at once; `coming` are the rows on their way."""

    @abstractmethod
    def lacking(self, held: Collection[Row]) -> list[Row]:
        """Return rows that the round can't end without, other than those that recover slots.

        held: rows on their way. The rows returned are given out again; none is of a recovered slot.
        """

    @abstractmethod
    def awaited(self, short: Callable[[int], int]) -> Iterable[int]:
        """Return the slots that must be recovered as things stand; what they lack is given out again.

        short: returns how many rows a slot lacks beyond those on their way; 0 where it is recovered.
        """


class Ending(ABC):
    """When a round ends that may do without some of its rows.

    approximate: whether slots that are not recovered count with the rows that came, as near as these come to their
        sums; otherwise later rounds go on with them.
    """

    approximate: ClassVar[bool] = False

    @property
    def due(self) -> tuple[int, ...]:
        """Slots that must be recovered."""
        return ()

    @property
    def learns(self) -> bool:
        """Whether some time of it is "auto", which a stream learns from its rounds."""
        return False

    @abstractmethod
    def check(self, *, slots: int, lanes: int, sums: bool) -> None:
        """Refuse a plan with this many slots and lanes, whose slots all give `sums` or not, where it can't end so."""

    @abstractmethod
    def needed(self, slots: int) -> int:
        """Return how many slots must have enough planned rows at least, where lanes serve so many."""

    @abstractmethod
    def rule(self, lanes: Sequence[Lane], start: float, sums: Sums) -> EndRule:
        """Return the rule of one round that begins at `start`, from the rows of its lanes.

        sums: what is there of the round's sums; it changes before the rule is told.
        """
