"""No code: every part is a row of its own, and all of them are needed. The baseline."""

import numpy as np

from echelon import checks
from echelon.codes.base import Code


def uncoded(*, parts: int) -> Code:
    """Return the code whose rows are the parts, for a sum of them.

    >>> uncoded(parts=4).threshold
    4
    """
    checks.whole("parts", parts, least=1, most=10**5)
    return Code(matrix=np.eye(parts), target=np.ones((1, parts)), threshold=parts, counting=True)
