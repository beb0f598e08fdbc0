"""A matrix that is kept at the workers, so that a product with it is one request."""

import math
from typing import Any

import numpy as np
from scipy.sparse import issparse

from echelon.arrays import NumberArray
from echelon.errors import ArgumentError
from echelon.jobs import LinearJob
from echelon.schemes import backups
from echelon.stream import Stream
from echelon.stream.kept import Kept

MOST_PARTS = 5000
_PARTS = 4  # per worker, by default: what a straggler has done so far is not lost


def keep(stream: Stream, matrix: Any, parts: int | None) -> tuple[Any, Kept]:
    """Return a matrix in the form and precision of its products, and the job that forms them."""
    rows = matrix.shape[0]
    blocks = min(rows, _PARTS * stream.workers if parts is None else parts, MOST_PARTS)
    if parts is None:
        blocks = -(-rows // -(-rows // blocks))  # no block is only padding
    plan = None
    if issparse(matrix) and stream.redundancy is not None:
        copies = min(math.ceil(stream.redundancy), stream.workers)
        plan = backups(workers=stream.workers, parts=blocks, copies=copies)
    job = LinearJob(
        matrix=matrix, update=_product, state=None, parts=blocks, plan=plan, iterations=1, name="product"
    )  # fmt: skip
    return job.matrix, stream.keep(job)


def _product(state: Any, found: Any) -> Any:
    return found


def times(kept: Kept, vectors: NumberArray, rows: int) -> NumberArray:
    """Return the product with a vector, or with a matrix of columns; complex ones as two real products."""
    if vectors.dtype.kind not in "biufc":
        raise ArgumentError(f"x: {vectors.dtype} is not allowed; must be of real or complex numbers")
    if not vectors.size:
        return np.zeros((rows, 0), np.result_type(vectors, np.float32))
    if vectors.dtype.kind != "c":
        return np.asarray(kept.run(vectors))
    columns = vectors.reshape(len(vectors), -1)
    both = np.asarray(kept.run(np.concatenate([columns.real, columns.imag], axis=1)))
    product = np.empty((rows, columns.shape[1]), np.result_type(both, np.complex64))
    product.real, product.imag = np.split(both, 2, axis=1)
    return product.reshape(rows, *vectors.shape[1:])
