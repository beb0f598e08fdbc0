"""Polynomial codes: factors are polynomials of the blocks, rows are values of their product.

For z = 1 any x y rows give all blocks of the product; for z > 1 (entangled polynomial codes, MatDot for x = y = 1)
any x y z + z - 1 do.
"""

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.codes.points import POINTS
from echelon.codes.products import ProductCode, basis_values, checked_blocks, product_code
from echelon.errors import ArgumentError


def polynomial(*, x: int, y: int, rows: int, rng: Generator, z: int = 1, basis: str = "roots") -> ProductCode:
    """Return the code that cuts X into x by z blocks and Y into z by y.

    X's block (a, b) has degree a z + b and Y's block (c, d) degree z - 1 - c + d x z, so that what is wanted of block
    (a, d) meets at degree a z + z - 1 + d x z and nothing else does. `basis`: "roots" of unity (complex coded factors,
    accurate), "chebyshev" (real; z = 1 only, as products of Chebyshev polynomials are sums of two), or "monomial" on
    random real points, which is refused where it would lose its digits (from about 20 blocks on).

    >>> polynomial(x=2, y=3, rows=8, rng=np.random.default_rng(1)).threshold
    6
    >>> polynomial(x=1, y=1, z=4, rows=9, rng=np.random.default_rng(1)).threshold
    7
    """
    checks.one_of("basis", basis, POINTS)
    for name, size in (("x", x), ("y", y), ("z", z)):
        checks.whole(name, size, least=1)
    checks.generator("rng", rng)
    threshold = x * y if z == 1 else x * y * z + z - 1
    checked_blocks(x, z, y, rows, threshold)
    if basis == "chebyshev" and z > 1:
        raise ArgumentError("basis: 'chebyshev' is not allowed for z > 1; must be roots or monomial")
    a, b = np.divmod(np.arange(x * z), z)
    c, d = np.divmod(np.arange(z * y), y)
    points = POINTS[basis](rows, rng)
    left = basis_values(basis, (a * z + b).astype(float), points)
    right = basis_values(basis, (z - 1 - c + d * x * z).astype(float), points)
    return product_code(left, right, (x, z, y), threshold)
