"""The logistic loss of a chunk and its gradient: what travels to the workers."""

from typing import Any

import numpy as np

from echelon.arrays import FloatArray, IntArray


def loss_and_gradient(state: FloatArray, chunk: tuple[Any, IntArray, FloatArray]) -> FloatArray:
    """Return the weighted loss of a chunk's samples and its derivative by the state, as one vector.

    state: one row of coefficients and an intercept per class; a single row is the second of two classes.
    chunk: samples, dense or CSR; the class number and the weight of each.

    >>> loss_and_gradient(np.zeros((1, 2)), (np.array([[3.0]]), np.array([1]), np.array([2.0]))).round(6)
    array([ 1.386294, -3.      , -1.      ])
    """
    X, classes, weights = chunk
    scores = X @ state[:, :-1].T + state[:, -1]
    if len(state) == 1:
        # with the sign so that the loss is log(1 + exp(score)): nothing cancels, however large a score is
        signs = (1.0 - 2.0 * classes)[:, None]
        scores *= signs
        small = np.exp(-np.abs(scores))
        losses = (np.maximum(scores, 0.0) + np.log1p(small))[:, 0]
        errors = signs * np.where(scores > 0, 1.0, small) / (1.0 + small)
    else:
        rows = np.arange(len(scores))
        logs = log_softmax(scores)
        losses = -logs[rows, classes]
        errors = np.exp(logs)
        errors[rows, classes] -= 1.0
    errors *= weights[:, None]
    gradient = np.column_stack([(X.T @ errors).T, errors.sum(axis=0)])
    return np.concatenate([[losses @ weights], gradient.ravel()])


def log_softmax(scores: FloatArray) -> FloatArray:
    """Return the logarithm of each row's softmax."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
