"""Iterations that multiply a fixed matrix by a changing vector: least squares, power iteration, PageRank, CG."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import NumberArray
from echelon.codes import Code, mds, uncoded
from echelon.errors import ArgumentError
from echelon.jobs.base import IterativeJob, checked_function, checked_verify
from echelon.jobs.own_code import OwnCode, made_code
from echelon.schemes import CodedPlan

_ONE = np.ones(1)
_ENCODING = 2e9  # operations per second: one processor's, with the time to send what comes of them
_AT_ONCE = 1 << 22  # numbers of a file that are held in memory


class LinearJob(IterativeJob):
    """A job whose iteration is ``state = update(state, matrix @ vector(state))``.

    matrix: two-dimensional, real, float32 or float64 (other numbers are converted); products are formed in its
        precision. It is cut into `parts` blocks of rows. With redundancy a systematic MDS code protects them: encoded
        once, before the first iteration, and any `parts` of the coded blocks are enough for the product. Without one
        given, blocks are plain at first, and encoded once the workers have shown that this pays. Workers map the file
        of a memory-mapped one. A sparse matrix of SciPy is never encoded: parity would be dense.
    vector: what is multiplied, a vector or a matrix of columns; the state itself unless given. Runs on the master, as
        `update` does.
    code: your own code over the blocks, whose first rows are the blocks: a `Code`; a name of `codes.CODES` with
        arguments, such as "mds:parity=circle", which the redundancy completes; or ``code(parts)``. Workers still get
        rows by their speeds.
    plan: how the product is protected instead, and which worker computes what: one slot whose first rows are the
        blocks, such as `echelon.schemes.backups`, with one lane per worker of the stream. The stream's redundancy
        and split are then not used.
    verify: how results are checked before each step, "spare" or "vote"; by default as the stream does.

    >>> job = LinearJob(matrix=np.eye(4), parts=2, state=np.ones(4), update=lambda old, new: new, iterations=3)
    >>> job.code(1.5, np.random.default_rng(1)).rows
    3
    """

    stacked = True
    _norm: float | None = None  # the largest sum of sizes in a row of the matrix, once it is asked for

    def __init__(
        self,
        *,
        matrix: Any,
        update: Callable[[Any, Any], Any],
        state: Any,
        parts: int,
        vector: Callable[[Any], Any] | None = None,
        code: OwnCode | None = None,
        plan: CodedPlan | None = None,
        verify: str | None = None,
        iterations: int | None = None,
        until: Callable[[Any], bool] | None = None,
        name: str | None = None,
        tolerance: float | None = None,
    ) -> None:
        super().__init__(state=state, iterations=iterations, until=until, name=name, tolerance=tolerance)
        self.verify = checked_verify(verify)
        self.matrix = _checked_sparse(matrix) if _is_sparse(matrix) else _checked_dense(matrix)
        self.update = checked_function("update", update)
        self.vector = None if vector is None else checked_function("vector", vector)
        self.parts = checks.whole("parts", parts, least=1, most=min(matrix.shape[0], 5000))
        self.message_bytes = self.matrix.shape[0] / self.parts * self.matrix.dtype.itemsize  # a block times a vector
        if plan is not None:
            self.plan = _checked_plan(plan, self.parts, parity=not _is_sparse(matrix))
        if code is not None:
            self.use_code(code)
        # parity of a sparse matrix is dense, and that of one in a file may not fit into memory
        self.encodes = not _is_sparse(matrix) and not isinstance(matrix, np.memmap)

    def code(self, redundancy: float, rng: Generator) -> Code:
        """Return the job's own code, or a systematic MDS code over the blocks."""
        rows = max(self.parts, round(self.parts * redundancy))
        if _is_sparse(self.matrix) and (rows > self.parts or self.own_code is not None):
            raise ArgumentError(
                "plan: missing; parity of a sparse matrix would be dense: leave redundancy out, or give a plan whose "
                "rows are its blocks, such as schemes.backups"
            )
        if self.own_code is None:
            return mds(parts=self.parts, rows=rows, rng=rng) if rows > self.parts else uncoded(parts=rows, stacked=True)
        made = made_code(self.own_code, parts=self.parts, rows=rows, critical=self.parts, rng=rng)
        if not made.systematic or not made.precoded:
            raise ArgumentError("code: not allowed; its first rows must be the blocks in their order")
        return made

    def plain_code(self) -> Code:
        """Return the blocks themselves."""
        return uncoded(parts=self.parts, stacked=True)

    def encoding_s(self, spare: int) -> float:
        """Return about how many seconds it takes to encode the matrix for this many more rows."""
        return 2.0 * spare * float(self.matrix.size) / _ENCODING

    def work(self, codes: Sequence[Code]) -> "LinearWork":
        """Return the encoded blocks; those that are plain blocks are views of the matrix."""
        height = -(-self.matrix.shape[0] // self.parts)
        if _is_sparse(self.matrix):
            return LinearWork(SparseBlocks(self.matrix, height))
        return LinearWork(DenseBlocks(self.matrix, height, codes[0]))

    def request(self, state: Any) -> Any:
        """Return the vector that is multiplied."""
        vector = np.asarray(state if self.vector is None else self.vector(state))
        if vector.ndim not in (1, 2) or vector.shape[0] != self.matrix.shape[1]:
            raise ArgumentError(
                f"vector: shape {vector.shape} is not allowed; must be ({self.matrix.shape[1]},) or "
                f"({self.matrix.shape[1]}, columns), to be multiplied by a matrix of shape {self.matrix.shape}"
            )
        return vector.astype(self.matrix.dtype, copy=False)

    def terms(self, request: Any) -> float:
        """Return the largest that a number of the product can be: rounding may be that of its terms."""
        if self._norm is None:
            lines = max(1, _AT_ONCE // self.matrix.shape[1])
            blocks = (self.matrix[at : at + lines] for at in range(0, self.matrix.shape[0], lines))
            self._norm = max(float(abs(block).sum(axis=1).max()) for block in blocks)
        return self._norm * float(np.abs(request).max(initial=0.0))

    def step(self, state: Any, recovered: Any) -> Any:
        """Return the updated state, from the blocks of the product."""
        return self.update(state, recovered.reshape(-1, *recovered.shape[2:])[: self.matrix.shape[0]])


def _is_sparse(matrix: Any) -> bool:
    return hasattr(matrix, "tocsr")  # SciPy's own check would make every worker import all of its sparse matrices


def _checked_sparse(matrix: Any) -> Any:
    if matrix.ndim != 2 or not all(matrix.shape) or matrix.dtype.kind not in "iufb":
        raise ArgumentError(
            f"matrix: shape {matrix.shape} of {matrix.dtype} is not allowed; must have two axes of real numbers"
        )
    return matrix.tocsr().astype(_precision(matrix.dtype), copy=False)


def _checked_dense(matrix: Any) -> Any:
    plain = type(matrix) in (np.ndarray, np.memmap)
    if not plain or matrix.ndim != 2 or not matrix.size or matrix.dtype.kind not in "iufb":
        found = f"shape {matrix.shape} of {matrix.dtype}" if plain else type(matrix).__name__
        raise ArgumentError(f"matrix: {found} is not allowed; must be a NumPy array with two axes of real numbers")
    matrix = matrix.astype(_precision(matrix.dtype), copy=False)
    lines = matrix if matrix.flags.c_contiguous else matrix.T
    step = max(1, _AT_ONCE // lines.shape[1])
    if not all(np.isfinite(lines[at : at + step]).all() for at in range(0, len(lines), step)):
        raise ArgumentError("matrix: must be finite everywhere; parity would spread inf and nan")
    return matrix


def _precision(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """Return the precision of products; parity of narrow or whole numbers would not fit into them."""
    return np.float32 if dtype.char in "ef" else np.float64


def _checked_plan(plan: CodedPlan, parts: int, *, parity: bool) -> CodedPlan:
    if not isinstance(plan, CodedPlan):
        raise ArgumentError(f"plan: {type(plan).__name__} is not allowed; must have codes (echelon.schemes.CodedPlan)")
    code = plan.codes[0]
    if len(plan.codes) > 1 or not code.systematic or not code.precoded or plan.chunks != (tuple(range(code.parts)),):
        raise ArgumentError("plan: not allowed; must have one slot, whose first rows are the blocks in their order")
    if code.parts != parts:
        raise ArgumentError(f"parts: {parts} is not allowed; must be {code.parts}, as the plan says")
    if not parity and code.rows > parts:
        raise ArgumentError("plan: not allowed; parity of a sparse matrix would be dense (see schemes.backups)")
    return plan


class DenseBlocks:
    """Blocks of rows, by number: views of the matrix, then blocks that its rows do not fill, and parity."""

    def __init__(self, matrix: Any, height: int, code: Code) -> None:
        # a matrix that only fits in its file must not be copied, even if columns are slower to read
        in_file = isinstance(matrix, np.memmap) and matrix.flags.f_contiguous
        self._matrix = matrix if in_file else np.asanyarray(matrix, order="C")
        self._height, self._whole = height, matrix.shape[0] // height
        columns = matrix.shape[1]
        self._more = np.zeros((code.rows - self._whole, height, columns), matrix.dtype)
        left = matrix[self._whole * height :]
        self._more.reshape(-1, columns)[: len(left)] = left
        step = columns if self._matrix.flags.c_contiguous else max(1, _AT_ONCE // len(matrix))
        for at in range(0, columns if code.rows > code.parts else 0, step):
            self._add_parity(code, slice(at, min(at + step, columns)))

    def _add_parity(self, code: Code, columns: slice) -> None:
        weights = code.matrix[code.parts :].astype(self._matrix.dtype)
        filled = self._matrix[: self._whole * self._height, columns].reshape(self._whole, -1)
        parity = weights[:, : self._whole] @ filled
        padded = code.parts - self._whole
        if padded:
            parity += weights[:, self._whole :] @ self._more[:padded, :, columns].reshape(padded, -1)
        self._more[padded:, :, columns] = parity.reshape(len(parity), self._height, -1)

    def __getitem__(self, number: int) -> Any:
        if number >= self._whole:
            return self._more[number - self._whole]
        return self._matrix[number * self._height : (number + 1) * self._height]


class SparseBlocks:
    """Blocks of rows of a matrix in CSR form, by number; made where they are used, from views of its three arrays."""

    def __init__(self, matrix: Any, height: int) -> None:
        self._matrix, self._height = matrix, height
        self._made: dict[int, Any] = {}

    def __getitem__(self, number: int) -> Any:
        if number not in self._made:
            self._made[number] = self._block(number * self._height)
        return self._made[number]

    def _block(self, start: int) -> Any:
        from scipy.sparse import csr_array

        matrix, height = self._matrix, self._height
        # rows beyond the last are empty: they end where it ends
        ends = matrix.indptr[np.minimum(np.arange(start, start + height + 1), matrix.shape[0])]
        held = slice(int(ends[0]), int(ends[-1]))
        arrays = matrix.data[held], matrix.indices[held], ends - ends[0]
        return csr_array(arrays, shape=(height, matrix.shape[1]))


class LinearWork:
    """Encoded blocks: a row is one of them times the vector."""

    def __init__(self, blocks: DenseBlocks | SparseBlocks) -> None:
        self._blocks = blocks

    def row(self, slot: int, row: int) -> tuple[Sequence[int], NumberArray]:
        """Return the row itself: it was combined beforehand."""
        return (row,), _ONE

    def part(self, state: Any, part: int) -> Any:
        """Return a block times the vector."""
        return self._blocks[part] @ state
