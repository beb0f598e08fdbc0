"""Scores of many neighbouring splits at once, on one quadrature, for the search over whole splits."""

from collections.abc import Callable, Sequence

import numpy as np

from echelon.arrays import ComplexArray, FloatArray, IntArray
from echelon.theory.iteration import Convolution, TaskSums, iteration_law, missing_pmf

_JUMPS = 400  # with more jumps than this, one more no longer matters to the integral


def _jumps(laws: Sequence[TaskSums], links: FloatArray, counts: IntArray, low: float, high: float) -> FloatArray:
    """Return where distribution functions jump inside the range, for constant tasks; none where there are many."""
    places = [
        link + law.atoms(range(1, 2 * int(count) + 2)) for law, link, count in zip(laws, links, counts, strict=True)
    ]
    inside = np.unique(np.concatenate(places))
    inside = inside[(inside > low) & (inside < high)]
    return inside if len(inside) <= _JUMPS else inside[:0]


class SplitScore:
    """An objective of the moments of an iteration: exact for a split, and near for all splits one row away.

    The transform of a worker with k rows is kept, and products over all workers but one come from running
    products from both ends, so that a change of one worker costs one product and one inverse transform.
    """

    def __init__(
        self,
        laws: Sequence[TaskSums],
        links: FloatArray,
        counts: IntArray,
        critical: int,
        objective: Callable[[float, float], float],
    ) -> None:
        self._laws, self._links, self._critical, self._objective = laws, links, critical, objective
        self._fold = Convolution(int(counts.sum()) - critical + 1)
        # room for splits that are somewhat slower or faster than the one the search starts from
        low, high = iteration_law(laws, links, counts, critical).support
        edges = np.concatenate([np.linspace(low * 0.5, 2 * high - low, 49), high * np.exp2(np.arange(1.5, 7))])
        edges = np.unique(np.concatenate([edges, _jumps(laws, links, counts, edges[0], edges[-1])]))
        points, weights = np.polynomial.legendre.leggauss(6)
        half = np.diff(edges)[:, None] / 2
        self._times = ((edges[:-1, None] + edges[1:, None]) / 2 + half * points).ravel()
        self._weights = (half * weights).ravel()
        self._low = float(edges[0])
        self._cache: dict[tuple[int, int], ComplexArray] = {}

    def _factor(self, worker: int, count: int) -> ComplexArray:
        key = worker, count
        if key not in self._cache:
            fold = self._fold
            pmf = missing_pmf(self._laws[worker], float(self._links[worker]), count, self._times, fold.spare)
            self._cache[key] = fold.transform(pmf)
        return self._cache[key]

    def _score(self, product: ComplexArray, spare: int) -> float:
        late = 1 - self._fold.at_most(product, spare)
        mean = self._low + float(late @ self._weights)
        second = self._low**2 + 2 * float((late * self._times) @ self._weights)
        return self._objective(mean, second)

    def value(self, counts: IntArray) -> float:
        """Return the exact score of one split."""
        law = iteration_law(self._laws, self._links, counts, self._critical)
        return self._objective(law.mean, law.second)

    def values_after(self, counts: IntArray, change: int) -> FloatArray:
        """Return, for each worker, the score once its count has changed by +1 or -1."""
        spare = int(counts.sum()) + change - self._critical
        workers = len(counts)
        after: list[ComplexArray] = [np.ones((len(self._times), self._fold.bins), dtype=np.complex128)]
        for p in range(workers - 1, 0, -1):
            after.append(after[-1] * self._factor(p, int(counts[p])) if counts[p] else after[-1])
        before = after[0]
        scores = np.full(workers, np.inf)
        for p in range(workers):
            others = before * after[workers - 1 - p]
            count = int(counts[p]) + change
            if count >= 0:
                scores[p] = self._score(others * self._factor(p, count) if count else others, spare)
            if counts[p]:
                before = before * self._factor(p, int(counts[p]))
        return scores
