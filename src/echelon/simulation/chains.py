"""Chains of products in virtual time, many seeds at once: what DIP, IDIP and their baselines take.

In every round all workers have mini-tasks of the same products, so that counts of results tell everything: when each
product is recovered, when the round may end, and how many results of it came by then. The rules are those of the
master (`endings.Due` and `endings.Fastest`); a test holds both to the same times.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from echelon import checks
from echelon.arrays import BoolArray, FloatArray, IntArray
from echelon.can import Can
from echelon.delays import Delay, per_worker
from echelon.delays.base import draws
from echelon.endings import TIES
from echelon.errors import ArgumentError
from echelon.reprs import short_repr
from echelon.schemes import Sequential
from echelon.simulation.chain_times import Draws, Paces, lane_times
from echelon.stragglers import Arbitrary, StragglerModel


@dataclass(frozen=True, eq=False, slots=True)
class ChainResult:
    """What chains took.

    durations: of each round, shape (seeds, rounds). loads: work that every worker was given, in the same shape.
    finished: the round after which each product was there, counted from its first, shape (seeds, products).
    """

    durations: FloatArray
    loads: FloatArray
    finished: IntArray

    __repr__ = short_repr

    @property
    def times(self) -> FloatArray:
        """Mean time of a product, by seed."""
        mean: FloatArray = self.durations.sum(axis=1) / self.finished.shape[1]
        return mean

    @property
    def mean(self) -> float:
        """Mean time of a product."""
        return float(self.times.mean())

    @property
    def error(self) -> float:
        """Standard error of `mean`; not known from a single seed."""
        return float(self.times.std(ddof=1) / len(self.times) ** 0.5) if len(self.times) > 1 else float("nan")


def can(scheme: Sequential, laws: Sequence[Delay]) -> Can:
    """Return whether chains of a scheme can be simulated under laws, one per worker; if not, it says why.

    >>> from echelon.delays import Exponential
    >>> from echelon.schemes import uncoded_products
    >>> can(uncoded_products(2), [Exponential(rate=1.0)]).why_not
    'it is for 2 workers, and there are laws for 1'
    """
    known = _knows(scheme)
    if known and len(laws) != scheme.workers:
        return Can(f"it is for {scheme.workers} workers, and there are laws for {len(laws)}")
    return known


def _knows(scheme: Sequential) -> Can:
    if not isinstance(scheme, Sequential):
        return Can(f"{type(scheme).__name__} is no scheme for a chain of products; plans are for simulate_rounds")
    if scheme.waiting not in _WAITS:
        return Can(f"rounds of {', '.join(_WAITS)} can be simulated, and not those that wait by {scheme.waiting!r}")
    return Can()


def simulate_chain(
    scheme: Sequential,
    law: Delay | Sequence[Delay] | None = None,
    *,
    products: int | None = None,
    loads: Sequence[float] | FloatArray | None = None,
    paces: FloatArray | None = None,
    links: Sequence[float] | FloatArray | None = None,
    seeds: int = 1,
    seed: int = 1,
) -> ChainResult:
    """Return what `products` products take, one begun in each round, in as many independent runs as `seeds`.

    law: of the time that a worker takes for the work of a whole product of load 1, one for all workers or one per
        worker. A task that is more than that takes the sum of as many times.
    paces: such times instead, one per round and worker for all its tasks, as recorded or as made from a pattern of
        stragglers, shape (rounds, workers) or (seeds, rounds, workers); `products` + delay rounds are needed.
    loads: what each product costs; 1 each by default. links: delay of each worker's link, paid once per round.

    >>> from echelon.delays import Deterministic, Straggler
    >>> from echelon.schemes import polynomial_products
    >>> law = Straggler(base=Deterministic(time=1.0), probability=0.3, slowdown=5.0)
    >>> found = simulate_chain(polynomial_products(4, x=2, y=1), law, products=1000, seeds=10)
    >>> round(found.mean, 1)  # 0.6674 in the long run
    0.7
    """
    known = _knows(scheme)
    if not known:
        raise ArgumentError(f"scheme: {scheme!r} is not allowed; {known.why_not}")
    costs = _costs(products, loads) * scheme.share
    rounds = len(costs) + scheme.delay
    runs = checks.whole("seeds", seeds, least=1, most=10**6)
    if (law is None) == (paces is None):
        raise ArgumentError("law, paces: one of them must be given, and not both")
    if paces is not None:
        given = _checked_paces(paces, rounds, scheme.workers)
        runs = len(given)
        times: Draws | Paces = Paces(given)
    else:
        assert law is not None
        laws = per_worker(law, scheme.workers, "law")
        times = Draws(laws, runs, rounds, _most_parts(scheme, costs), seed)
    late = np.zeros(scheme.workers) if links is None else checks.floats("links", links)
    if late.shape != (scheme.workers,) or not np.isfinite(late).all() or (late < 0).any():
        raise ArgumentError(f"links: must be {scheme.workers} finite numbers >= 0, one per worker")
    return _run(scheme, costs, times, late, runs)


def _costs(products: int | None, loads: Sequence[float] | FloatArray | None) -> FloatArray:
    if loads is None:
        return np.ones(checks.whole("products", products, least=1))
    values = checks.floats("loads", loads)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all() or (values <= 0).any():
        raise ArgumentError("loads: must be a row of finite numbers > 0, one per product")
    if products not in (None, len(values)):
        raise ArgumentError(f"products: {products!r} is not allowed; must be {len(values)}, as many as loads")
    return values


def _checked_paces(paces: FloatArray, rounds: int, workers: int) -> FloatArray:
    values = np.asarray(paces, dtype=np.float64)
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or values.shape[1] < rounds or values.shape[2] != workers or not np.isfinite(values).all():
        raise ArgumentError(
            f"paces: shape {values.shape} given; must be finite times, shape (rounds, {workers}) or (seeds, rounds, "
            f"{workers}), for {rounds} rounds at least"
        )
    if not len(values) or (values <= 0).any():
        raise ArgumentError("paces: must be > 0")
    return values


def _wait_due(needed: FloatArray, whole: FloatArray, patience: float) -> FloatArray:
    """Return until when rounds of `endings.Due` wait, apart from what is due."""
    wait: FloatArray = np.minimum(patience * needed.min(axis=1), needed.max(axis=1))
    return wait


def _wait_fastest(needed: FloatArray, whole: FloatArray, patience: float) -> FloatArray:
    """Return until when rounds of `endings.Fastest` wait, apart from what is due."""
    wait: FloatArray = patience * whole.min(axis=1)
    return wait


# from when nothing more of a lane is needed and when all of it came, both of shape (seeds, workers), and 1 + mu
_WAITS: dict[str, Callable[[FloatArray, FloatArray, float], FloatArray]] = {
    "due": _wait_due,
    "fastest": _wait_fastest,
}


def _run(scheme: Sequential, costs: FloatArray, times: Draws | Paces, late: FloatArray, runs: int) -> ChainResult:
    delay, most = scheme.delay, scheme.due_tasks(scheme.threshold)
    products, rounds = len(costs), len(costs) + delay
    ages = _ages(scheme)
    missing = np.zeros((runs, delay + 1), dtype=np.int64)  # of the products in the window, by age
    durations, loads = np.zeros((runs, rounds)), np.zeros((runs, rounds))
    finished = np.zeros((runs, products), dtype=np.int64)
    patience = (1 + scheme.tolerance) * (1 + TIES) if scheme.tolerance else 1.0
    waits = None if scheme.model is None else _Waits(scheme.model, runs, scheme.workers)
    for t in range(rounds):
        missing = np.concatenate(
            [np.full((runs, 1), scheme.threshold if t < products else 0), missing[:, :-1]], axis=1
        )  # fmt: skip
        window = costs[np.minimum(np.maximum(t - np.arange(delay + 1), 0), products - 1)]
        there = missing[:, ages] > 0
        due = np.arange(most) < np.ceil(missing[:, delay:] / (scheme.spread if waits is None else 1))
        there[:, delay:] &= due if waits is None else due[:, :1]
        work = there * window[ages]
        parts = times.of_round(t, there @ draws(window[ages]))
        arrivals = late[:, None] + np.cumsum(lane_times(there, window[ages], parts), axis=2)
        whole = arrivals[:, :, -1] * there.any(axis=1, keepdims=True)  # tasks that are not there take no time
        arrivals[~np.broadcast_to(there[:, None], arrivals.shape)] = np.inf  # no such task
        recovered = _recovered(arrivals, missing, delay)
        # nothing more of a lane is needed when each of its results came, or is of a product that is recovered
        needed = np.minimum(arrivals, recovered[:, ages][:, None])
        lanes = np.where(there[:, None], needed, 0.0).max(axis=2)
        must = recovered[:, delay]
        if waits is not None:
            must = np.maximum(must, waits.until(lanes))
        end = np.maximum(must, _WAITS[scheme.waiting](lanes, whole, patience))
        durations[:, t], loads[:, t] = end, work.sum(axis=1)
        came = (arrivals <= end[:, None, None]).sum(axis=1)
        left = missing.copy()
        left[:, :delay] -= came[:, :delay]
        left[:, delay] -= came[:, delay:].sum(axis=1)
        over = (missing > 0) & (left <= 0)
        for age in range(max(0, t - products + 1), min(delay, t) + 1):
            finished[over[:, age], t - age] = age
        missing = np.maximum(left, 0)
        if waits is not None:
            waits.note(lanes > end[:, None])
    return ChainResult(durations, loads, finished)


def _ages(scheme: Sequential) -> IntArray:
    """Return the ages of the tasks in a lane: the newest product first, and several tasks of the one that is due."""
    due = np.full(scheme.due_tasks(scheme.threshold), scheme.delay)
    return np.concatenate([np.arange(scheme.delay), due])


def _most_parts(scheme: Sequential, costs: FloatArray) -> int:
    """Return the most parts that a lane may have in a round; costs: of a task of each product."""
    padded = np.concatenate([costs, np.full(scheme.delay, costs.min())])
    return int(np.sum([np.roll(draws(padded), age) for age in _ages(scheme)], axis=0).max())


def _recovered(arrivals: FloatArray, missing: IntArray, delay: int) -> FloatArray:
    """Return when the product of each age has what it lacks, if it does in this round; 0 where it lacks nothing."""
    runs = len(missing)
    each = np.arange(runs)
    found = np.zeros((runs, delay + 1))
    for age in range(delay + 1):
        some = arrivals[:, :, age] if age < delay else arrivals[:, :, delay:].reshape(runs, -1)
        some = np.sort(some, axis=1)
        lacking = missing[:, age]
        at = some[each, np.minimum(np.maximum(lacking, 1), some.shape[1]) - 1]
        found[:, age] = np.where(lacking == 0, 0.0, np.where(lacking > some.shape[1], np.inf, at))
    return found


class _Waits:
    """How long each run must wait for its pattern of stragglers to conform to a model."""

    def __init__(self, model: StragglerModel, runs: int, workers: int) -> None:
        self._model = model
        self._seen: BoolArray = np.zeros((runs, model.window - 1, workers), dtype=bool)

    def until(self, lanes: FloatArray) -> FloatArray:
        """Return when few enough lanes are undone, from when each is done, shape (runs, workers)."""
        if isinstance(self._model, Arbitrary):  # the common case, by the quick way
            allowed = np.maximum(self._model.count - self._seen.sum(axis=(1, 2)), 0)
            ordered = np.concatenate([np.zeros((len(lanes), 1)), np.sort(lanes, axis=1)], axis=1)
            wait: FloatArray = ordered[np.arange(len(lanes)), np.maximum(lanes.shape[1] - allowed, 0)]
            return wait
        wait = np.zeros(len(lanes))
        histories, which = np.unique(self._seen.reshape(len(lanes), -1), axis=0, return_inverse=True)
        for i, history in enumerate(histories):  # many runs share one
            runs = np.flatnonzero(which == i)
            for workers, most in self._model.limits(history.reshape(self._seen.shape[1:])):
                if most < len(workers):
                    ordered = np.sort(lanes[runs][:, list(workers)], axis=1)
                    wait[runs] = np.maximum(wait[runs], ordered[:, len(workers) - most - 1])
        return wait

    def note(self, stragglers: BoolArray) -> None:
        """Take note of a round's stragglers, shape (runs, workers)."""
        self._seen = np.concatenate([self._seen, stragglers[:, None]], axis=1)[:, 1:]
