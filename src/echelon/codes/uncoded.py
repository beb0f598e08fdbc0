"""No code: every part is a row of its own, and all of them are needed. The baseline."""

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray
from echelon.codes.base import Code


def uncoded(*, parts: int, stacked: bool = False) -> Code:
    """Return the code whose rows are the parts, for a sum of them; `stacked`: for all of them, one by one.

    >>> uncoded(parts=4).threshold, uncoded(parts=4, stacked=True).target.shape
    (4, (4, 4))
    """
    checks.whole("parts", parts, least=1, most=10**5)
    checks.flag("stacked", stacked)
    unit = _identity(parts)
    if stacked:
        return Code(matrix=unit, target=unit, threshold=parts, counting=True, precoded=True, systematic=parts)
    return Code(matrix=unit, target=np.ones((1, parts)), threshold=parts, counting=True)


def _identity(size: int) -> FloatArray:
    """Return the identity as a view of 2 size - 1 numbers: those of 10 000 parts would take 800 MB."""
    line = np.zeros(2 * size - 1)
    line[size - 1] = 1.0
    return np.lib.stride_tricks.sliding_window_view(line, size)[::-1]
