"""Fractional repetition: groups of workers that all send the same sum. Cheap to decode, lucky sets are small."""

import numpy as np

from echelon import checks
from echelon.codes.base import Code
from echelon.errors import ArgumentError


def fractional_repetition(*, rows: int, load: int, apart: bool = False) -> Code:
    """Return rows/load groups; each of a group's `load` rows is the sum of the group's `load` parts.

    Any rows - load + 1 rows hold one of every group; rows/load well placed ones do, too.

    apart: whether the rows of a group are rows/load apart, and not next to each other; for workers whose neighbours
        tend to be slow together.

    >>> fractional_repetition(rows=6, load=2).threshold
    5
    """
    checks.whole("rows", rows, least=1, most=10**5)
    checks.whole("load", load, least=1, most=rows)
    if rows % load:
        raise ArgumentError(f"load: {load} is not allowed; must divide the number of rows, {rows}")
    groups = np.kron(np.eye(rows // load), np.ones((1, load)))
    matrix = np.tile(groups, (load, 1)) if checks.flag("apart", apart) else np.repeat(groups, load, axis=0)
    return Code(matrix=matrix, target=np.ones((1, rows)), threshold=rows - load + 1, counting=load == 1)
