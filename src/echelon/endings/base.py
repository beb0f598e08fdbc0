"""What an ending must say; a new ending is one subclass in one file and one line in the registry.

An ending is a frozen value in a plan. The master makes its rule when a round begins, tells it what happens, and asks it
whether the round may end; it knows nothing else about endings.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from echelon import checks

Row = tuple[int, int]  # slot and row
Lane = Collection[Row]

TIES = 1e-9  # relative slack of a wait for stragglers: what comes at its very end counts


class EndRule(ABC):
    """How far one round is, and whether it may end.

    A round ends at once where `over` says so. Where `met` holds and `ripe_at` is known, the clock ends it, at that time
    or now if the time has passed; what arrives at the same moment counts.

    due: slots that must be recovered. ripe_at: when the clock may end the round; None while that is not known.
    """

    due: tuple[int, ...]
    ripe_at: float | None = None

    @abstractmethod
    def arrived(self, row: Row, now: float) -> None:
        """Take note of a row."""

    @abstractmethod
    def settled(self, slot: int, now: float) -> bool:
        """Take note that a slot is recovered; return whether workers may stop working on it."""

    @abstractmethod
    def met(self, recovered: Sequence[bool]) -> bool:
        """Return whether everything that is required has come."""

    @abstractmethod
    def over(self, recovered: Sequence[bool], coming: Iterable[Row]) -> bool:
        """Return whether the round may end at once; `coming` are the rows on their way."""

    @abstractmethod
    def lacking(self, held: Collection[Row]) -> list[Row]:
        """Return rows that the round can't end without, other than those that recover slots.

        held: rows on their way. The rows returned are given out again; none is of a recovered slot.
        """

    def awaited(self, short: Callable[[int], int]) -> Iterable[int]:
        """Return the slots that must be recovered as things stand; what they lack is given out again.

        short: returns how many rows a slot lacks beyond those on their way; 0 where it is recovered.
        """
        return self.due


@dataclass(frozen=True, kw_only=True)
class Ending(ABC):
    """When a round ends that may leave some of its slots to later rounds.

    due: slots that must be recovered.
    """

    due: tuple[int, ...] = ()

    def check(self, *, slots: int, lanes: int) -> None:
        """Refuse a plan with this many slots and lanes where the ending names others."""
        for slot in self.due:
            checks.whole("ending: due", slot, least=0, most=slots - 1)

    def needed(self, slots: int) -> int:
        """Return how many slots must be recovered at least, where lanes serve so many."""
        return len(set(self.due))

    @abstractmethod
    def rule(self, lanes: Sequence[Lane], start: float) -> EndRule:
        """Return the rule of one round that begins at `start`, from the rows of its lanes."""
