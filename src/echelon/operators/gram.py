"""The Gram matrix of an operator, never formed: for least squares by conjugate gradients."""

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from echelon.arrays import NumberArray


class GramOperator(LinearOperator):  # type: ignore[misc]
    """``A.T @ (A @ x) + shift * x``, symmetric; from `CodedOperator.gram`. It works as long as that is open."""

    def __init__(self, operator: LinearOperator, shift: float) -> None:
        self._operator, self._shift = operator, shift
        super().__init__(operator.dtype, (operator.shape[1], operator.shape[1]))

    def _matmat(self, X: Any) -> NumberArray:
        columns = np.asarray(X)
        return np.asarray(self._operator.rmatmat(self._operator.matmat(columns))) + self._shift * columns

    def _matvec(self, x: Any) -> NumberArray:
        vector = np.asarray(x).reshape(-1)
        return np.asarray(self._operator.rmatvec(self._operator.matvec(vector))) + self._shift * vector

    def _adjoint(self) -> "GramOperator":
        return self

    def _transpose(self) -> "GramOperator":
        return self
