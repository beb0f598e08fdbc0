"""What a training found."""

from dataclasses import dataclass, field
from math import inf, isnan
from typing import Any, NamedTuple

from echelon.reprs import short_repr


class Validated(NamedTuple):
    """A validation after so many steps. metric: None where none was asked for."""

    step: int
    loss: float
    metric: float | None


@dataclass
class Trained:
    """What a training found so far, or in all.

    losses: of the mini-batch of each step. validated: each validation.
    ended: what ended it, "steps", "epochs", "stop" or "callback"; empty before.
    best: the weights that had the lowest loss, where it may end early.
    """

    losses: list[float] = field(default_factory=list)
    validated: list[Validated] = field(default_factory=list)
    ended: str = ""
    best: dict[str, Any] | None = field(default=None, repr=False)

    __repr__ = short_repr

    def since_best(self) -> int:
        """Return how many validations came after the one with the lowest loss; one that is no number is none.

        >>> Trained(validated=[Validated(1, 0.5, None), Validated(2, 0.4, None), Validated(3, 0.4, None)]).since_best()
        1
        >>> Trained(validated=[Validated(1, float("nan"), None), Validated(2, 0.4, None)]).since_best()
        0
        """
        losses = [inf if isnan(one.loss) else one.loss for one in self.validated]
        return len(losses) - 1 - losses.index(min(losses)) if losses else 0
