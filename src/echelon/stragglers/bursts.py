"""Few workers slow at a time, each for a burst: prefer it where a slow worker stays slow for some rounds."""

from dataclasses import dataclass

import numpy as np

from echelon import checks
from echelon.arrays import BoolArray, IntArray
from echelon.errors import ArgumentError
from echelon.stragglers.base import Limits, StragglerModel


@dataclass(frozen=True, kw_only=True)
class Bursts(StragglerModel):
    """In any `window` rounds at most `workers_at_once` workers straggle, each within `length` consecutive rounds.

    A burst may have gaps: what counts is that a worker's first and last straggling round in a window are less than
    `length` apart. Two bursts of one worker are thus at least `window` - `length` + 1 calm rounds apart. Made for
    workers with memory (Gilbert-Elliott, Fritchman): with S workers at once and bursts of B rounds, S B results of a
    window may be missing, as in the (S B, W)-arbitrary model, but more workers can be ruled out as stragglers, so
    more of the work goes out uncoded.

    Differs from paper: its model for bursts stands in section 3.2.3 of a supplement that is not available. This is
    our own design; the paper's N = 4, W = 4 for the Fritchman model may be any of S B = 4.

    >>> model = Bursts(workers_at_once=1, length=2, window=3)
    >>> history = np.array([[False, False], [True, False]])
    >>> model.longest(history).tolist()
    [1, 0]
    >>> model.limits(history)
    (((1,), 0),)
    """

    workers_at_once: int
    length: int
    window: int

    def __post_init__(self) -> None:
        checks.whole("workers_at_once", self.workers_at_once, least=0)
        checks.whole("window", self.window, least=1)
        if checks.whole("length", self.length, least=1) > self.window:
            raise ArgumentError(f"length: {self.length} is not allowed; must be at most the window, {self.window}")

    @property
    def most(self) -> int:
        """S workers that straggle for B rounds."""
        return self.workers_at_once * self.length

    def check_workers(self, workers: int) -> None:
        """Raise `ArgumentError` unless S <= P and S B <= W P - 1."""
        most = checks.whole("workers", workers, least=1) - (self.length == self.window)
        if self.workers_at_once > most:
            raise ArgumentError(
                f"workers_at_once: {self.workers_at_once} is not allowed with {workers} workers, length {self.length} "
                f"and window {self.window}; must be at most {most}"
            )

    def fits(self, patterns: BoolArray) -> BoolArray:
        """Return which patterns have few enough workers and short enough spans in every window."""
        fit = np.ones(patterns.shape[:-2], dtype=bool)
        rounds = patterns.shape[-2]
        size = min(self.window, rounds)
        if not size:
            return fit
        windows = np.lib.stride_tricks.sliding_window_view(patterns, size, axis=-2)
        slow = windows.any(axis=-1)
        first, after = windows.argmax(axis=-1), size - windows[..., ::-1].argmax(axis=-1)
        fit &= (slow.sum(axis=-1) <= self.workers_at_once).all(axis=-1)
        fit &= ~(slow & (after - first > self.length)).any(axis=(-1, -2))
        return fit

    def longest(self, history: BoolArray) -> IntArray:
        """Return B less the age of a worker's burst, where there is room for one more worker or it is one of them.

        With d rounds since the burst began, r more rounds make a span of d + r, or of W where that is less: r is
        unbounded if B = W and otherwise at most B - d. The window of most other workers is the one that ends next.
        """
        began = self._began(history)
        others = np.count_nonzero(began) - (began > 0)
        left = self.window if self.length == self.window else np.maximum(self.length - began, 0)
        longest: IntArray = np.where(others < self.workers_at_once, left, 0)
        return longest

    def limits(self, history: BoolArray) -> Limits:
        """Return a pair for the workers that are fresh, and one for those whose burst would get too long.

        Only one window holds the next round and none after it, so nothing else binds. Workers in the middle of
        a burst are in neither pair.
        """
        began = self._began(history)
        fresh = tuple(np.flatnonzero(began == 0).tolist())
        over = tuple(np.flatnonzero(began >= self.length).tolist())
        room = max(self.workers_at_once - int(np.count_nonzero(began)), 0)
        pairs = ((fresh, min(room, len(fresh))), (over, 0))
        return tuple((workers, most) for workers, most in pairs if workers)

    def _began(self, history: BoolArray) -> IntArray:
        """Return how many rounds before the next one each worker first straggled within the window; 0 for never."""
        recent = self.recent(history)
        if not len(recent):
            return np.zeros(history.shape[1], dtype=np.int64)
        began: IntArray = np.where(recent.any(axis=0), len(recent) - recent.argmax(axis=0), 0)
        return began
