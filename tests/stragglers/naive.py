"""The definitions of the models, word for word and slow, and models of small sizes to hold against them."""

from itertools import product

import numpy as np

from echelon.stragglers import Arbitrary, Bursts, StragglerModel


def naive(model: StragglerModel, pattern: np.ndarray) -> bool:
    """Look at every run of at most `window` consecutive rounds, one pair of worker and round at a time."""
    rounds, workers = pattern.shape
    for begin in range(rounds):
        inside = range(begin, min(begin + model.window, rounds))
        slow = {j: [t for t in inside if pattern[t, j]] for j in range(workers)}
        if isinstance(model, Arbitrary):
            if sum(len(ts) for ts in slow.values()) > model.count:
                return False
        else:
            assert isinstance(model, Bursts)
            if sum(bool(ts) for ts in slow.values()) > model.workers_at_once:
                return False
            if any(max(ts) - min(ts) + 1 > model.length for ts in slow.values() if ts):
                return False
    return True


def every_pattern(rounds: int, workers: int) -> list[np.ndarray]:
    """Return all 2^(rounds workers) patterns."""
    return [
        np.array(bits, dtype=bool).reshape(rounds, workers) for bits in product((False, True), repeat=rounds * workers)
    ]


def small_models(workers: int, window: int) -> list[StragglerModel]:
    """Return all models of this window that make sense with so many workers."""
    models: list[StragglerModel] = [Arbitrary(count=n, window=window) for n in range(workers * window)]
    models += [
        Bursts(workers_at_once=s, length=b, window=window)
        for s in range(workers + 1)
        for b in range(1, window + 1)
        if s * b < workers * window
    ]
    return models


# (workers, window, rounds) whose patterns can all be looked at
SIZES = [(1, 1, 5), (1, 3, 8), (2, 1, 3), (2, 2, 4), (2, 3, 4), (3, 2, 3), (4, 2, 2)]
CASES = [(model, workers, rounds) for workers, window, rounds in SIZES for model in small_models(workers, window)]
