"""The uniform split: the same number of rows for every worker, however fast; the baseline of the literature."""

import numpy as np

from echelon import checks
from echelon.profile import Speeds
from echelon.splits.base import Split, largest_remainder


def uniform(speeds: Speeds, tasks: int, gamma: float = 1.0, *, first: float = 1.0) -> Split:
    """Give every worker tasks/P rows, the first ones one more where that is not whole; gamma and first are ignored.

    >>> uniform(Speeds(np.ones(3), np.ones(3), np.zeros(3)), tasks=7).counts.tolist()
    [3, 2, 2]
    """
    checks.whole("tasks", tasks, least=1)
    checks.number("gamma", gamma, least=0)
    checks.number("first", first, least=1)
    checks.instance("speeds", speeds, Speeds)
    real = np.full(len(speeds), tasks / len(speeds))
    return Split(largest_remainder(real, tasks), real)
