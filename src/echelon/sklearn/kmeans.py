"""k-means: one coded round per iteration of Lloyd's, or per batch."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import (  # type: ignore[import-untyped]
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.cluster import kmeans_plusplus  # type: ignore[import-untyped]
from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
from sklearn.metrics.pairwise import euclidean_distances  # type: ignore[import-untyped]
from sklearn.utils import check_array, check_random_state  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.endings import Policy
from echelon.errors import ArgumentError
from echelon.sklearn.inputs import mapped, weights_of
from echelon.sklearn.lloyd import Groups, cluster_sums, lloyd, nearest
from echelon.sklearn.rounds import summing


class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """k-means clustering by Lloyd's iterations, or with `partial_fit` by batches.

    n_clusters, max_iter, tol, random_state: as scikit-learn's.
    init: "k-means++", or the first centres, (n_clusters, features). k-means++ runs on the master; where that takes too
        long, give centres that were found in a sample of the data.
    n_init: how often to start, with k-means++; the best is kept.
    ending: a policy of `echelon.endings`, such as ``Deadline(0.5)`` or ``Quorum(0.9)``, by which rounds of
        `partial_fit` may do without late chunks of their batch; those of `fit` are exact.
    cluster, workers, redundancy, chunks: where `fit` runs, see `echelon.sklearn`.

    X must be dense. A sample of weight 2 counts as two, everywhere, including k-means++, and the order of samples does
    not matter. A centre that loses all samples takes the one that is farthest from its own. Fitted: `cluster_centers_`,
    `labels_`, `inertia_`, `n_iter_`.

    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> model = KMeans(n_clusters=2, random_state=0, cluster="threads", workers=2).fit(X)
    >>> sorted(model.cluster_centers_.ravel().tolist()), model.inertia_
    ([0.5, 10.5], 1.0)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = None,
        ending: Policy | None = None,
        cluster: str = "processes",
        workers: int | None = None,
        redundancy: float | None = None,
        chunks: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.ending = ending
        self.cluster = cluster
        self.workers = workers
        self.redundancy = redundancy
        self.chunks = chunks

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "KMeans":
        """Find clusters, with one round per iteration; of `n_init` starts the one with the least inertia is kept."""
        samples, weights, counted, used = self._checked(X, sample_weight, reset=True)
        _checked_ending(self.ending)  # of batches; but what is wrong is said at once
        checks.whole("n_init", self.n_init, least=1)
        checks.whole("max_iter", self.max_iter, least=1)
        checks.number("tol", self.tol, least=0)
        random = check_random_state(self.random_state)
        starts = self.n_init if isinstance(self.init, str) else 1
        firsts = [self._first_centres(counted, used, random) for _ in range(starts)]
        _, squares = _around_mean(counted, used)
        variance = float(used @ squares / used.sum() / counted.shape[1])
        best: tuple[FloatArray, float, int] | None = None
        with summing(self, cluster_sums, len(counted), lambda some: (counted[some], used[some])) as total:
            for centres in firsts:
                found = lloyd(
                    total, counted, used, centres, iterations=self.max_iter, variance=variance, tol=self.tol
                )  # fmt: skip
                if best is None or found[1] < best[1]:
                    best = found
        assert best is not None
        self.cluster_centers_, _, self.n_iter_ = best
        self._label(samples, weights)
        self._counts = np.bincount(self.labels_, weights, self.n_clusters).astype(np.float64)
        distinct = len(np.unique(self.labels_[weights > 0]))
        if distinct < self.n_clusters:
            warnings.warn(
                f"{distinct} clusters were found, fewer than n_clusters={self.n_clusters}; there may be no more "
                "different samples in X.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "KMeans":
        """Move the centres towards the means of a batch, in one round: k-means by mini-batches.

        A centre is the mean of all samples it was ever given. The first batch gives the first centres, unless `fit`
        or `init` did. `labels_` and `inertia_` are those of the batch, and `n_iter_` counts batches.

        >>> model = KMeans(n_clusters=2, init=[[0.0], [9.0]], cluster="threads", workers=2)
        >>> for batch in ([[1.0], [10.0]], [[3.0], [10.0]]):
        ...     model = model.partial_fit(batch)
        >>> model.cluster_centers_.ravel().round(9)
        array([ 2., 10.])
        """
        first = not hasattr(self, "cluster_centers_")
        samples, weights, counted, used = self._checked(X, sample_weight, reset=first)
        if first:
            centres = self._first_centres(counted, used, check_random_state(self.random_state))
            before, batches = np.zeros(len(centres)), 0
        else:
            centres, before, batches = self.cluster_centers_, self._counts, self.n_iter_
        ending = _checked_ending(self.ending)
        with summing(
            self, cluster_sums, len(counted), lambda some: (counted[some], used[some]), ending
        ) as total:  # fmt: skip
            groups = Groups.of(centres, total(centres))
        counts = before + groups.weights
        rates = np.divide(groups.weights, counts, out=np.zeros(len(counts)), where=counts > 0)
        self.cluster_centers_ = centres + rates[:, None] * (groups.means(centres) - centres)
        self._counts, self.n_iter_ = counts, batches + 1
        self._label(samples, weights)
        return self

    def predict(self, X: Any) -> IntArray:
        """Return the nearest centre of every sample."""
        return nearest(self._dense(X), self.cluster_centers_)[0]

    def transform(self, X: Any) -> FloatArray:
        """Return the distances of every sample from all centres."""
        return np.asarray(euclidean_distances(self._dense(X), self.cluster_centers_))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the inertia of samples, negative: the sum of weighted squares of their distances."""
        _, squares = nearest(self._dense(X), self.cluster_centers_)
        return -float(weights_of(sample_weight, len(squares)) @ squares)

    def _checked(
        self, X: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return samples and weights, and both again without samples of weight 0."""
        checks.whole("n_clusters", self.n_clusters, least=1)
        samples = validate_data(self, X, dtype=np.float64, order="C", reset=reset)
        weights = weights_of(sample_weight, len(samples))
        if weights.all():
            return samples, weights, mapped(X, samples), weights
        return samples, weights, samples[weights > 0], weights[weights > 0]

    def _dense(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def _label(self, samples: FloatArray, weights: FloatArray) -> None:
        """Set labels and inertia, on the master: labels of samples are no sum over chunks."""
        self.labels_, squares = nearest(samples, self.cluster_centers_)
        self.inertia_ = float(weights @ squares)

    def _first_centres(self, X: FloatArray, weights: FloatArray, random: Any) -> FloatArray:
        if len(X) < self.n_clusters:
            raise ArgumentError(f"X: n_samples={len(X)} is not allowed; must be at least n_clusters={self.n_clusters}")
        if isinstance(self.init, str):
            checks.one_of("init", self.init, ["k-means++"])
            mean, squares = _around_mean(X, weights)
            # in an order of their own, draws depend neither on the order of samples nor on whether equal ones are one
            order = np.argsort(squares, kind="stable")
            centres, _ = kmeans_plusplus(
                X[order] - mean, self.n_clusters, sample_weight=weights[order], random_state=random
            )  # fmt: skip
            return np.asarray(centres + mean)
        centres = check_array(self.init, dtype=np.float64, input_name="init", copy=True)
        if centres.shape != (self.n_clusters, X.shape[1]):
            raise ArgumentError(
                f"init: shape {centres.shape} is not allowed; must be ({self.n_clusters}, {X.shape[1]})"
            )
        return np.asarray(centres)


def _checked_ending(ending: Policy | None) -> Policy | None:
    """Return a policy of batches, or refuse anything else."""
    if ending is None:
        return None
    if checks.instance("ending", ending, Policy).learns:  # type: ignore[type-abstract]
        raise ArgumentError(f'ending: {ending} is not allowed; "auto" is learnt from many rounds, and a batch has one')
    return ending


def _around_mean(X: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean of samples, and each one's squared distance from it."""
    mean = weights @ X / weights.sum()
    return np.asarray(mean), nearest(X, mean[None])[1]
