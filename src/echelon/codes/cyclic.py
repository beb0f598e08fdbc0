"""Cyclic repetition: row i holds parts i, i + 1, …, so that neighbouring rows share all parts but one."""

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.codes.base import Code
from echelon.codes.subspace import code_in_subspace


def cyclic(*, rows: int, load: int, rng: Generator) -> Code:
    """Return as many rows as parts, each over `load` consecutive parts; any rows - load + 1 give the sum.

    Prefer it where a worker computes consecutive rows: each further row costs one part. The construction is random,
    in the null space of a matrix; near roots of unity for few rows. The best conditioned of a few draws is kept.

    >>> code = cyclic(rows=5, load=3, rng=np.random.default_rng(1))
    >>> code.threshold, code.cost(1), code.cost(1, after=0)
    (3, 3, 1)
    """
    checks.whole("rows", rows, least=1, most=10**5)
    checks.whole("load", load, least=1, most=rows)
    checks.generator("rng", rng)
    support = (np.arange(rows)[None, :] - np.arange(rows)[:, None]) % rows < load
    return code_in_subspace(support, rows - load + 1, rng)
