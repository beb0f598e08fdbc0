"""Patterns of slow rounds: drawn from a law, turned into paces, and what is left of them after waiting."""

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import BoolArray, FloatArray, IntArray
from echelon.delays import Delay, Deterministic, Fritchman, Straggler
from echelon.errors import ArgumentError
from echelon.stragglers.base import StragglerModel, checked_pattern, keeps_to


def slow_rounds(law: Delay, rounds: int, workers: int, rng: Generator) -> BoolArray:
    """Return which workers are slow in which rounds, shape (rounds, workers), from the long-run law.

    The law is one that slows down whole rounds: `Straggler`, `Fritchman` or `GilbertElliott`.

    >>> law = Straggler(base=Deterministic(time=1.0), probability=0.25, slowdown=5.0)
    >>> slow_rounds(law, 3, 2, np.random.default_rng(1)).tolist()
    [[False, False], [False, False], [True, False]]
    """
    if not isinstance(law, Straggler | Fritchman):
        raise ArgumentError(f"law: {law!r} is not allowed; must be a Straggler, a Fritchman or a GilbertElliott")
    size = (checks.whole("workers", workers, least=1), checks.whole("rounds", rounds, least=0), 1)
    # a chain of constant tasks that take 1 or 2 tells its slow rounds, whatever the law's own tasks are
    bare = replace(law, base=Deterministic(time=1.0), slowdown=2.0)
    slow: BoolArray = bare.sample(size, rng)[..., 0].T > 1.5
    return slow


def paces(pattern: BoolArray, slowdown: float) -> FloatArray:
    """Return how long a task of cost one takes: 1, and `slowdown` for a straggler (sequential, section 4: alpha).

    >>> paces(np.array([[True, False]]), 5.0).tolist()
    [[5.0, 1.0]]
    """
    checks.number("slowdown", slowdown, least=1)
    return np.where(checked_pattern("pattern", pattern), float(slowdown), 1.0)


def waited(
    pattern: BoolArray, model: StragglerModel, order: Generator | IntArray, *, together: bool = False
) -> BoolArray:
    """Return the stragglers that are left after waiting, same shape (sequential, end of section 3.2.2).

    In a round that would not conform, the master waits for slow workers one after another, which then no longer
    count as stragglers, until the pattern conforms. `order` lists workers by when they finish, the first one first: a
    permutation, one per round in an array of shape (rounds, workers), or a generator that draws them.

    Where slow workers all take the same time (sequential, section 4), they all return when the first of them does:
    with `together` a round that waits has no stragglers at all, and neither has one in which all workers are slow.

    >>> from echelon.stragglers import Arbitrary
    >>> slow = np.array([[True, True, False], [True, True, False]])
    >>> waited(slow, Arbitrary(count=3, window=2), np.array([1, 0, 2])).astype(int).tolist()
    [[1, 1, 0], [1, 0, 0]]
    >>> waited(slow, Arbitrary(count=3, window=2), np.array([1, 0, 2]), together=True).astype(int).tolist()
    [[1, 1, 0], [0, 0, 0]]
    """
    rounds, workers = checked_pattern("pattern", pattern).shape
    orders = _orders(order, rounds, workers)
    left = pattern.copy()
    for t, stragglers in enumerate(left):
        if together and stragglers.all():
            stragglers[:] = False
        if not stragglers.any():
            continue
        limits = model.limits(left[max(0, t - model.window + 1) : t])
        for worker in orders[t]:
            if keeps_to(limits, stragglers):
                break
            stragglers[slice(None) if together else worker] = False
    return left


def _orders(order: Generator | IntArray, rounds: int, workers: int) -> IntArray:
    """Return one permutation of the workers per round, shape (rounds, workers)."""
    everyone = np.broadcast_to(np.arange(workers), (rounds, workers))
    if isinstance(order, Generator):
        return order.permuted(everyone, axis=1)
    given = np.asarray(order)
    if given.shape not in ((workers,), (rounds, workers)) or not (np.sort(given, axis=-1) == everyone).all():
        raise ArgumentError(
            f"order: an array of shape {given.shape} is not allowed; must be a permutation of {workers} workers, "
            f"or one for each of {rounds} rounds"
        )
    return np.broadcast_to(given, (rounds, workers))
