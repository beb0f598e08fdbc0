"""Linear equations with a positive semidefinite matrix and something on its diagonal."""

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

from echelon.arrays import FloatArray


def solved(matrix: FloatArray, right: FloatArray, alphas: FloatArray) -> FloatArray:
    """Return x with ``(matrix + alpha I) x = right``, one alpha per column; the shortest x where there are many.

    >>> solved(np.diag([1.0, 0.0]), np.array([[2.0, 2.0], [0.0, 0.0]]), np.array([0.0, 1.0]))
    array([[2., 1.],
           [0., 0.]])
    """
    found = np.empty_like(right)
    for alpha in np.unique(alphas):
        columns = alphas == alpha
        some = _by_cholesky(matrix, right[:, columns], alpha)
        found[:, columns] = _by_eigenvalues(matrix, right[:, columns], alpha) if some is None else some
    return found


def _by_cholesky(matrix: FloatArray, right: FloatArray, alpha: float) -> FloatArray | None:
    """Return the solution, or None where the matrix is numerically singular.

    Scaled to a diagonal of 1 before, so that units of features do not matter.
    """
    diagonal = matrix.diagonal() + alpha
    if not (diagonal > 0).all():
        return None
    scale = 1 / np.sqrt(diagonal)
    unit = matrix * scale[:, None] * scale
    np.fill_diagonal(unit, 1.0)
    norm = np.abs(unit).sum(axis=0).max()
    factor, failed = dpotrf(unit)
    if failed:
        return None
    reciprocal, _ = dpocon(factor, norm)
    if reciprocal < len(matrix) * np.finfo(float).eps:
        return None
    found, _ = dpotrs(factor, right * scale[:, None])
    return np.asarray(found * scale[:, None])


def _by_eigenvalues(matrix: FloatArray, right: FloatArray, alpha: float) -> FloatArray:
    values, vectors = eigh(matrix)
    # below, a value can't be told from 0, and there the right side has only rounding, too
    kept = values > values[-1] * len(values) * np.finfo(float).eps
    vectors = vectors[:, kept]
    return np.asarray(vectors @ ((vectors.T @ right) / (values[kept] + alpha)[:, None]))
