"""Iterations that multiply a fixed matrix by a changing vector: least squares, power iteration, PageRank, CG."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import NumberArray
from echelon.codes import Code, mds
from echelon.errors import ArgumentError
from echelon.jobs.base import IterativeJob, checked_function

_ONE = np.ones(1)


class LinearJob(IterativeJob):
    """A job whose iteration is ``state = update(state, matrix @ vector(state))``.

    matrix: two-dimensional, real, float32 or float64 (other numbers become so); products are formed in its precision.
        It is cut into `parts` blocks of rows, which a systematic MDS code protects: encoded once,
        before the first iteration, and any `parts` of the coded blocks are enough for the product.
    vector: what is multiplied, a vector or a matrix of columns; the state itself unless given. Runs on the master, as
        `update` does.

    >>> job = LinearJob(matrix=np.eye(4), parts=2, state=np.ones(4), update=lambda old, new: new, iterations=3)
    >>> job.code(1.5, np.random.default_rng(1)).rows
    3
    """

    stacked = True

    def __init__(
        self,
        *,
        matrix: NumberArray,
        update: Callable[[Any, Any], Any],
        state: Any,
        parts: int,
        vector: Callable[[Any], Any] | None = None,
        iterations: int | None = None,
        until: Callable[[Any], bool] | None = None,
        name: str | None = None,
        tolerance: float | None = None,
    ) -> None:
        super().__init__(state=state, iterations=iterations, until=until, name=name, tolerance=tolerance)
        plain = type(matrix) in (np.ndarray, np.memmap)
        if not plain or matrix.ndim != 2 or not matrix.size or matrix.dtype.kind not in "iufb":
            found = f"shape {matrix.shape} of {matrix.dtype}" if plain else type(matrix).__name__
            raise ArgumentError(f"matrix: {found} is not allowed; must be a NumPy array with two axes of real numbers")
        if matrix.dtype.char not in "fd":  # parity of narrow or whole numbers would not fit into them
            matrix = matrix.astype(np.float32 if matrix.dtype.char == "e" else np.float64)
        if not np.isfinite(matrix).all():
            raise ArgumentError("matrix: must be finite everywhere; parity would spread what is not")
        self.matrix = matrix
        self.update = checked_function("update", update)
        self.vector = None if vector is None else checked_function("vector", vector)
        self.parts = checks.whole("parts", parts, least=1, most=min(matrix.shape[0], 5000))

    def code(self, redundancy: float, rng: Generator) -> Code:
        """Return a systematic MDS code over the blocks."""
        return mds(parts=self.parts, rows=max(self.parts, round(self.parts * redundancy)), rng=rng)

    def work(self, codes: Sequence[Code]) -> "LinearWork":
        """Return the encoded blocks; those that are plain blocks are views of the matrix."""
        height = -(-self.matrix.shape[0] // self.parts)
        matrix = self.matrix
        if height * self.parts > len(matrix):
            matrix = np.concatenate(
                [matrix, np.zeros((height * self.parts - len(matrix), matrix.shape[1]), matrix.dtype)]
            )
        return LinearWork(codes[0].encode(matrix.reshape(self.parts, height, matrix.shape[1])))

    def request(self, state: Any) -> Any:
        """Return the vector that is multiplied."""
        vector = np.asarray(state if self.vector is None else self.vector(state))
        if vector.ndim not in (1, 2) or vector.shape[0] != self.matrix.shape[1]:
            raise ArgumentError(
                f"vector: shape {vector.shape} is not allowed; must be ({self.matrix.shape[1]},) or "
                f"({self.matrix.shape[1]}, columns), to be multiplied by a matrix of shape {self.matrix.shape}"
            )
        return vector.astype(self.matrix.dtype, copy=False)

    def step(self, state: Any, recovered: Any) -> Any:
        """Return the updated state, from the blocks of the product."""
        return self.update(state, recovered.reshape(-1, *recovered.shape[2:])[: len(self.matrix)])


class LinearWork:
    """Encoded blocks: a row is one of them times the vector."""

    def __init__(self, blocks: list[NumberArray]) -> None:
        self._blocks = blocks

    def row(self, slot: int, row: int) -> tuple[Sequence[int], NumberArray]:
        """Return the row itself: it was combined beforehand."""
        return (row,), _ONE

    def part(self, state: Any, part: int) -> Any:
        """Return a block times the vector."""
        return self._blocks[part] @ state
