"""How slow a worker was in each round, told apart from how much its tasks differ within a round."""

import numpy as np
from numpy.random import Generator
from scipy.special import gammaincc, gammaln

from echelon.arrays import BoolArray, FloatArray, IntArray
from echelon.stream.traced import kaplan_meier

ENOUGH_ROUNDS = 10  # with two tasks or more, to tell how tasks differ within a round
STEADY = 0.05  # deviation over mean of the tasks of a round, below which they are taken to be equal
SHAPES = (0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 8.0, 14.0, 30.0, 80.0, 200.0)  # of the law of parts within a round
FITTED = 1500  # rounds by which shape and shares are found, at most
FEW, LITTLE = 5.0, 0.03  # gain in log-likelihood, and by round, below which rounds are taken not to differ
_GRID, _STEPS = 32, 40  # paces that rounds may have; steps by which their shares are found
_LEAST_S = 1e-12


def round_paces(
    at: IntArray, costs: FloatArray, seconds: FloatArray, finished: BoolArray, rounds: int, rng: Generator
) -> FloatArray:
    """Return the pace of each round, in seconds per part, shape (rounds,), from tasks in their order.

    Where the tasks of a round are all alike, it is what they show. Elsewhere a part takes the pace of its round times
    a gamma variable of mean 1, and rounds have paces by shares: shape and shares are those of the greatest likelihood
    (over a grid; shares by expectation and maximisation, after Kiefer and Wolfowitz 1956), in which a task that was cut
    short counts as one that took longer. Each round's pace is drawn from what its tasks leave possible. If one
    pace for all rounds fits nearly as well, all have that.

    at: the round of each task. finished: whether it was, or took longer than its `seconds`.
    """
    done: FloatArray = np.bincount(at[finished], costs[finished], minlength=rounds).astype(np.float64)
    spent: FloatArray = np.bincount(at[finished], seconds[finished], minlength=rounds).astype(np.float64)
    if spread_within(at[finished], seconds[finished] / costs[finished]) < STEADY:
        return _steady(at, seconds / costs, finished, done, spent, rng)
    usual = spent[done > 0] / done[done > 0]
    low = max(_LEAST_S, 1e-3 * float(np.median(usual)), float(usual.min()))
    high = max(2 * low, float(usual.max()), float((seconds / costs).max()))
    fit = _Fit(at, costs, np.maximum(seconds, _LEAST_S), finished, np.geomspace(low, 1.001 * high, _GRID))
    some = np.arange(0, rounds, -(-rounds // FITTED))
    fitted = [(*fit.shares(shape, some), shape) for shape in SHAPES]
    best, shares, shape = max(fitted, key=lambda one: one[0])
    if best - max(fit.alike(shape, some) for shape in SHAPES) < FEW + LITTLE * len(some):
        return np.full(rounds, float(np.median(usual)))
    possible = np.cumsum(fit.likelihood(shape, np.arange(rounds))[0] * shares, axis=1)
    chosen = (possible < rng.random((rounds, 1)) * possible[:, -1:]).sum(axis=1)
    found: FloatArray = fit.grid[np.minimum(chosen, _GRID - 1)]
    return found


class _Fit:
    """Likelihoods of tasks, for paces of a grid and shapes of the law within a round."""

    def __init__(
        self, at: IntArray, costs: FloatArray, seconds: FloatArray, finished: BoolArray, grid: FloatArray
    ) -> None:
        self.grid = grid
        self._at, self._costs, self._seconds, self._finished = at, costs, seconds, finished

    def likelihood(self, shape: float, rounds: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the likelihood of each round's tasks at each pace, shape (rounds, paces), and its logarithm's scale.

        A task of C parts takes a gamma variable of shape C k and scale pace / k.
        """
        size = int(rounds[-1]) + 1
        done = self._finished & (self._at < size)
        at, costs, seconds = self._at[done], self._costs[done], self._seconds[done]
        # of gamma variables of one scale, the sum alone tells of the scale
        each = shape * costs * np.log(shape) + (shape * costs - 1) * np.log(seconds) - gammaln(shape * costs)
        parts, spent, alone = (np.bincount(at, some, minlength=size)[rounds] for some in (costs, seconds, each))
        logs = alone[:, None] - shape * (parts[:, None] * np.log(self.grid) + spent[:, None] / self.grid)
        cut = ~self._finished & (self._at < size)
        cost, least = np.zeros(size), np.zeros(size)
        cost[self._at[cut]], least[self._at[cut]] = self._costs[cut], self._seconds[cut]
        cost, least = cost[rounds], least[rounds]
        some = cost > 0
        longer_yet = gammaincc(shape * cost[some, None], shape * least[some, None] / self.grid)
        logs[some] += np.log(np.maximum(longer_yet, 1e-300))
        scale = logs.max(axis=1)
        return np.exp(logs - scale[:, None]), scale

    def shares(self, shape: float, rounds: IntArray) -> tuple[float, FloatArray]:
        """Return the logarithm of the likelihood of all tasks of some rounds, and the shares of paces that give it."""
        likelihood, scale = self.likelihood(shape, rounds)
        shares = np.full(len(self.grid), 1 / len(self.grid))
        for _ in range(_STEPS):
            shares *= (1 / (likelihood @ shares)) @ likelihood / len(rounds)
        return float((np.log(likelihood @ shares) + scale).sum()), shares

    def alike(self, shape: float, rounds: IntArray) -> float:
        """Return the logarithm of the largest likelihood of some rounds where all have one pace."""
        likelihood, scale = self.likelihood(shape, rounds)
        return float((np.log(np.maximum(likelihood, 1e-300)) + scale[:, None]).sum(axis=0).max())


def _steady(
    at: IntArray, paces: FloatArray, finished: BoolArray, done: FloatArray, spent: FloatArray, rng: Generator
) -> FloatArray:
    """Return the pace of rounds that have one; where nothing was finished, it is drawn given what was seen of it."""
    # slow rounds that were cut short show fewer tasks: the first of each stands for its round
    order = np.unique(at, return_index=True)[1]
    first = order if finished[order].any() else np.arange(len(at))
    values, masses, _ = kaplan_meier(paces[first], finished[first])
    least = np.zeros(len(done))
    np.maximum.at(least, at[~finished], paces[~finished])
    drawn = longer(values, masses, least, rng)
    known = done > 0
    drawn[known] = np.maximum(spent[known] / done[known], least[known])
    found: FloatArray = np.maximum(drawn, _LEAST_S)
    return found


def longer(values: FloatArray, masses: FloatArray, least: FloatArray, rng: Generator) -> FloatArray:
    """Return one draw of a law for each of `least`, given that it is longer; that itself where nothing is longer.

    values, masses: of the law, values in rising order.

    >>> longer(np.array([1.0, 2.0]), np.array([0.5, 0.5]), np.array([1.0, 3.0]), np.random.default_rng(1)).tolist()
    [2.0, 3.0]
    """
    up_to = np.concatenate([[0.0], np.cumsum(masses)])
    low = up_to[np.searchsorted(values, least, side="right")]
    share = low + rng.random(np.shape(least)) * (up_to[-1] - low)
    at = np.searchsorted(up_to, share, side="right") - 1
    found: FloatArray = np.maximum(values[np.minimum(at, len(values) - 1)], least)
    return found


def spread_within(at: IntArray, paces: FloatArray) -> float:
    """Return by how much paces of one round differ, deviation over mean; 0 where too few rounds have two of them.

    >>> spread_within(np.repeat(np.arange(10), 2), np.tile([1.0, 3.0], 10)) == 2**0.5 / 2
    True
    """
    _, group, sizes = np.unique(at, return_inverse=True, return_counts=True)
    means = np.bincount(group, paces) / sizes
    several = (sizes > 1) & (means > 0)
    if int(several.sum()) < ENOUGH_ROUNDS:
        return 0.0
    squares = np.bincount(group, np.square(paces - means[group]))
    return float(np.sqrt((squares[several] / np.square(means[several])).sum() / (sizes[several] - 1).sum()))
