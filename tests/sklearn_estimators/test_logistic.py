"""Logistic regression has the coefficients of scikit-learn's own."""

import math

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as Reference

from echelon.errors import ArgumentError
from echelon.sklearn import LogisticRegression
from echelon.sklearn.logistic_loss import loss_and_gradient
from tests.sklearn_estimators.data import HERE, digits, iris, tumours, weights

EXACT = {"tol": 1e-9, "max_iter": 2000}
NEWTON = {"solver": "newton-cholesky", "tol": 1e-10}


def assert_same(found, expected, X):
    assert found.coef_.shape == expected.coef_.shape
    assert found.intercept_.shape == expected.intercept_.shape
    assert np.allclose(found.coef_, expected.coef_, rtol=0, atol=1e-5)
    # the loss hardly changes along intercepts: the search ends when it falls by rounding only
    assert np.allclose(found.intercept_, expected.intercept_, rtol=0, atol=5e-5)
    assert np.allclose(found.decision_function(X), expected.decision_function(X), rtol=1e-5, atol=1e-4)
    assert np.allclose(found.predict_proba(X), expected.predict_proba(X), rtol=0, atol=1e-5)
    assert np.array_equal(found.predict(X), expected.predict(X))


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"C": 0.01},
        {"fit_intercept": False},
        {"class_weight": "balanced"},
        {"class_weight": {0: 3.0, 1: 0.5}},
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_two_classes_have_the_coefficients_of_scikit_learn(parameters, weighted):
    X, y = tumours()
    sample_weight = weights(len(y)) if weighted else None
    found = LogisticRegression(**parameters, **EXACT, **HERE).fit(X, y, sample_weight)
    assert_same(found, Reference(**parameters, **NEWTON).fit(X, y, sample_weight), X)


@pytest.mark.parametrize(("data", "C"), [(iris, 1.0), (digits, 0.1)])
@pytest.mark.parametrize("weighted", [False, True])
def test_more_classes_have_the_coefficients_of_scikit_learn(data, C, weighted):
    X, y = data()
    names = np.array(list("abcdefghij"))[y]
    sample_weight = weights(len(y)) if weighted else None
    found = LogisticRegression(C=C, **EXACT, **HERE).fit(X, names, sample_weight)
    expected = Reference(C=C, **NEWTON).fit(X, names, sample_weight)
    assert_same(found, expected, X)
    assert found.score(X, names) == expected.score(X, names)
    assert np.allclose(found.predict_log_proba(X), np.log(expected.predict_proba(X)), atol=1e-4)


def test_without_a_penalty_the_likelihood_is_highest():
    X, y = iris()
    X, y = X[50:, :2], y[50:]
    found = LogisticRegression(C=math.inf, **EXACT, **HERE).fit(X, y)
    probability = found.predict_proba(X)[:, 1]
    gradient = np.column_stack([X, np.ones(100)]).T @ (probability - (y == 2))
    assert np.abs(gradient).max() < 1e-5


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_sparse_samples_give_the_same_model_as_dense_ones(fit_intercept):
    X, y = digits()
    X, y = X[:400], y[:400]
    parameters = {"fit_intercept": fit_intercept, "C": 0.1, "tol": 1e-7, "max_iter": 500, **HERE}
    dense = LogisticRegression(**parameters).fit(X, y)
    sparse = LogisticRegression(**parameters).fit(csr_array(X), y)
    assert np.allclose(dense.coef_, sparse.coef_, rtol=0, atol=1e-5)
    assert np.allclose(dense.predict_proba(X), sparse.predict_proba(csr_array(X)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("classes", [1, 4])
def test_the_gradient_is_the_derivative_of_the_loss(classes):
    rng = np.random.default_rng(3)
    chunk = rng.normal(size=(9, 5)), rng.integers(max(classes, 2), size=9), rng.random(9)
    start, shape = rng.normal(size=classes * 6), (classes, 6)
    error = check_grad(
        lambda x: loss_and_gradient(x.reshape(shape), chunk)[0],
        lambda x: loss_and_gradient(x.reshape(shape), chunk)[1:],
        start,
    )
    assert error < 1e-6


def test_scores_of_any_size_have_a_finite_loss():
    chunk = np.array([[1.0], [-1.0]]), np.array([1, 1]), np.ones(2)
    found = loss_and_gradient(np.array([[1e4, 0.0]]), chunk)
    assert found.tolist() == [1e4, 1.0, -1.0]


def test_a_search_that_is_cut_short_warns():
    with pytest.warns(ConvergenceWarning, match=r"did not converge in 3 iterations \(max_iter=3\)"):
        model = LogisticRegression(max_iter=3, **HERE).fit(*iris())
    assert model.n_iter_.tolist() == [3]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"C": 0}, "C: 0 is not allowed; must be a finite number > 0"),
        ({"tol": -1.0}, "tol: -1.0 is not allowed"),
        ({"max_iter": 0}, "max_iter: 0 is not allowed"),
        ({"class_weight": "equal"}, "class_weight: 'equal' is not allowed; must be None, 'balanced' or a dict"),
        ({"cluster": "moon"}, "cluster: 'moon' is not allowed"),
        ({"redundancy": 0.5}, "redundancy: 0.5 is not allowed"),
        ({"chunks": 0}, "chunks: 0 is not allowed"),
    ],
)
def test_parameters_that_can_not_be_meant_are_refused(parameters, said):
    with pytest.raises(ArgumentError, match=said):
        LogisticRegression(**(HERE | parameters)).fit(*iris())


def test_one_class_alone_is_refused():
    with pytest.raises(ArgumentError, match=r"y: one class only, np.str_\('a'\); must have at least two classes"):
        LogisticRegression(**HERE).fit(np.eye(3), ["a", "a", "a"])


@pytest.mark.parametrize(
    ("sample_weight", "said"),
    [
        (np.ones(149), r"sample_weight: shape \(149,\) is not allowed; must be \(150,\)"),
        (-np.ones(150), "sample_weight: -1 is not allowed"),
        (np.zeros(150), "sample_weight: all zero is not allowed"),
    ],
)
def test_weights_that_can_not_be_meant_are_refused(sample_weight, said):
    with pytest.raises(ArgumentError, match=said):
        LogisticRegression(**HERE).fit(*iris(), sample_weight)
