"""Ridge regression has the coefficients of scikit-learn's own, however the samples come."""

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as Reference

from echelon.errors import ArgumentError
from echelon.sklearn import Ridge
from echelon.sklearn.semidefinite import solved
from tests.sklearn_estimators.data import HERE, diabetes, weights


def assert_same(found, expected, within=1e-8):
    assert found.coef_.shape == expected.coef_.shape
    assert np.allclose(found.coef_, expected.coef_, rtol=within, atol=within * np.abs(expected.coef_).max())
    assert np.shape(found.intercept_) == np.shape(expected.intercept_)
    assert np.allclose(found.intercept_, expected.intercept_, rtol=within, atol=within)


def wide():
    """Forty samples of 150 features, most of them 0, and two targets."""
    rng = np.random.default_rng(4)
    X = np.where(rng.random((40, 150)) < 0.2, rng.normal(3, size=(40, 150)), 0)
    return X, rng.normal(size=(40, 2)) + 5


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 100.0])
def test_coefficients_are_those_of_scikit_learn(fit_intercept, weighted, alpha):
    X, y = diabetes()
    sample_weight = weights(len(y)) if weighted else None
    found = Ridge(alpha=alpha, fit_intercept=fit_intercept, **HERE).fit(X, y, sample_weight)
    expected = Reference(alpha=alpha, fit_intercept=fit_intercept).fit(X, y, sample_weight)
    assert_same(found, expected)
    assert np.allclose(found.predict(X), expected.predict(X), rtol=1e-8)
    assert found.score(X, y) == pytest.approx(expected.score(X, y), rel=1e-8)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [np.asarray, csr_array, csr_matrix])
@pytest.mark.parametrize("alpha", [0.5, [2.0, 0.01]])
def test_wide_data_has_the_coefficients_of_scikit_learn(fit_intercept, weighted, form, alpha):
    X, y = wide()
    sample_weight = weights(len(y)) if weighted else None
    found = Ridge(alpha=alpha, fit_intercept=fit_intercept, **HERE).fit(form(X), y, sample_weight)
    assert_same(found, Reference(alpha=alpha, fit_intercept=fit_intercept).fit(X, y, sample_weight))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_several_targets_may_have_an_alpha_each(fit_intercept):
    X, y = diabetes()
    targets = np.column_stack([y, X[:, 0] ** 2, y**2])
    found = Ridge(alpha=[0.1, 3.0, 0.1], fit_intercept=fit_intercept, **HERE).fit(X, targets)
    assert_same(found, Reference(alpha=[0.1, 3.0, 0.1], fit_intercept=fit_intercept).fit(X, targets))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_samples_give_the_same_model_as_dense_ones(fit_intercept, weighted):
    X, y = wide()
    X, y = X.T, X[0]
    sample_weight = weights(len(y)) if weighted else None
    found = Ridge(fit_intercept=fit_intercept, **HERE).fit(csr_array(X), y, sample_weight)
    assert_same(found, Reference(fit_intercept=fit_intercept).fit(X, y, sample_weight))


def test_large_means_cost_no_digits():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 4))
    y = X @ [1.0, 2.0, 3.0, 4.0]
    found = Ridge(alpha=1.0, **HERE).fit(X + 1e8, y + 1e8)
    assert np.allclose(found.coef_, Reference(alpha=1.0).fit(X, y).coef_, rtol=1e-6)


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_the_units_of_a_feature_do_not_matter(size):
    X, y = diabetes()
    X[:, 3] *= size
    found = Ridge(alpha=0.0, **HERE).fit(X, y)
    X[:, 3] /= size
    assert np.allclose(found.coef_ * [1, 1, 1, size, 1, 1, 1, 1, 1, 1], LinearRegression().fit(X, y).coef_, rtol=1e-8)


@pytest.mark.parametrize("rows", [30, 3])
def test_of_many_solutions_the_shortest_is_taken(rows):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(rows, 5))
    X[:, 4] = X[:, 3]
    y = rng.normal(size=rows)
    found = Ridge(alpha=0.0, **HERE).fit(X, y)
    assert np.allclose(found.coef_, np.linalg.pinv(X - X.mean(axis=0)) @ (y - y.mean()), rtol=1e-8)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("data", [diabetes, wide])
def test_fits_of_pieces_are_a_fit_of_all(form, fit_intercept, data):
    X, y = data()
    sample_weight = weights(len(y))
    whole = Reference(fit_intercept=fit_intercept).fit(X, y, sample_weight)
    found = Ridge(fit_intercept=fit_intercept, **HERE)
    for some in (slice(0, 4), slice(4, 30), slice(30, None)):
        found.partial_fit(form(X[some]), y[some], sample_weight[some])
    assert_same(found, whole)


def test_a_fit_is_gone_on_with_and_another_fit_begins_anew():
    X, y = diabetes()
    model = Ridge(**HERE).fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    assert_same(model, Reference().fit(X, y))
    assert_same(model.fit(X[:50], y[:50]), Reference().fit(X[:50], y[:50]))


def test_a_fit_to_wide_data_can_not_be_gone_on_with():
    X, y = wide()
    model = Ridge(**HERE).fit(X, y)
    with pytest.raises(ArgumentError, match="partial_fit: not allowed after a fit with more features than samples"):
        model.partial_fit(X, y)


def test_equations_that_are_singular_but_for_alpha_are_solved():
    rng = np.random.default_rng(2)
    factor = rng.normal(size=(3, 6))
    matrix, right = factor.T @ factor, factor.T @ rng.normal(size=(3, 1))
    found = solved(matrix, right, np.array([1e-20]))
    assert np.allclose(found, np.linalg.pinv(matrix, rcond=1e-12) @ right, rtol=1e-8)


@pytest.mark.parametrize(
    ("alpha", "said"),
    [
        (-1.0, "alpha: -1.0 is not allowed; must be a finite number >= 0"),
        ([1.0, 2.0], r"alpha: shape \(2,\) is not allowed; must be a number or \(1,\)"),
        ([-1.0], r"alpha\[0\]: -1.0 is not allowed"),
    ],
)
def test_parameters_that_can_not_be_meant_are_refused(alpha, said):
    with pytest.raises(ArgumentError, match=said):
        Ridge(alpha=alpha, **HERE).fit(*diabetes())


def test_another_number_of_targets_is_refused():
    X, y = diabetes()
    model = Ridge(**HERE).partial_fit(X, y)
    with pytest.raises(ArgumentError, match="y: 2 targets are not allowed; must be 1, as before"):
        model.partial_fit(X, np.column_stack([y, y]))
