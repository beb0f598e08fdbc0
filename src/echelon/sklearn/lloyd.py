"""Lloyd's iterations: samples go to their nearest centres, and centres to the means of their samples."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from echelon.arrays import FloatArray, IntArray

_BLOCK = 2**16  # distances at a time, so that they stay in a processor's cache
_ROWS = 256  # samples at a time, at least: with fewer, Python's overhead counts
_ROUNDING = (8 * np.finfo(float).eps) ** 2  # of a centre, squared
_STILL = 1e-20  # of the variance: centres that move less, squared, have kept their samples; the rest is rounding


def _blocks(X: FloatArray, centres: FloatArray) -> Iterator[tuple[slice, FloatArray, IntArray, FloatArray]]:
    """Yield blocks of samples: which they are, relative to the middle of the centres, their labels, and scores.

    Relative to the middle, so that squares of large means do not swallow small distances. A score is the square of the
    distance from the nearest centre, minus the square of the sample.
    """
    middle = centres.mean(axis=0)
    centres = centres - middle
    norms, factors = (centres**2).sum(axis=1), -2.0 * centres.T
    size = max(_ROWS, _BLOCK // len(centres))
    for start in range(0, len(X), size):
        some = slice(start, start + size)
        block = X[some] - middle
        scores = block @ factors
        scores += norms
        labels = scores.argmin(axis=1)
        yield some, block, labels, scores[np.arange(len(labels)), labels]


def nearest(X: FloatArray, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the nearest centre of every sample, and the square of its distance.

    >>> nearest(np.array([[0.0], [5.0]]), np.array([[1.0], [3.0]]))
    (array([0, 1]), array([1., 4.]))
    """
    labels, squares = np.empty(len(X), dtype=np.int64), np.empty(len(X))
    for some, _, found, _ in _blocks(X, centres):
        labels[some], squares[some] = found, ((X[some] - centres[found]) ** 2).sum(axis=1)
    return labels, squares


def cluster_sums(centres: FloatArray, chunk: tuple[FloatArray, FloatArray]) -> dict[str, Any]:
    """Return sums over a chunk's samples and their weights, by nearest centre; runs on the workers.

    sums: weighted, of the samples minus the middle of the centres. weights and counts: of the samples. inertia: sum of
    weighted squares of distances.
    """
    X, weights = chunk
    number = len(centres)
    sums, totals, counts, inertia = np.zeros(centres.shape), np.zeros(number), np.zeros(number), 0.0
    for some, block, labels, scores in _blocks(X, centres):
        own = weights[some]
        sums += csr_array((own, labels, np.arange(len(labels) + 1)), shape=(len(labels), number)).T @ block
        totals += np.bincount(labels, own, number)
        counts += np.bincount(labels, minlength=number)
        inertia += float(own @ (np.einsum("ij,ij->i", block, block) + scores))
    return {"sums": sums, "weights": totals, "counts": counts, "inertia": inertia}


@dataclass(slots=True)
class Groups:
    """Samples by their nearest centres: weighted sums relative to `middle`, weights, and how many."""

    middle: FloatArray
    sums: FloatArray
    weights: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, centres: FloatArray, found: dict[str, Any]) -> "Groups":
        """Return what a round found."""
        # decoding leaves whole numbers slightly off
        counts = np.rint(found["counts"])
        weights = np.where(counts > 0, found["weights"], 0.0)
        return cls(centres.mean(axis=0), found["sums"], weights, counts)

    def means(self, centres: FloatArray) -> FloatArray:
        """Return the means of the groups; centres that have no samples stay where they are."""
        found = centres.copy()
        some = self.counts > 0
        found[some] = self.middle + self.sums[some] / self.weights[some, None]
        return found


def refilled(groups: Groups, X: FloatArray, weights: FloatArray, centres: FloatArray) -> None:
    """Give each centre that has no samples the one that is farthest from its own, out of a group of several.

    Of samples that are equally far the first is taken, so that the same data always gives the same groups. Where none
    is away from its centre, there are fewer different samples than centres, and some stay empty.
    """
    empty = np.flatnonzero(groups.counts == 0).tolist()
    if not empty:
        return
    labels, squares = nearest(X, centres)
    for row in np.argsort(-squares, kind="stable").tolist():
        if not empty or squares[row] == 0:
            return
        donor, weight = labels[row], weights[row]
        if groups.counts[donor] > 1:
            taker, moved = empty.pop(0), weight * (X[row] - groups.middle)
            groups.sums[donor] -= moved
            groups.weights[donor] -= weight
            groups.counts[donor] -= 1
            groups.sums[taker], groups.weights[taker], groups.counts[taker] = moved, weight, 1


def lloyd(
    total: Callable[[FloatArray], dict[str, Any]],
    X: FloatArray,
    weights: FloatArray,
    centres: FloatArray,
    *,
    iterations: int,
    variance: float,
    tol: float,
) -> tuple[FloatArray, float, int]:
    """Return the last centres, their inertia, and how many iterations were made.

    total: what `cluster_sums` gives for all samples. The iterations end when centres move by less than ``tol *
    variance``, squared and summed.
    """
    made, still = 0, False
    while made < iterations and not still:
        groups = Groups.of(centres, total(centres))
        refilled(groups, X, weights, centres)
        means = groups.means(centres)
        moved = ((means - centres) ** 2).sum()
        still = bool(moved <= max(tol, _STILL) * variance + _ROUNDING * (centres**2).sum())
        centres, made = means, made + 1
    return centres, float(total(centres)["inertia"]), made
