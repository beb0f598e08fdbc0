"""Logistic regression: L-BFGS on the master, loss and gradient of the whole data from one coded round."""

import math
import warnings
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
from sklearn.utils.class_weight import compute_class_weight  # type: ignore[import-untyped]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]

from echelon import checks
from echelon.arrays import FloatArray, IntArray, NumberArray
from echelon.errors import ArgumentError
from echelon.sklearn.inputs import mapped, weights_of
from echelon.sklearn.logistic_loss import log_softmax, loss_and_gradient
from echelon.sklearn.rounds import Total, summing

_CORRECTIONS = 10
_SEARCHES = 50
_REDUCTION = 64 * np.finfo(float).eps  # of the loss, relative: less is rounding


class LogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression for two classes, softmax regression for more, with the penalty ``|coef|^2 / (2 C)``.

    C, fit_intercept, class_weight, tol, max_iter: as scikit-learn's, whose objective and stopping rule (solver "lbfgs")
    these are: a largest entry of the mean gradient of at most `tol`. C may be ``math.inf``: no penalty.
    cluster, workers, redundancy, chunks: where `fit` runs, see `echelon.sklearn`.

    X may be dense or CSR. Fitted: `coef_`, `intercept_`, `classes_`, `n_iter_`, in scikit-learn's shapes.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=200, cluster="threads", workers=2).fit(X, y)
    >>> round(model.score(X, y), 3), model.coef_.shape
    (0.973, (3, 4))
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-4,
        max_iter: int = 100,
        cluster: str = "processes",
        workers: int | None = None,
        redundancy: float | None = None,
        chunks: int | None = None,
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.cluster = cluster
        self.workers = workers
        self.redundancy = redundancy
        self.chunks = chunks

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "LogisticRegression":
        """Fit the model, with one round per evaluation of loss and gradient."""
        if math.inf != self.C:
            checks.number("C", self.C, above=0)
        checks.number("tol", self.tol, above=0)
        checks.whole("max_iter", self.max_iter, least=1)
        given = X
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C")
        check_classification_targets(y)
        weights = weights_of(sample_weight, X.shape[0])
        self.classes_, classes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ArgumentError(f"y: one class only, {self.classes_[0]!r}; must have at least two classes")
        weights *= self._class_weights(classes, weights)[classes]
        data = mapped(given, X)
        with summing(
            self, loss_and_gradient, X.shape[0], lambda some: (data[some], classes[some], weights[some])
        ) as total:  # fmt: skip
            found, solution = self._minimised(total, weights.sum())
        self.coef_ = solution[:, :-1].copy()
        self.intercept_ = solution[:, -1].copy()
        self.n_iter_ = np.array([found.nit], dtype=np.int32)
        if not found.success:
            warnings.warn(
                f"L-BFGS did not converge in {found.nit} iterations (max_iter={self.max_iter}): {found.message}. "
                "Scale the data, or raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _class_weights(self, classes: IntArray, weights: FloatArray) -> FloatArray:
        """Return the weight of each class, by its number."""
        if self.class_weight == "balanced":
            shares = np.bincount(classes, weights)
            balanced, some = np.ones(len(shares)), shares > 0  # classes of weight 0 have nothing to balance
            balanced[some] = shares.sum() / len(shares) / shares[some]
            return balanced
        if self.class_weight is not None and not isinstance(self.class_weight, dict):
            raise ArgumentError(
                f"class_weight: {self.class_weight!r} is not allowed; must be None, 'balanced' or a dict of weights"
            )
        return np.asarray(compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_))

    def _minimised(self, total: Total, weight: float) -> tuple[OptimizeResult, FloatArray]:
        """Return the result of the search, and the rows of coefficients and intercepts that it found."""
        shape = (1 if len(self.classes_) == 2 else len(self.classes_), self.n_features_in_ + 1)
        searched = np.ones(shape, dtype=bool)
        searched[:, -1] = self.fit_intercept
        strength = 1.0 / (self.C * weight)  # of the penalty relative to the mean loss

        def objective(free: FloatArray) -> tuple[float, FloatArray]:
            state = np.zeros(shape)
            state[searched] = free
            found = total(state)
            gradient = found[1:].reshape(shape) / weight
            coefficients = state[:, :-1]
            gradient[:, :-1] += strength * coefficients
            return float(found[0] / weight + strength / 2 * (coefficients**2).sum()), gradient[searched]

        found = minimize(
            objective,
            np.zeros(int(searched.sum())),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": self.max_iter,
                "maxfun": (self.max_iter + 1) * _SEARCHES,
                "maxls": _SEARCHES,
                "maxcor": _CORRECTIONS,
                "gtol": self.tol,
                "ftol": _REDUCTION,
            },
        )
        solution = np.zeros(shape)
        solution[searched] = found.x
        return found, solution

    def decision_function(self, X: Any) -> FloatArray:
        """Return the score of each class, or for two classes that of the second."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NumberArray:
        """Return the class of the highest score for each sample."""
        scores = self._scores(X)
        classes = (scores[:, 0] > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(axis=1)
        return np.asarray(self.classes_[classes])

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of each class's probability."""
        scores = self._scores(X)
        return log_softmax(np.column_stack([np.zeros(len(scores)), scores]) if len(self.classes_) == 2 else scores)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class."""
        return np.exp(self.predict_log_proba(X))

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)
