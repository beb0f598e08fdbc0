"""k-means finds the clusters that scikit-learn's own finds from the same centres."""

import numpy as np
import pytest
from sklearn.cluster import KMeans as Reference
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

import echelon as ec
from echelon.endings import Deadline, Quorum
from echelon.errors import ArgumentError
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.sklearn import KMeans, using
from echelon.sklearn.lloyd import nearest
from tests.sklearn_estimators.data import HERE, digits, iris, weights


@pytest.mark.parametrize(("data", "clusters"), [(iris, 3), (digits, 10)])
@pytest.mark.parametrize(("weighted", "tol"), [(False, 1e-4), (False, 0.0), (True, 0.0)])
def test_the_same_centres_lead_to_the_clusters_of_scikit_learn(data, clusters, weighted, tol):
    X, _ = data()
    sample_weight = weights(len(X)) if weighted else None
    init = X[1 : 1 + clusters]
    found = KMeans(clusters, init=init, tol=tol, **HERE).fit(X, sample_weight=sample_weight)
    expected = Reference(clusters, init=init, n_init=1, tol=tol).fit(X, sample_weight=sample_weight)
    assert np.array_equal(found.labels_, expected.labels_)
    assert found.inertia_ == pytest.approx(expected.inertia_, rel=1e-9)
    assert np.allclose(found.cluster_centers_, expected.cluster_centers_, rtol=1e-9, atol=1e-9)
    assert found.n_iter_ == expected.n_iter_
    assert np.array_equal(found.predict(X), expected.predict(X))
    assert np.allclose(found.transform(X), expected.transform(X), atol=1e-7)
    assert found.score(X, sample_weight=sample_weight) == pytest.approx(expected.score(X, sample_weight=sample_weight))


def test_iterations_end_at_their_limit():
    X, _ = digits()
    found = KMeans(10, init=X[:10], max_iter=3, **HERE).fit(X)
    expected = Reference(10, init=X[:10], n_init=1, max_iter=3).fit(X)
    assert found.n_iter_ == expected.n_iter_ == 3
    assert np.array_equal(found.labels_, expected.labels_)
    assert found.inertia_ == pytest.approx(expected.inertia_, rel=1e-9)


def test_more_starts_find_the_least_inertia():
    X, _ = digits()
    once = [KMeans(10, random_state=seed, **HERE).fit(X).inertia_ for seed in range(3)]
    often = KMeans(10, n_init=5, random_state=0, **HERE).fit(X)
    assert often.inertia_ <= once[0] * (1 + 1e-9)
    assert often.inertia_ == pytest.approx(Reference(10, n_init=20, random_state=0).fit(X).inertia_, rel=0.01)
    assert often.inertia_ < max(once)


def test_a_sample_of_weight_two_is_two_samples_and_their_order_does_not_matter():
    X, _ = iris()
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 4, size=len(X))
    order = rng.permutation(len(X))
    one = KMeans(4, random_state=5, **HERE).fit(X.repeat(counts, axis=0))
    other = KMeans(4, random_state=5, **HERE).fit(X[order], sample_weight=counts[order])
    assert np.allclose(one.cluster_centers_, other.cluster_centers_, atol=1e-9)
    assert one.inertia_ == pytest.approx(other.inertia_, rel=1e-9)


def test_a_centre_without_samples_takes_the_farthest_as_scikit_learn_does():
    X, _ = iris()
    init = np.vstack([X[:2], np.full(4, 1e3)])
    found = KMeans(3, init=init, tol=0.0, **HERE).fit(X)
    expected = Reference(3, init=init, n_init=1, tol=0.0).fit(X)
    assert np.array_equal(found.labels_, expected.labels_)
    assert found.inertia_ == pytest.approx(expected.inertia_, rel=1e-9)


def test_several_centres_without_samples_take_one_each():
    X = np.array([[0.0], [1.0], [2.0], [10.0]])
    model = KMeans(4, init=[[0.0], [100.0], [200.0], [300.0]], **HERE).fit(X)
    assert sorted(model.cluster_centers_.ravel().tolist()) == pytest.approx([0, 1, 2, 10])
    assert model.inertia_ == pytest.approx(0, abs=1e-20)


def test_fewer_different_samples_than_centres_warn():
    X = np.repeat([[0.0], [1.0]], 5, axis=0)
    with pytest.warns(ConvergenceWarning, match="2 clusters were found, fewer than n_clusters=3"):
        model = KMeans(3, random_state=0, **HERE).fit(X)
    assert model.inertia_ == pytest.approx(0, abs=1e-20)
    assert np.isfinite(model.cluster_centers_).all()


def test_samples_that_are_all_the_same_are_done_with_at_once():
    model = KMeans(1, tol=0.0, **HERE).fit(np.full((50, 3), 0.1))
    assert model.n_iter_ <= 2
    assert np.allclose(model.cluster_centers_, 0.1)


def test_large_means_cost_no_digits():
    X, _ = iris()
    near = KMeans(3, init=X[[0, 60, 120]], **HERE).fit(X)
    far = KMeans(3, init=X[[0, 60, 120]] + 1e6, **HERE).fit(X + 1e6)
    assert np.array_equal(near.labels_, far.labels_)
    assert far.inertia_ == pytest.approx(near.inertia_, rel=1e-6)


def test_batches_move_centres_as_in_scikit_learn():
    X, _ = digits()
    found = KMeans(10, init=X[:10], **HERE)
    expected = MiniBatchKMeans(10, init=X[:10], n_init=1, reassignment_ratio=0.0)
    for start in range(0, 1600, 400):
        batch = X[start : start + 400]
        sample_weight = weights(400)
        found.partial_fit(batch, sample_weight=sample_weight)
        expected.partial_fit(batch, sample_weight=sample_weight)
    assert np.allclose(found.cluster_centers_, expected.cluster_centers_, atol=1e-9)
    assert found.n_iter_ == 4
    assert np.array_equal(found.labels_, nearest(batch, found.cluster_centers_)[0])


def test_batches_go_on_from_a_fit_with_the_weight_it_had():
    X, _ = iris()
    model = KMeans(3, init=X[[0, 60, 120]], **HERE).fit(X[::2])
    sums = np.array([X[::2][model.labels_ == i].sum(axis=0) for i in range(3)])
    counts = np.bincount(model.labels_)
    labels = model.predict(X[1::2])
    sums += [X[1::2][labels == i].sum(axis=0) for i in range(3)]
    counts += np.bincount(labels)
    model.partial_fit(X[1::2])
    assert np.allclose(model.cluster_centers_, sums / counts[:, None])


def test_nearest_centres_are_found_block_by_block(monkeypatch):
    monkeypatch.setattr("echelon.sklearn.lloyd._ROWS", 10)
    monkeypatch.setattr("echelon.sklearn.lloyd._BLOCK", 30)
    rng = np.random.default_rng(0)
    X, centres = rng.normal(size=(101, 3)), rng.normal(size=(7, 3))
    squares = ((X[:, None] - centres) ** 2).sum(axis=2)
    labels, found = nearest(X, centres)
    assert np.array_equal(labels, squares.argmin(axis=1))
    assert np.allclose(found, squares.min(axis=1))


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"n_clusters": 0}, "n_clusters: 0 is not allowed"),
        ({"n_clusters": 151}, "X: n_samples=150 is not allowed; must be at least n_clusters=151"),
        ({"init": "random"}, r"init: 'random' is not allowed; must be one of k-means\+\+"),
        ({"init": np.ones((3, 4))}, r"init: shape \(3, 4\) is not allowed; must be \(8, 4\)"),
        ({"n_init": 0}, "n_init: 0 is not allowed"),
        ({"max_iter": 0}, "max_iter: 0 is not allowed"),
        ({"tol": -1}, "tol: -1 is not allowed"),
    ],
)
def test_parameters_that_can_not_be_meant_are_refused(parameters, said):
    with pytest.raises(ArgumentError, match=said):
        KMeans(**(HERE | parameters)).fit(iris()[0])


def test_a_batch_may_do_without_late_chunks():
    """The chunk of the last of four workers, which is slow, is left out: centres are means of the other three."""
    X = np.concatenate([np.full((6, 1), 0.0), np.full((2, 1), 100.0)])
    job = Workload(critical=4, redundancy=1.0, iterations=1, arrivals=Arrivals.poisson(1.0))
    profile = Profile(job, [Worker(f"w{p}", mean=1.0 + 9 * (p == 3), std=0.0) for p in range(4)])
    model = KMeans(n_clusters=2, init=[[1.0], [90.0]], chunks=4, ending=Quorum(0.75))
    with ec.Stream("virtual", emulate=profile, redundancy=1.0, split="uniform", adapt=False) as stream, using(stream):
        model.partial_fit(X)
    np.testing.assert_allclose(model.cluster_centers_, [[0.0], [90.0]])


@pytest.mark.parametrize("ask", ["fit", "partial_fit"])
def test_endings_that_batches_can_not_have_are_refused_at_once(ask):
    """`fit` is exact, but does not take what a later batch would refuse."""
    for ending, said in ((Deadline("auto"), "learnt from many rounds"), (0.9, "ending: 0.9 is not allowed")):
        model = KMeans(n_clusters=2, ending=ending, cluster="threads", workers=2)
        with pytest.raises(ArgumentError, match=said):
            getattr(model, ask)(np.eye(4))
