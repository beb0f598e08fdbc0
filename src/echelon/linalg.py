"""Linear algebra that several codes need."""

from dataclasses import dataclass

import numpy as np

from echelon.arrays import NumberArray


@dataclass(frozen=True, slots=True)
class RowSpace:
    """The rows of a matrix, taken apart once: an orthonormal basis, how to reach it, and what cancels.

    basis: orthonormal rows, shape (rank, columns).
    reach: `reach @ matrix` is the basis, by the shortest combinations, shape (rank, rows).
    cancel: orthonormal combinations of the rows that give zero, shape (rows - rank, rows).
    """

    basis: NumberArray
    reach: NumberArray
    cancel: NumberArray


def row_space(matrix: NumberArray, tolerance: float = 1e-10) -> RowSpace:
    """Return the row space of a matrix; singular values below `tolerance` times the largest count as zero.

    >>> space = row_space(np.array([[1.0, 0.0], [2.0, 0.0]]))
    >>> space.basis.shape, space.cancel.shape
    ((1, 2), (1, 2))
    """
    u, s, vh = np.linalg.svd(matrix, full_matrices=True)
    rank = int(np.count_nonzero(s > tolerance * s[0])) if len(s) else 0
    reach = (u[:, :rank] / s[:rank]).conj().T
    return RowSpace(vh[:rank], reach, u[:, rank:].conj().T)
