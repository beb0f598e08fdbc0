"""How many local steps each worker takes in a round: as many each, or in proportion to its speed."""

from collections.abc import Mapping, Sequence
from statistics import median

_NEW = 0.3  # weight of the last round in what is known of a worker's pace
_LATE = 1.5  # how much longer than the last one that came a worker is taken to need that was left out


class Shares:
    """Steps that are the same in every round.

    >>> Shares([3, 4]).steps
    (3, 4)
    """

    def __init__(self, steps: Sequence[int]) -> None:
        self.steps = tuple(steps)

    def observe(self, seconds: Mapping[int, float]) -> None:
        """Take note of how long the workers took that came."""


class SharesBySpeed(Shares):
    """Steps in proportion to speed, so that all workers are done at once; about as many in all as these.

    A worker's pace is how long it takes for a step, of late. One that was left out took longer than the last one that
    came, and nobody knows how much longer: it counts with half as much again, unless it is known to be slower.

    >>> shares = SharesBySpeed([8, 8, 8])
    >>> shares.observe({0: 8.0, 1: 16.0})
    >>> shares.steps
    (13, 7, 4)
    """

    def __init__(self, steps: Sequence[int]) -> None:
        super().__init__(steps)
        self._all, self._paces = sum(steps), dict[int, float]()

    def observe(self, seconds: Mapping[int, float]) -> None:
        """Take note of how long the workers took that came."""
        paces, longest = self._paces, max(seconds.values(), default=0.0)
        for place, steps in enumerate(self.steps):
            seen = seconds.get(place, _LATE * longest) / steps
            known = paces.get(place, seen)
            paces[place] = (1 - _NEW) * known + _NEW * (seen if place in seconds else max(seen, known))
        usual = median(paces.values())
        if usual > 0:
            speeds = [1 / max(paces[place], 1e-6 * usual) for place in range(len(self.steps))]
            self.steps = tuple(max(1, round(self._all * speed / sum(speeds))) for speed in speeds)
