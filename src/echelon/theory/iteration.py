"""The exact law of an iteration: any `critical` of the rows that the workers hold, with the rest purged.

At time t worker p still misses M_p = kappa_p - N_p(t) of its rows, independently of the others, and the
iteration is over once the missing ones are at most n - K. So P(T <= t) is the lower part of a convolution of
small mass functions (stream, note 8). Without purging all n rows are needed, n - K is 0, and the convolution
is the product of the workers' CDFs (stream, section IV).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from echelon import checks
from echelon.arrays import ComplexArray, FloatArray, IntArray
from echelon.errors import ArgumentError
from echelon.theory.tabulated import TabulatedCdf

_BLOCK = 1 << 21  # numbers held at once in a convolution


class TaskSums(Protocol):
    """What this module asks of a law of task times: the CDF of a sum of tasks (see `echelon.delays.Delay`)."""

    @property
    def mean(self) -> float:
        """Mean time of one task."""

    @property
    def std(self) -> float:
        """Standard deviation of the time of one task."""

    def sums(self, counts: range, times: FloatArray) -> FloatArray:
        """Return P(T_1 + … + T_k <= t), shape (times, counts)."""

    def atoms(self, counts: range) -> FloatArray:
        """Return the jumps of `sums`."""

    def kinks(self, counts: range) -> FloatArray:
        """Return the kinks of `sums`."""


def cuts_of(law: TaskSums, counts: range) -> FloatArray:
    """Return where some sum of these counts of tasks jumps or has a kink; at 0 each of them has one."""
    return np.concatenate([[0.0], law.atoms(counts), law.kinks(counts)])


def missing_pmf(law: TaskSums, link: float, count: int, times: FloatArray, spare: int) -> FloatArray:
    """Return P(worker misses j of its `count` rows at t), shape (times, spare + 1), for j = 0 … spare.

    A worker's j-th result arrives at link + T_1 + … + T_j (stream, note 1).
    """
    low = max(count - spare, 0)
    # P(N >= k) for k = low … count + 1, the last of which counts for nothing: there is no such row
    reached = law.sums(range(low, count + 1), times - link)
    if low == 0:
        reached[:, 0] = 1.0
    missing = np.zeros((len(times), spare + 1))
    missing[:, 0] = reached[:, -1]
    below = reached[:, :-1] - reached[:, 1:]
    missing[:, 1 : below.shape[1] + 1] = below[:, ::-1]
    return np.maximum(missing, 0.0, out=missing)


def _quick_length(least: int) -> int:
    """Return the least even 2^i or 3 * 2^i from `least` on: lengths that transform fast."""
    power = 1 << max(1, (least - 1).bit_length())
    return 3 * power // 4 if power >= 8 and 3 * power // 4 >= least else power


class Convolution:
    """Products of mass functions on 0 … spare by Fourier transforms, where only the lower part is wanted.

    Entries are damped by r^j first, so that what wraps around is scaled by r^length = 1e-13; undoing it costs
    a factor of at most r^-spare in rounding, and both stay near 1e-12 in absolute terms.
    """

    def __init__(self, spare: int) -> None:
        self.spare = spare
        self.length = 1 if spare == 0 else _quick_length(3 * (spare + 1))
        damping = 10.0 ** (-13 / self.length) if spare else 1.0
        self._damp = damping ** np.arange(spare + 1)

    @property
    def bins(self) -> int:
        """Numbers that stand for one mass function after the transform."""
        return self.length // 2 + 1

    def transform(self, pmf: FloatArray) -> ComplexArray:
        """Return the transform along the last axis."""
        return np.fft.rfft(pmf * self._damp, self.length, axis=-1)

    def at_most(self, product: ComplexArray, limit: int) -> FloatArray:
        """Return P(sum <= limit), limit <= spare, of a product of transforms."""
        assert limit <= self.spare
        pmf = np.fft.irfft(product, self.length, axis=-1)[..., : limit + 1] if self.length > 1 else product.real
        return np.clip(pmf @ (1 / self._damp[: limit + 1]), 0.0, 1.0)


def sum_at_most(limit: int, pmfs: Sequence[Callable[[FloatArray], FloatArray]], times: FloatArray) -> FloatArray:
    """Return P(N_1 + … + N_P <= limit) at each time.

    pmfs: one per N_p, each takes times to P(N_p = j) for j = 0 … limit, shape (times, limit + 1).
    """
    fold = Convolution(limit)
    values = np.empty(len(times))
    step = max(1, _BLOCK // fold.length)
    for at in range(0, len(times), step):
        some = times[at : at + step]
        product: ComplexArray = np.ones((len(some), fold.bins), dtype=np.complex128)
        for pmf in pmfs:
            product *= fold.transform(pmf(some))
        values[at : at + step] = fold.at_most(product, limit)
    return values


def _checked(
    laws: Sequence[TaskSums], links: FloatArray, counts: IntArray, critical: int
) -> tuple[FloatArray, IntArray]:
    links, counts = np.asarray(links, dtype=np.float64), np.asarray(counts, dtype=np.int64)
    if not len(laws) == len(links) == len(counts):
        raise ArgumentError(f"counts: {len(counts)} given; must be one per law and link, {len(laws)}, {len(links)}")
    if (counts < 0).any():
        raise ArgumentError(f"counts: {counts.min()} is not allowed; must be whole numbers >= 0")
    checks.whole("critical", critical, least=1)
    if counts.sum() < critical:
        raise ArgumentError(f"counts: they sum to {counts.sum()}; must reach critical, {critical}")
    return links, counts


def iteration_cdf(
    laws: Sequence[TaskSums], links: FloatArray, counts: IntArray, critical: int, times: FloatArray
) -> FloatArray:
    """Return P(iteration <= t) for an array of times, to about 1e-12."""
    links, counts = _checked(laws, links, counts, critical)
    return _cdf(laws, links, counts, critical, np.asarray(times, dtype=np.float64))


def _cdf(laws: Sequence[TaskSums], links: FloatArray, counts: IntArray, critical: int, times: FloatArray) -> FloatArray:
    spare = int(counts.sum()) - critical
    held = [(laws[p], float(links[p]), int(counts[p])) for p in np.flatnonzero(counts).tolist()]
    return sum_at_most(spare, [partial(missing_pmf, *worker, spare=spare) for worker in held], times)


def iteration_law(laws: Sequence[TaskSums], links: FloatArray, counts: IntArray, critical: int) -> TabulatedCdf:
    """Return the law of an iteration whose workers hold `counts` rows, any `critical` of which end it.

    Pass ``critical=sum(counts)`` for the iteration without purging.

    >>> from echelon.delays import Exponential
    >>> law = iteration_law([Exponential(rate=1.0)] * 2, np.zeros(2), np.array([1, 1]), 1)
    >>> round(law.mean, 9), round(law.second, 9)
    (0.5, 0.5)
    """
    links, counts = _checked(laws, links, counts, critical)
    spare = int(counts.sum()) - critical
    active = np.flatnonzero(counts).tolist()
    cuts = [links[p] + cuts_of(laws[p], range(max(int(counts[p]) - spare, 1), int(counts[p]) + 1)) for p in active]
    start = float(max(links[p] + counts[p] * laws[p].mean for p in active))
    # a gamma tail falls by e over std^2 / mean; slow rounds and shifts keep within that, too
    decay = float(max(laws[p].std ** 2 / laws[p].mean + laws[p].mean for p in active))
    return TabulatedCdf(
        lambda times: _cdf(laws, links, counts, critical, times), start=start, cuts=np.concatenate(cuts), decay=decay
    )
