"""Policies: rounds of sums that may end without some of their rows, by how much of the sums there is, or by the clock.

A round always ends at once when it is exact, and never with nothing. Policies combine: ``a & b`` ends a round when both
would, ``a | b`` when one would. What is there is measured by the effective weights alpha that the rows give to the
parts, as near to 1 as they come:

    share = 1 - |alpha - 1|^2 / |1|^2,    residual = |alpha - 1| / |1|

so the share is that of the parts where rows are single parts or sums of groups.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from echelon import checks
from echelon.endings.base import TIES, Ending, EndRule, Lane, Row
from echelon.endings.curves import Curves
from echelon.endings.sums import Sums
from echelon.errors import ArgumentError

AUTO = "auto"


class Condition(ABC):
    """Since when one round may end, as far as one policy says."""

    @abstractmethod
    def look(self, sums: Sums, now: float) -> float | None:
        """Return the time from which the round may end as things stand now; None while that is not known."""


class Policy(Ending):
    """An ending by what is there of the sums, or by the clock. See the module."""

    approximate: ClassVar[bool] = True

    def learnt(self, rounds: Curves) -> "Policy":
        """Return the policy with each time that is "auto" as these rounds suggest."""
        return self

    @abstractmethod
    def enough(self, share: float, slots: int) -> bool:
        """Return whether rows that are lost need not be given out again where so much comes without them.

        share: of the sums. slots: how many of them are recovered.
        """

    @abstractmethod
    def condition(self, start: float) -> Condition:
        """Return the condition of one round that begins at `start`."""

    def needed(self, slots: int) -> int:
        """Return how many slots must have enough planned rows: all, unless a policy says less."""
        return slots

    def check(self, *, slots: int, lanes: int, sums: bool) -> None:
        """Refuse plans of which nobody knows how near their rows come to a sum."""
        if not sums:
            raise ArgumentError(
                f"ending: {self} is not allowed for this plan; every slot must have a code that gives one sum of its "
                "parts, by real numbers (echelon.schemes.CodedPlan): what fewer rows are worth is not known of others"
            )

    def rule(self, lanes: Sequence[Lane], start: float, sums: Sums) -> "PolicyRule":
        """Return the rule of one round that begins at `start`."""
        return PolicyRule(self, start, sums)

    def __and__(self, other: "Policy") -> "Policy":
        return Both(self, other)

    def __or__(self, other: "Policy") -> "Policy":
        return Either(self, other)


class PolicyRule(EndRule):
    """What is there of the sums of one round, and since when it may end."""

    def __init__(self, policy: Policy, start: float, sums: Sums) -> None:
        self._policy, self._sums, self._condition = policy, sums, policy.condition(start)
        self._since = self._condition.look(sums, start)

    def arrived(self, row: Row, now: float) -> None:
        """Look at what is there now."""
        self._since = self._condition.look(self._sums, now)

    def dropped(self, now: float) -> None:
        """Look at what is there now."""
        self._since = self._condition.look(self._sums, now)

    def settled(self, slot: int, now: float) -> bool:
        """Look at what is there now; workers may stop working on a slot that is recovered."""
        self._since = self._condition.look(self._sums, now)
        return True

    def ripe(self, recovered: Sequence[bool]) -> float | None:
        """Return when the clock may end the round, if something is there."""
        return self._since if self._sums.share > TIES else None

    def met(self, recovered: Sequence[bool]) -> bool:
        """Return whether the round could do without all that is on its way."""
        return self.ripe(recovered) is not None and self._policy.enough(self._sums.share, sum(recovered))

    def over(self, recovered: Sequence[bool], coming: Iterable[Row]) -> bool:
        """Return whether the round is exact, or has enough and nothing that counts is on its way."""
        return all(recovered) or (self.met(recovered) and not any(not recovered[slot] for slot, _ in coming))

    def lacking(self, held: Collection[Row]) -> list[Row]:
        """Return no rows: what counts are slots."""
        return []

    def awaited(self, short: Callable[[int], int]) -> Iterable[int]:
        """Return slots without which too little would be there, those that lack least first."""
        sums = self._sums
        short_of = {slot: short(slot) for slot, recovered in enumerate(sums.recovered) if not recovered}
        lost = sorted((slot for slot, lack in short_of.items() if lack), key=lambda slot: (short_of[slot], slot))
        missing, slots = sum(sums.missed[slot] for slot in lost), len(sums.recovered) - len(lost)
        wanted: list[int] = []
        for slot in lost:
            if self._policy.enough(1 - missing / sums.whole, slots):
                break
            wanted.append(slot)
            missing, slots = missing - sums.missed[slot], slots + 1
        return wanted


@dataclass(frozen=True, repr=False)
class _Two(Policy):
    """Two policies."""

    one: Policy
    other: Policy

    def __post_init__(self) -> None:
        for policy in (self.one, self.other):
            checks.instance("policy", policy, Policy)  # type: ignore[type-abstract]

    def check(self, *, slots: int, lanes: int, sums: bool) -> None:
        """Refuse what one of them refuses."""
        for policy in (self.one, self.other):
            policy.check(slots=slots, lanes=lanes, sums=sums)

    @property
    def learns(self) -> bool:
        """Whether one of them learns."""
        return self.one.learns or self.other.learns

    def learnt(self, rounds: Curves) -> Policy:
        """Return the same with what each has learnt."""
        return type(self)(self.one.learnt(rounds), self.other.learnt(rounds))


class Both(_Two):
    """End a round when both policies would; written ``a & b``.

    >>> from echelon.endings import Deadline, Quorum
    >>> Deadline(2.0) & Quorum(0.9)  # exact, or else after two seconds, but with 90 % at least
    Deadline(seconds=2.0) & Quorum(share=0.9, least=0, grace=0.0, stretch=0.0)
    """

    def enough(self, share: float, slots: int) -> bool:
        """Return whether both have enough."""
        return self.one.enough(share, slots) and self.other.enough(share, slots)

    def condition(self, start: float) -> Condition:
        """Return that both hold."""
        return _Last(self.one.condition(start), self.other.condition(start))

    def needed(self, slots: int) -> int:
        """Return the larger of both numbers."""
        return max(self.one.needed(slots), self.other.needed(slots))

    def __repr__(self) -> str:
        return " & ".join(f"({one!r})" if isinstance(one, Either) else repr(one) for one in (self.one, self.other))


class Either(_Two):
    """End a round when one of two policies would; written ``a | b``.

    >>> from echelon.endings import Deadline, Residual
    >>> Residual(0.1) | Deadline(2.0)
    Residual(most=0.1) | Deadline(seconds=2.0)
    """

    def enough(self, share: float, slots: int) -> bool:
        """Return whether one has enough."""
        return self.one.enough(share, slots) or self.other.enough(share, slots)

    def condition(self, start: float) -> Condition:
        """Return that one holds."""
        return _First(self.one.condition(start), self.other.condition(start))

    def needed(self, slots: int) -> int:
        """Return the smaller of both numbers."""
        return min(self.one.needed(slots), self.other.needed(slots))

    def __repr__(self) -> str:
        return f"{self.one!r} | {self.other!r}"


class _Pair(Condition):
    """Two conditions; each is looked at every time, since it may remember."""

    def __init__(self, one: Condition, other: Condition) -> None:
        self._one, self._other = one, other


class _Last(_Pair):
    def look(self, sums: Sums, now: float) -> float | None:
        """Return the later of both times, if both are known."""
        one, other = self._one.look(sums, now), self._other.look(sums, now)
        return None if one is None or other is None else max(one, other)


class _First(_Pair):
    def look(self, sums: Sums, now: float) -> float | None:
        """Return the earlier of those times that are known."""
        known = [at for at in (self._one.look(sums, now), self._other.look(sums, now)) if at is not None]
        return min(known, default=None)
