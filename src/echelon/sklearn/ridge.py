"""Ridge regression: one coded round sums all products of features; the equations are solved on the master."""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]

from echelon import checks
from echelon.arrays import FloatArray
from echelon.errors import ArgumentError
from echelon.sklearn.inputs import mapped, weights_of
from echelon.sklearn.moments import Moments, centred, column_sums, row_sums
from echelon.sklearn.rounds import summing
from echelon.sklearn.semidefinite import solved


class Ridge(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Least squares with the penalty ``alpha |coef|^2``, for one target or several.

    alpha, fit_intercept: as scikit-learn's; one alpha per target is fine, and so is 0.
    cluster, workers, redundancy, chunks: where `fit` runs, see `echelon.sklearn`.

    X may be dense or CSR. Dense features are centred before they are multiplied; sparse ones can't be, so large means
    with small spreads cost digits there. With more features than samples, samples are multiplied with one another
    instead, and the data is cut by columns. Fitted: `coef_` and `intercept_`, in scikit-learn's shapes.

    `partial_fit` adds further samples: all that the fit needs of those before are sums, of (features, features)
    numbers, which the model keeps.

    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]])
    >>> model = Ridge(alpha=0.0, cluster="threads", workers=2).fit(X, X @ [2.0, -1.0] + 5.0)
    >>> model.coef_.round(9), round(float(model.intercept_), 9)
    (array([ 2., -1.]), 5.0)
    """

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        fit_intercept: bool = True,
        cluster: str = "processes",
        workers: int | None = None,
        redundancy: float | None = None,
        chunks: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.cluster = cluster
        self.workers = workers
        self.redundancy = redundancy
        self.chunks = chunks

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Ridge":
        """Fit the model in one round, and forget what it was fitted to before."""
        X, targets, weights, flat = self._checked(X, y, sample_weight, reset=True)
        alphas = self._alphas(targets.shape[1])
        moments = None
        if X.shape[1] > X.shape[0]:
            self._fit_wide(X, targets, weights, alphas, flat)
        else:
            moments = self._moments_of(X, targets, weights)
            self._solve(moments, alphas, flat)
        self._moments: Moments | None = moments
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Ridge":
        """Fit the model to these samples and all those before, in one round over the new ones.

        >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]])
        >>> y = X @ [2.0, -1.0] + 5.0
        >>> model = Ridge(alpha=0.0, cluster="threads", workers=2)
        >>> for some in (slice(0, 2), slice(2, 4)):
        ...     model = model.partial_fit(X[some], y[some])
        >>> model.coef_.round(9)
        array([ 2., -1.])
        """
        first = not hasattr(self, "_moments")
        before = None if first else self._moments
        if not first and before is None:
            raise ArgumentError(
                "partial_fit: not allowed after a fit with more features than samples, which keeps no sums; "
                "must begin with partial_fit"
            )
        X, targets, weights, flat = self._checked(X, y, sample_weight, reset=first)
        alphas = self._alphas(targets.shape[1])
        if before is not None and targets.shape[1] != len(before.y):
            raise ArgumentError(f"y: {targets.shape[1]} targets are not allowed; must be {len(before.y)}, as before")
        found = self._moments_of(X, targets, weights)
        self._moments = found if before is None else before + found
        self._solve(self._moments, alphas, flat)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return the targets of samples."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def _checked(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[Any, FloatArray, FloatArray, bool]:  # fmt: skip
        """Return samples, targets as columns, weights, and whether targets came as one vector."""
        given = X
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, order="C", multi_output=True, y_numeric=True, reset=reset
        )
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        return mapped(given, X), targets, weights_of(sample_weight, X.shape[0]), y.ndim == 1

    def _alphas(self, targets: int) -> FloatArray:
        if np.ndim(self.alpha) == 0:
            return np.full(targets, checks.number("alpha", self.alpha, least=0))
        if np.shape(self.alpha) != (targets,):
            raise ArgumentError(f"alpha: shape {np.shape(self.alpha)} is not allowed; must be a number or ({targets},)")
        return np.array([checks.number(f"alpha[{i}]", alpha, least=0) for i, alpha in enumerate(self.alpha)])

    def _moments_of(self, X: Any, targets: FloatArray, weights: FloatArray) -> Moments:
        x, y = _means(X, targets, weights)
        state = (np.zeros_like(x) if issparse(X) else x, y)
        with summing(
            self, row_sums, X.shape[0], lambda some: (X[some], targets[some], weights[some])
        ) as total:  # fmt: skip
            return centred(state, total(state))

    def _solve(self, moments: Moments, alphas: FloatArray, flat: bool) -> None:
        gram, cross = (moments.gram, moments.cross) if self.fit_intercept else moments.raw()
        self._keep(solved(gram, cross, alphas), moments.x, moments.y, flat)

    def _fit_wide(self, X: Any, targets: FloatArray, weights: FloatArray, alphas: FloatArray, flat: bool) -> None:
        """Fit by products of samples: coefficients are ``Z' (Z Z' + alpha I)^-1 y``, Z being centred and weighted."""
        x, y = _means(X, targets, weights)
        if not self.fit_intercept:
            x, y = np.zeros_like(x), np.zeros_like(y)
        roots = np.sqrt(weights)
        columns = X.tocsc() if issparse(X) else X
        with summing(self, column_sums, X.shape[1], lambda some: (_contiguous(columns[:, some]), x[some])) as total:
            products = total(roots)
        duals = roots[:, None] * solved(products, (targets - y) * roots[:, None], alphas)
        self._keep(X.T @ duals - np.outer(x, duals.sum(axis=0)), x, y, flat)

    def _keep(self, coefficients: FloatArray, x: FloatArray, y: FloatArray, flat: bool) -> None:
        """Set the fitted attributes, from coefficients as columns and the means of features and targets."""
        intercepts = y - x @ coefficients if self.fit_intercept else np.zeros_like(y)
        self.coef_ = coefficients[:, 0].copy() if flat else np.ascontiguousarray(coefficients.T)
        if not self.fit_intercept:
            self.intercept_: Any = 0.0
        else:
            self.intercept_ = float(intercepts[0]) if flat else intercepts


def _means(X: Any, targets: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the means of features and targets."""
    weight = weights.sum()
    return np.asarray(X.T @ weights) / weight, targets.T @ weights / weight


def _contiguous(columns: Any) -> Any:
    return columns if issparse(columns) else np.ascontiguousarray(columns)
