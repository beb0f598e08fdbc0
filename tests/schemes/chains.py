"""Chains of products driven by hand: stragglers return nothing of their lane, and what is promised is checked."""

from copy import deepcopy
from functools import cache

import numpy as np

from echelon.codes import Decoder
from echelon.codes.products import assemble_product, coded_factor
from echelon.schemes import Window
from echelon.stragglers import keeps_to


@cache
def decoder(scheme):
    """Return the decoder that all tests of a scheme share; half of the digits must be left."""
    return Decoder(scheme.code, limit=1e8)


class Matrices:
    """Two small factors whose sizes do not divide, and what each row of a code gives."""

    def __init__(self, scheme, seed=7):
        rng, code = np.random.default_rng(seed), scheme.code
        x, z, y = code.blocks
        first, second = rng.standard_normal((2 * x - (x > 1), 3)), rng.standard_normal((3, 2 * y - (y > 1)))
        self.code, self.product = code, first @ second
        self.results = [
            coded_factor(first, code.left[row], x, z) @ coded_factor(second, code.right[row], z, y)
            for row in range(code.rows)
        ]

    def check(self, weights):
        messages = [self.results[row] for row in weights.rows.tolist()]
        found = assemble_product(self.code, weights, messages, self.product.shape)
        np.testing.assert_allclose(found, self.product, atol=1e-8)


class Chain:
    """A chain of which everything is known: rows that came of each product, and plain ones that were given out.

    found: products by the number of rounds after their first in which they were decoded. most: tasks of the longest
    lane so far. early: whether a product was there before its last round.
    """

    def __init__(self, scheme, products, matrices=None):
        self.scheme, self.products, self.matrices = scheme, products, matrices
        self.window, self.round, self.most, self.early = Window(scheme), 0, 0, False
        self.found, self.came, self.plain, self.owed = {}, {}, {}, {}

    def copy(self):
        shared = (self.scheme, self.matrices)
        return deepcopy(self, {id(one): one for one in shared})

    def step(self, slow, order=None):
        """Go through a round in which these workers are slow; those first in `order` are waited for, if need be."""
        begins = self.round if self.round < self.products else None
        plan = self.window.open(begins)
        if plan is None:
            self.round += 1
            return
        self._look_at(plan)
        missing = set(np.flatnonzero(slow).tolist())
        for worker in [] if order is None else order:
            if keeps_to(plan.ending.limits, self._undone(plan, missing)) and self._there(plan, missing):
                break
            missing.discard(int(worker))
        assert keeps_to(plan.ending.limits, self._undone(plan, missing)), f"round {self.round}: limits"
        received = self._received(plan, missing)
        settled = self._settled(plan, received)
        assert set(plan.ending.due) <= settled, f"round {self.round}: a product that is due lacks results"
        for slot, row in received:
            self.came.setdefault(plan.products[slot], set()).add(row)
        self.owed = {
            (plan.products[task.slot], task.row): place
            for place in missing
            for task in plan.lanes[place]
            if task.slot not in settled
        }
        for slot in settled:
            self._finish(plan.products[slot])
        assert self.window.close(received, settled) == [plan.products[slot] for slot in sorted(settled)]
        self.round += 1

    def _look_at(self, plan):
        counts = plan.counts
        assert counts.min() == counts.max(), "all workers get as much"
        self.most = max(self.most, int(counts.max()))
        seen = [(plan.products[task.slot], task.row) for lane in plan.lanes for task in lane]
        assert len(set(seen)) == len(seen), "a row is given to two workers"
        for place, lane in enumerate(plan.lanes):
            assert [task.slot for task in lane] == sorted(task.slot for task in lane), "the newest product first"
            for task in lane:
                product = plan.products[task.slot]
                assert task.row not in self.came.get(product, ()), "a row is given out that came before"
                # what a worker owes is given to nobody else
                assert self.owed.get((product, task.row), place) == place
                if self.scheme.model is not None and task.row < self.scheme.threshold:
                    self.plain.setdefault(product, set()).add(task.row)

    def _received(self, plan, missing):
        return {(task.slot, task.row) for p, lane in enumerate(plan.lanes) if p not in missing for task in lane}

    def _settled(self, plan, received):
        counts = {slot: sum(at == slot for at, _ in received) for slot in range(len(plan.slots))}
        return {slot for slot, count in counts.items() if count >= plan.slots[slot].threshold}

    def _there(self, plan, missing):
        return set(plan.ending.due) <= self._settled(plan, self._received(plan, missing))

    def _undone(self, plan, missing):
        settled = self._settled(plan, self._received(plan, missing))
        return np.array([
            place in missing and any(task.slot not in settled for task in lane)
            for place, lane in enumerate(plan.lanes)
        ])  # fmt: skip

    def _finish(self, product):
        rounds = self.round - product
        weights = decoder(self.scheme).weights(sorted(self.came[product]))
        if self.matrices is not None:
            self.matrices.check(weights)
        if rounds == self.scheme.delay:
            assert self.plain.get(product, set()) <= self.came[product], "an uncoded mini-task did not succeed"
        self.early |= rounds < self.scheme.delay
        self.found[product] = rounds


def through_all(scheme, patterns, products, matrices=None):
    """Yield a chain at the end of each pattern; those that begin in the same way are gone through once."""
    before, stack = None, [Chain(scheme, products, matrices)]
    for pattern in patterns:
        same = 0 if before is None else int(np.argmax((pattern != before).any(axis=1)))
        del stack[same + 1 :]
        for slow in pattern[same:]:
            chain = stack[-1].copy()
            try:
                chain.step(slow)
            except AssertionError as error:
                raise AssertionError(f"{error}; pattern {pattern.astype(int).tolist()}") from error
            stack.append(chain)
        before = pattern
        yield stack[-1]
