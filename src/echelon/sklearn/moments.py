"""Sums that a least-squares fit needs: of products of features, by rows, or of products of samples, by columns."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from echelon.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Moments:
    """Weighted sums over samples, centred: all that ridge regression needs.

    weight: of all samples. x, y: the means of features and targets. gram: sum of weighted products of features, minus
    their means, (features, features). cross: the same of features and targets, (features, targets).
    """

    weight: float
    x: FloatArray
    y: FloatArray
    gram: FloatArray
    cross: FloatArray

    def __add__(self, other: "Moments") -> "Moments":
        """Return the moments of the samples of both; no large numbers are subtracted from one another."""
        weight = self.weight + other.weight
        share = other.weight / weight
        x, y = other.x - self.x, other.y - self.y
        between = self.weight * share
        return Moments(
            weight,
            self.x + share * x,
            self.y + share * y,
            self.gram + other.gram + between * np.outer(x, x),
            self.cross + other.cross + between * np.outer(x, y),
        )

    def raw(self) -> tuple[FloatArray, FloatArray]:
        """Return gram and cross as they are without centring."""
        return (
            self.gram + self.weight * np.outer(self.x, self.x),
            self.cross + self.weight * np.outer(self.x, self.y),
        )


def row_sums(state: tuple[FloatArray, FloatArray], chunk: tuple[Any, FloatArray, FloatArray]) -> dict[str, Any]:
    """Return the sums of a chunk of samples, relative to a point near the means.

    state: the point, for features and for targets; sparse features are taken as they are, relative to 0.
    chunk: samples, dense or CSR; targets; weights.
    """
    x_origin, y_origin = state
    X, y, weights = chunk
    roots = np.sqrt(weights)
    y = (y - y_origin) * roots[:, None]
    if isinstance(X, np.ndarray):
        X = (X - x_origin) * roots[:, None]
        gram = X.T @ X
    else:
        X = _scaled(X, roots)
        gram = (X.T @ X).toarray()
    return {"gram": gram, "cross": X.T @ y, "x": X.T @ roots, "y": y.T @ roots, "weight": weights.sum()}


def centred(state: tuple[FloatArray, FloatArray], sums: dict[str, Any]) -> Moments:
    """Return the moments, from the sums of all chunks relative to a point."""
    x_origin, y_origin = state
    weight = float(sums["weight"])
    x, y = sums["x"] / weight, sums["y"] / weight
    return Moments(
        weight,
        x_origin + x,
        y_origin + y,
        sums["gram"] - weight * np.outer(x, x),
        sums["cross"] - weight * np.outer(x, y),
    )


def column_sums(roots: FloatArray, chunk: tuple[Any, FloatArray]) -> FloatArray:
    """Return the products of all samples with one another, over a chunk of features.

    roots: of the samples' weights. chunk: features, dense or sparse, one column each; and their means.
    """
    X, means = chunk
    if isinstance(X, np.ndarray):
        X = (X - means) * roots[:, None]
        return np.asarray(X @ X.T)
    shifts = X @ means
    products = (X @ X.T).toarray() - shifts[:, None] - shifts + means @ means
    return np.asarray(products * roots[:, None] * roots)


def _scaled(X: Any, factors: FloatArray) -> Any:
    """Return a CSR matrix with its rows multiplied."""
    found = X.copy()
    found.data *= np.repeat(factors, np.diff(X.indptr))
    return found
