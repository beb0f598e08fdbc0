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

    def step(self, slow):
        """Go through a round in which these workers return nothing; they conform, unless they owe nothing."""
        plan = self.window.open(self.round)
        loads = [sum(task.cost for task in lane) for lane in plan.lanes]
        self.most = max(self.most, *loads)
        received = {(task.slot, task.row) for p in np.flatnonzero(~slow) for task in plan.lanes[p]}
        for slot, row in received:
            self.came.setdefault(plan.units[slot], set()).add(row)
        settled = {
            slot
            for slot, (gradient, unit) in enumerate(plan.units)
            if any(at == slot for at, _ in received) and self._decodes(unit, self.came.get((gradient, unit), ()))
        }
        undone = np.array([any(task.slot not in settled for task in lane) and bool(slow[p])
                           for p, lane in enumerate(plan.lanes)])  # fmt: skip
        assert keeps_to(plan.ending.limits, undone), f"round {self.round}: limits"
        assert set(plan.ending.due) <= settled, f"round {self.round}: what is due lacks results"
        for gradient in self.window.close(received, settled):
            assert self.there(gradient)
            self.found[gradient] = self.round - gradient
        self.round += 1


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
