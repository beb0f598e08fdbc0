"""Chains of gradients driven by hand: stragglers return nothing of their lane, and what is promised is checked.

The check has its own way: a gradient is there when a sum of the rows that came is the sum of all chunks (least squares
over the codes' matrices), whatever the window believes.
"""

from copy import deepcopy

import numpy as np

from echelon.schemes import GradientWindow
from echelon.stragglers import keeps_to


def solvable(matrix):
    """Return whether the sum of all parts is a combination of these rows."""
    if not len(matrix):
        return False
    ones = np.ones(matrix.shape[1])
    weights = np.linalg.lstsq(matrix.T, ones, rcond=None)[0]
    return bool(np.abs(weights @ matrix - ones).max() < 1e-6)


class Chain:
    """A chain of which everything is known. found: rounds after its first in which each gradient was there."""

    def __init__(self, scheme, known=None):
        self.scheme, self.window, self.round = scheme, GradientWindow(scheme), 0
        self.came, self.found, self.most = {}, {}, 0.0
        self.known = {} if known is None else known  # which sets of rows of a code give its sum

    def copy(self):
        return deepcopy(self, {id(one): one for one in (self.scheme, self.known)})

    def _decodes(self, unit, rows):
        kind = min(unit, len(self.scheme.codes) - 1)
        key = kind, frozenset(rows)
        if key not in self.known:
            self.known[key] = solvable(self.scheme.codes[kind].matrix[sorted(rows)])
        return self.known[key]

    def there(self, gradient):
        """Return whether the chunks of a gradient can be added up from what came."""
        return all(self._decodes(unit, self.came.get((gradient, unit), ())) for unit in range(self.scheme.units))

    def step(self, slow, order=None):
        """Go through a round in which these workers return nothing; those first in `order` are waited for, if need be.

        Return for how many that was.
        """
        plan = self.window.open(self.round)
        self.most = max([self.most, *(sum(task.cost for task in lane) for lane in plan.lanes)])
        missing, waited = set(np.flatnonzero(slow).tolist()), 0
        for place in [] if order is None else order:
            if self._conforms(plan, missing):
                break
            waited += place in missing
            missing.discard(int(place))
        assert self._conforms(plan, missing), f"round {self.round}: limits"
        received, settled = self._received(plan, missing)
        assert set(plan.ending.due) <= settled, f"round {self.round}: what is due lacks results"
        for slot, row in received:
            self.came.setdefault(plan.units[slot], set()).add(row)
        for gradient in self.window.close(received, settled):
            assert self.there(gradient)
            self.found[gradient] = self.round - gradient
        self.round += 1
        return waited

    def _received(self, plan, missing):
        """Return the rows that come from all other workers, and the slots that these and earlier ones recover."""
        received = {(task.slot, task.row) for p, lane in enumerate(plan.lanes) if p not in missing for task in lane}
        settled = {
            slot
            for slot in {slot for slot, _ in received}
            if self._decodes(
                plan.units[slot][1],
                self.came.get(plan.units[slot], set()) | {row for at, row in received if at == slot},
            )
        }
        return received, settled

    def _conforms(self, plan, missing):
        _, settled = self._received(plan, missing)
        undone = [p in missing and any(task.slot not in settled for task in lane) for p, lane in enumerate(plan.lanes)]
        return keeps_to(plan.ending.limits, np.array(undone))


def through_all(scheme, patterns):
    """Yield a chain after each pattern; patterns that begin alike share their rounds."""
    stack, before = [Chain(scheme)], np.zeros((0, scheme.workers), dtype=bool)
    for pattern in patterns:
        same = 0
        while same < min(len(before), len(stack) - 1) and (before[same] == pattern[same]).all():
            same += 1
        del stack[same + 1 :]
        for slow in pattern[same:]:
            chain = stack[-1].copy()
            chain.step(slow)
            stack.append(chain)
        before = pattern
        yield stack[-1]
