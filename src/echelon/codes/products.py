"""What all codes for matrix products share: coded factors, and a row as the product of two of them.

X is cut into x by z blocks and Y into z by y. Row i is the product of ``left[i]``, a combination of X's blocks, and
``right[i]``, one of Y's; so it is a combination of all products of a block of X and one of Y, with the coefficients
``left[i] ⊗ right[i]``. What is wanted, block (a, d) of X Y, is the sum over b of X[a, b] Y[b, d].
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat as api
import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, NumberArray
from echelon.codes.base import Code
from echelon.codes.combine import apply_rows, combine, inexact
from echelon.codes.decoder import Decoder, Weights
from echelon.errors import ArgumentError, NotDecodable
from echelon.reprs import short_repr

_NOISE = 1e8  # amplification beyond which half of all digits are lost


@dataclass(frozen=True, eq=False, kw_only=True)
class ProductCode(Code):
    """A code whose rows are products of coded factors.

    left, right: combinations of the blocks of X and of Y, shapes (rows, x z) and (rows, z y).
    blocks: x, z, y.
    """

    left: NumberArray
    right: NumberArray
    blocks: tuple[int, int, int]

    __repr__ = short_repr

    def encode_factors(self, first: Any, second: Any) -> tuple[Any, Any]:
        """Return the coded factors of every row, in the precision and library of the factors.

        Sizes that do not divide are filled up with zeros.
        """
        x, z, y = self.blocks
        if len(first.shape) != 2 or len(second.shape) != 2 or first.shape[1] != second.shape[0]:
            raise ArgumentError(
                f"second: shape {tuple(second.shape)} is not allowed; must fit {tuple(first.shape)} for a product"
            )
        return apply_rows(self.left, _cut(first, x, z)), apply_rows(self.right, _cut(second, z, y))

    def assemble(self, recovered: Any, shape: tuple[int, int]) -> Any:
        """Return the product of the given shape from its blocks, shape (x y, rows, columns)."""
        xp = api.array_namespace(recovered)
        x, _, y = self.blocks
        _, height, width = recovered.shape
        blocks = xp.permute_dims(xp.reshape(recovered, (x, y, height, width)), (0, 2, 1, 3))
        return xp.reshape(blocks, (x * height, y * width))[: shape[0], : shape[1]]


def coded_factor(matrix: NumberArray, weights: NumberArray, down: int, across: int) -> NumberArray:
    """Return one combination of a matrix's blocks, down by across of them, row by row; NumPy only.

    A plain block that needs no filling up with zeros is a view. Otherwise blocks are read where they lie, each once.

    >>> coded_factor(np.arange(6.0).reshape(3, 2), np.array([1.0, -1.0]), 2, 1).tolist()
    [[-4.0, -4.0], [2.0, 3.0]]
    """
    matrix = inexact(matrix)
    height, width = -(-matrix.shape[0] // down), -(-matrix.shape[1] // across)
    used = np.flatnonzero(weights).tolist()
    if len(used) == 1 and weights[used[0]] == 1:
        i, j = divmod(used[0], across)
        block = matrix[i * height : (i + 1) * height, j * width : (j + 1) * width]
        if block.shape == (height, width):
            return block
    if np.iscomplexobj(weights) and not np.iscomplexobj(matrix):
        parts = [
            coded_factor(matrix, np.ascontiguousarray(part), down, across) for part in (weights.real, weights.imag)
        ]
        return parts[0] + 1j * parts[1]
    narrow = weights.astype(matrix.dtype).reshape(down, across)
    total = np.empty((height, width), dtype=matrix.dtype)
    if across == 1:
        _blocks_along(matrix, narrow[:, 0], 0, total)
        return total
    _blocks_along(matrix[:height], narrow[0], 1, total)
    for i in range(1, down):
        more = np.empty_like(total)
        _blocks_along(matrix[i * height : (i + 1) * height], narrow[i], 1, more)
        total += more
    return total


def _blocks_along(matrix: NumberArray, weights: NumberArray, axis: int, out: NumberArray) -> None:
    """Write the combination of the blocks that a matrix has along one axis; they are as large as `out`, or cut short.

    All blocks reach as far as the last one, and all but the last go beyond: each of the two ranges is one product of
    the weights with a view of the matrix, row by row.
    """
    size, whole = out.shape[axis], matrix.shape[axis]
    count = -(-whole // size)
    end = whole - (count - 1) * size
    if axis == 1 and len(matrix) < len(out):
        out[len(matrix) :] = 0
        out = out[: len(matrix)]
    for some, target, blocks in (
        (matrix, out[:end] if axis == 0 else out[:, :end], count),
        (matrix[end:] if axis == 0 else matrix[:, end:], out[end:] if axis == 0 else out[:, end:], count - 1),
    ):
        if not blocks or not target.size:
            target[...] = 0
            continue
        strides = (matrix.strides[0], size * matrix.strides[axis], matrix.strides[1])
        view = np.lib.stride_tricks.as_strided(some, (target.shape[0], blocks, target.shape[1]), strides)
        np.matmul(weights[:blocks], view, out=target)


def assemble_product(
    code: ProductCode,
    weights: Weights,
    messages: Sequence[NumberArray],
    shape: tuple[int, int],
    *,
    real: bool = True,
    sizes: FloatArray | None = None,
) -> NumberArray:
    """Return a product of this shape from the messages of some rows, in the order of the weights; NumPy only.

    Blocks that are messages themselves are written straight to their place. real: whether the factors are, so that
    messages of a complex code combine to real numbers. `sizes` is filled as `Weights.combine` does.
    """
    x, _, y = code.blocks
    height, width = -(-shape[0] // x), -(-shape[1] // y)
    flat = [message.reshape(-1) for message in messages]
    summed = combine(weights.matrix, flat, sizes=sizes) if len(weights.solved) else ()
    solved = dict(zip(weights.solved.tolist(), summed, strict=True))
    out = np.empty(shape, dtype=flat[0].real.dtype if real else flat[0].dtype)
    for k in range(x * y):
        i, j = divmod(k, y)
        target = out[i * height : (i + 1) * height, j * width : (j + 1) * width]
        value = solved[k] if k in solved else flat[weights.copied[k]]
        value = value.reshape(height, width)[: target.shape[0], : target.shape[1]]
        target[...] = value.real if real else value
    return out


def _cut(matrix: Any, down: int, across: int) -> Any:
    """Return the blocks of a matrix, row by row, shape (down across, height, width), filled up with zeros."""
    xp = api.array_namespace(matrix)
    height, width = -(-matrix.shape[0] // down), -(-matrix.shape[1] // across)
    more = {"dtype": matrix.dtype, "device": api.device(matrix)}
    if height * down > matrix.shape[0]:
        matrix = xp.concat([matrix, xp.zeros((height * down - matrix.shape[0], matrix.shape[1]), **more)])
    if width * across > matrix.shape[1]:
        matrix = xp.concat([matrix, xp.zeros((matrix.shape[0], width * across - matrix.shape[1]), **more)], axis=1)
    blocks = xp.permute_dims(xp.reshape(matrix, (down, height, across, width)), (0, 2, 1, 3))
    return xp.reshape(blocks, (down * across, height, width))


def product_code(
    left: NumberArray,
    right: NumberArray,
    blocks: tuple[int, int, int],
    threshold: int,
    *,
    systematic: int = 0,
    limit: float = _NOISE,
) -> ProductCode:
    """Return the code with these coded factors, or refuse it where it would amplify noise too much."""
    x, z, y = blocks
    rows = len(left)
    matrix = (left[:, :, None] * right[:, None, :]).reshape(rows, -1)
    a, b, c, d = np.meshgrid(*(np.arange(size) for size in (x, z, z, y)), indexing="ij")
    target = np.zeros((x * y, matrix.shape[1]))
    same = (b == c).ravel()
    target[(a * y + d).ravel()[same], np.flatnonzero(same)] = 1.0
    code = ProductCode(
        matrix=matrix,
        target=target,
        threshold=threshold,
        # for z > 1 a well placed set of fewer rows may do: opposite points, say
        counting=z == 1,
        precoded=True,
        systematic=systematic,
        limit=limit,
        left=left,
        right=right,
        blocks=blocks,
    )
    _refuse_if_noisy(code)
    return code


def plain_first(left: NumberArray, right: NumberArray, x: int, y: int, limit: float) -> ProductCode:
    """Return the code of all plain products of blocks, followed by products of these combinations (z = 1)."""
    left = np.concatenate([np.repeat(np.eye(x), y, axis=0), left])
    right = np.concatenate([np.tile(np.eye(y), (x, 1)), right])
    return product_code(left, right, (x, 1, y), x * y, systematic=x * y, limit=limit)


def _refuse_if_noisy(code: Code) -> None:
    """Decode from the first rows and from the last: where that fails, so will most sets."""
    some = range(code.threshold), range(code.rows - code.threshold, code.rows)
    try:
        decoder = Decoder(code, limit=_NOISE)
        for rows in some:
            decoder.weights(rows)
    except (ArgumentError, NotDecodable) as error:
        raise ArgumentError(
            f"basis: not allowed for {code.threshold} unknown products; {error}. Use separable random rows "
            "(khatri_rao) or roots of unity"
        ) from None


def checked_blocks(x: int, z: int, y: int, rows: int, threshold: int) -> None:
    """Check the numbers of blocks, and that there are enough rows."""
    for name, value in (("x", x), ("z", z), ("y", y)):
        checks.whole(name, value, least=1, most=100)
    checks.whole("rows", rows, least=threshold, most=10**4)


def basis_values(basis: str, degrees: FloatArray, points: NumberArray) -> NumberArray:
    """Return basis functions of the given degrees at the points, shape (points, degrees)."""
    if basis == "chebyshev":
        waves: NumberArray = np.cos(degrees[None, :] * np.arccos(points.real)[:, None])
        return waves
    powers: NumberArray = points[:, None] ** degrees[None, :]
    return powers
