"""The two closed forms x(t) and x(f): prefer them where N is large, or where you want an answer at once.

Both are optimal for workers whose sorted cycle times are constants: their means t_n (block, Theorem 2), or the
inverses t'_n of their mean frequencies (block, Theorem 3). There all blocks end at the same time, t_{N-n} c_n = m.

Differs from paper: tau(x(t), t) is (M b / N) m (block, note 3); x(f) does not beat x(t) from N = 27 on (block, note 6).
"""

from collections.abc import Callable

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray
from echelon.blocks.order_statistics import order_harmonic_means, order_means
from echelon.blocks.partition import Partition
from echelon.blocks.sampling import assess
from echelon.delays import Delay
from echelon.errors import ArgumentError
from echelon.seeds import generators


def equalised(times: FloatArray, coordinates: float) -> FloatArray:
    """Return the best partition for constant sorted cycle times t_1 <= … <= t_N (block, Theorem 2).

    x_0 = m / t_N, x_n = m (1/t_{N-n} - 1/t_{N+1-n}) / (n+1), with m such that they sum to `coordinates`.

    >>> equalised(np.array([1.0, 2.0]), 3.0).tolist()
    [2.0, 1.0]
    """
    t = np.asarray(times, dtype=np.float64)
    checks.number("coordinates", coordinates, above=0)
    if t.ndim != 1 or not t.size or not np.isfinite(t).all() or t[0] <= 0 or (np.diff(t) < 0).any():
        raise ArgumentError(f"times: {times!r} is not allowed; must be a row of times > 0 in rising order")
    shares = np.diff(1 / t[::-1], prepend=0.0) / np.arange(1, len(t) + 1)
    x: FloatArray = coordinates * shares / shares.sum()
    return x


def x_t(workers: int, coordinates: int, law: Delay) -> FloatArray:
    """Return x(t), best for workers that always take the mean times t_n = E[T_(n)] (block, Theorem 2).

    >>> from echelon.delays import ShiftedExponential
    >>> x_t(4, 100, ShiftedExponential(shift=0.1, rate=1.0)).round(1).tolist()
    [38.0, 16.0, 17.1, 28.9]
    """
    return _equalised_by(order_means, workers, coordinates, law)


def x_f(workers: int, coordinates: int, law: Delay) -> FloatArray:
    """Return x(f), best for workers that always run at the mean frequencies 1/t'_n = E[1/T_(n)] (block, Theorem 3).

    >>> from echelon.delays import ShiftedExponential
    >>> x_f(4, 100, ShiftedExponential(shift=0.1, rate=1.0)).round(1).tolist()
    [35.8, 15.5, 18.2, 30.4]
    """
    return _equalised_by(order_harmonic_means, workers, coordinates, law)


def optimise_t(workers: int, coordinates: int, law: Delay, unit: float = 1.0, *, seed: int = 1) -> Partition:
    """Return x(t) with its expected runtime and certificate; only beyond 200 workers is `seed` needed, to sample it.

    >>> from echelon.delays import ShiftedExponential
    >>> round(optimise_t(20, 20_000, ShiftedExponential(shift=50.0, rate=1e-3), 2.5).expected / 1e6, 3)
    78.853
    """
    checks.number("unit", unit, above=0)
    return assess(x_t(workers, coordinates, law), law, unit, "t", generators(seed)[1])


def optimise_f(workers: int, coordinates: int, law: Delay, unit: float = 1.0, *, seed: int = 1) -> Partition:
    """Return x(f) with its expected runtime and certificate; only beyond 200 workers is `seed` needed, to sample it.

    >>> from echelon.delays import ShiftedExponential
    >>> round(optimise_f(20, 20_000, ShiftedExponential(shift=50.0, rate=1e-3), 2.5).expected / 1e6, 3)
    78.438
    """
    checks.number("unit", unit, above=0)
    return assess(x_f(workers, coordinates, law), law, unit, "f", generators(seed)[1])


def _equalised_by(means: Callable[[int, Delay], FloatArray], workers: int, coordinates: int, law: Delay) -> FloatArray:
    checks.whole("coordinates", coordinates, least=1)
    return equalised(np.maximum.accumulate(means(workers, law)), coordinates)
