"""What rows can tell about one another: which of them check each other, and which wrong ones they can name.

Messages without errors are vectors B x, one number per row. Two sets of errors can be mistaken for each other where
they differ by such a vector; so the smallest number of non-zero entries in one, the distance d of the code on these
rows, decides: up to (d - 1) / 2 wrong messages have one explanation, and no smaller one.
"""

from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np

from echelon.arrays import IntArray, NumberArray
from echelon.codes.base import Code

SEARCH = 200_000  # sets that a search may try
_CHUNK = 4096  # sets at a time
_APART = 1e-9  # of a projector whose entries are 1 at most: below it rows have nothing to do with each other
_DEPENDENT = 1e-7  # directions of length 1 whose smallest singular value is below this are dependent


def components(cancel: NumberArray) -> list[IntArray]:
    """Return the sets of rows that check each other, given orthonormal combinations that cancel, shape (checks, rows).

    Rows in no check are left out: nothing can be said about them.
    """
    linked = np.abs(cancel.conj().T @ cancel) > _APART
    left, found = set(np.flatnonzero(linked.diagonal()).tolist()), []
    while left:
        reached, fresh = set(), {min(left)}
        while fresh:
            reached |= fresh
            fresh = set(np.flatnonzero(linked[sorted(fresh)].any(axis=0)).tolist()) - reached
        left -= reached
        found.append(np.array(sorted(reached), dtype=np.int64))
    return found


def tells(code: Code, cancel: NumberArray, wrong: Sequence[int]) -> bool:
    """Return whether these wrong messages can't be mistaken for others, as many or fewer, whatever is wrong in them.

    cancel: the checks of rows that check each other, shape (checks, rows); wrong: their places. This holds where each
    of them has a non-zero entry only in vectors B x that have more than twice as many. That is known where one number
    decides all messages (copies), and where any `threshold` rows are independent, as counting codes promise; elsewhere
    it is searched for, and not claimed where that would take more than 200 000 sets. Copies that agree may be wrong for
    the same reason: a majority of one is not enough.

    >>> from echelon.codes import fractional_repetition
    >>> cancel = np.linalg.svd(np.ones((4, 1)))[0][:, 1:].T
    >>> [tells(fractional_repetition(rows=4, load=4), cancel, wrong) for wrong in ([2], [1, 2])]
    [True, False]
    """
    checks, count = int(cancel.shape[0]), int(cancel.shape[1])
    rank = count - checks
    if rank == 1:
        return 2 * len(wrong) + 2 <= count
    if code.counting and rank == code.threshold:
        return 2 * len(wrong) <= checks
    return _searched(cancel, wrong)


def _searched(cancel: NumberArray, wrong: Sequence[int]) -> bool:
    """Return whether any directions, twice as many as are wrong and a wrong one among them, are independent."""
    checks, count = cancel.shape
    others = 2 * len(wrong) - 1
    if others + 1 > checks or len(wrong) * comb(count - 1, others) > SEARCH:
        return False
    directions = (cancel / np.linalg.norm(cancel, axis=0)).T
    for place in wrong:
        rest = np.delete(np.arange(count), place)
        sets = np.array(list(combinations(rest.tolist(), others)))
        sets = np.concatenate([np.full((len(sets), 1), place), sets], axis=1)
        for at in range(0, len(sets), _CHUNK):
            # how much of the direction is left outside the span of the others
            sizes = np.linalg.svd(directions[sets[at : at + _CHUNK]], compute_uv=False)
            if sizes[:, -1].min() <= _DEPENDENT:
                return False
    return True
