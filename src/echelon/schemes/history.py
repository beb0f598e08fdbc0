"""What the windows of all chains remember: who straggled in the last rounds, as far as a model of stragglers asks."""

from collections.abc import Collection

import numpy as np

from echelon.arrays import BoolArray
from echelon.plan import Plan
from echelon.stragglers import Limits, StragglerModel


class History:
    """Stragglers of the last rounds, shape (rounds, workers); no more rounds than share a window with the next one."""

    def __init__(self, workers: int, model: StragglerModel | None) -> None:
        self.model = model
        self.stragglers: BoolArray = np.zeros((0, workers), dtype=bool)

    def limits(self) -> Limits:
        """Return which workers may straggle in the next round; without a model all may."""
        return () if self.model is None else self.model.limits(self.stragglers)

    def note(self, stragglers: BoolArray) -> None:
        """Take note of a round's stragglers, shape (workers,)."""
        keep = 0 if self.model is None else self.model.window - 1
        seen = np.concatenate([self.stragglers, stragglers[None]])
        self.stragglers = seen[max(0, len(seen) - keep) :]


def missed(
    plan: Plan, received: Collection[tuple[int, int]], settled: Collection[int]
) -> list[tuple[int, tuple[int, int]]]:
    """Return rows that did not come and are still needed, each with the place that owes it: who has one straggled."""
    return [
        (place, (task.slot, task.row))
        for place, lane in enumerate(plan.lanes)
        for task in lane
        if (task.slot, task.row) not in received and task.slot not in settled
    ]
