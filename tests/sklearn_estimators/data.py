"""Data for tests: scikit-learn's own, and weights for it."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.preprocessing import scale

HERE = {"cluster": "threads", "workers": 2}


def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), y


def tumours():
    """Two classes, with the features scaled."""
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def diabetes():
    return load_diabetes(return_X_y=True)


def weights(rows):
    """Some of them 0."""
    found = np.random.default_rng(7).exponential(size=rows)
    found[::5] = 0
    return found
