"""What must be written by hand where the engine has no plans: who has which parts, what comes next, what has come."""

from collections import deque
from collections.abc import Collection, Mapping

import numpy as np

from bench.compare_cases import Case


class Hand:
    """One round after another of the same plan.

    A worker that has no more than `ahead` parts left gets the next batch of the pool, less what has come and what it
    has itself; so a part may be computed twice, where a worker would otherwise be idle.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._held: dict[int, list[int]] = {}
        self._pool: deque[list[int]] = deque()
        self.found: dict[int, np.ndarray] = {}

    def begin(self, alive: Collection[int]) -> dict[int, list[int]]:
        """Begin a round, and return what each worker has from the start; the shares of dead workers are pulled."""
        self.found = {}
        self._held = {place: list(self._case.lanes[place]) for place in alive}
        orphans = [[part] for place, lane in enumerate(self._case.lanes) if place not in alive for part in lane]
        self._pool = deque([*orphans, *self._case.batches])
        return {place: list(lane) for place, lane in self._held.items()}

    def came(self, place: int, values: Mapping[int, np.ndarray]) -> None:
        """Take in a message: what some parts gave."""
        self._held[place] = [part for part in self._held[place] if part not in values]
        self.found = {**values, **self.found}

    def more(self, place: int) -> list[int]:
        """Return what a worker gets now, if anything."""
        held = self._held[place]
        given: list[int] = []
        while self._pool and not given and len(held) <= self._case.ahead:
            given = [part for part in self._pool.popleft() if part not in self.found and part not in held]
        held += given
        return given

    def lost(self, place: int) -> None:
        """Hand out again what a dead worker had."""
        self._pool.extendleft([part] for part in self._held.pop(place, []))

    @property
    def done(self) -> bool:
        return len(self.found) == self._case.work.parts

    def whole(self) -> np.ndarray:
        """Return what all parts give together."""
        return self._case.work.whole([self.found[part] for part in range(self._case.work.parts)])
