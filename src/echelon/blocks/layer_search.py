"""The search for the levels of layers: every way to cut them where there are few, else climbs from many starts.

Levels that do not fall are cuts: e_n layers have level n or a lower one. Cuts are scored by the mean of
max_n T_(N-n) c_n over draws that all of them share. That is no less than max_n t_{N-n} c_n, with t the means over the
same draws: cuts are tried in the order of this bound, and only up to the best score found.
"""

from itertools import combinations_with_replacement
from math import comb

import numpy as np

from echelon.arrays import FloatArray, IntArray
from echelon.blocks.layer_costs import LayerCosts

_BATCH = 1 << 19  # numbers held at once
_CLIMBS = 200  # moves of a climb at most


class LayerSearch:
    """Cuts of layers and their scores on draws.

    times: sorted, shape (draws, workers). held: how many levels may be used; cuts have shape (..., held).
    """

    def __init__(self, costs: LayerCosts, times: FloatArray, held: int) -> None:
        self._costs, self._held = costs, held
        self._slowest = np.ascontiguousarray(times[:, ::-1][:, :held].T)  # row n is T_(N-n)
        self._means = self._slowest.mean(axis=1)

    @property
    def ways(self) -> int:
        """Number of ways to give levels to the layers: C(held + B - 1, B)."""
        return comb(self._held + self._costs.layers - 1, self._costs.layers)

    def every(self) -> IntArray:
        """Return all cuts, shape (ways, held)."""
        layers = self._costs.layers
        ways = combinations_with_replacement(range(layers + 1), self._held - 1)
        return np.array([(*way, layers) for way in ways], dtype=np.int64)

    def singles(self) -> IntArray:
        """Return the cuts into one block, by its level, shape (held, held)."""
        return self._costs.layers * np.tri(self._held, dtype=np.int64).T

    def best(self, cuts: IntArray, count: int) -> IntArray:
        """Return the `count` cuts of least score, or all if there are fewer, the best first."""
        bounds = (self._costs.work_of_cuts(cuts) * self._means).max(axis=1)
        order = np.argsort(bounds, kind="stable")
        rows = max(1, _BATCH // self._slowest.shape[1])
        kept, scores = order[:0], np.empty(0)
        for at in range(0, len(order), rows):
            batch = order[at : at + rows]
            if len(kept) == count and bounds[batch[0]] >= scores[-1]:
                break
            kept = np.concatenate([kept, batch])
            scores = np.concatenate([scores, self._scores(cuts[batch])])
            least = np.argsort(scores, kind="stable")[:count]
            kept, scores = kept[least], scores[least]
        return cuts[kept]

    def climbed(self, cuts: IntArray) -> IntArray:
        """Return cuts that no move improves, climbing from those given, shape (held,)."""
        for _ in range(_CLIMBS):
            better = self.best(np.vstack([cuts, self._moves(cuts)]), 1)[0]
            if (better == cuts).all():
                break
            cuts = better
        return cuts

    def _scores(self, cuts: IntArray) -> FloatArray:
        work = self._costs.work_of_cuts(cuts)
        latest = work[:, :1] * self._slowest[0]
        for n in range(1, self._held):
            np.maximum(latest, work[:, n, None] * self._slowest[n], out=latest)
        scores: FloatArray = latest.mean(axis=1)
        return scores

    def _moves(self, cuts: IntArray) -> IntArray:
        """Return cuts with e_i … e_j all put at one place; those before and after give way as far as they must.

        That shifts a boundary, splits a block, joins two, or gives a block another level.
        """
        first, last, place = np.meshgrid(
            np.arange(self._held), np.arange(self._held - 1), np.arange(self._costs.layers + 1), indexing="ij"
        )
        sensible = first <= last
        first, last, place = (some[sensible][:, None] for some in (first, last, place))
        n = np.arange(self._held)
        moved = np.where(n < first, np.minimum(cuts, place), np.where(n > last, np.maximum(cuts, place), place))
        return np.unique(moved, axis=0)
