"""What partitions are compared with: no code, one block, and the schemes of Tandon et al. and Ferdinand et al.

Each returns x, coordinates at each level of redundancy; `baselines` adds expected runtimes, exact where the
law allows it.
"""

from collections.abc import Callable

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray
from echelon.blocks.continuous import ContinuousLaw, checked_law, is_continuous
from echelon.blocks.order_statistics import order_means
from echelon.blocks.partition import Partition
from echelon.blocks.runtime import mean_only
from echelon.blocks.sampling import EXACT_WORKERS, arrivals, assess, sampled_means, sorted_times
from echelon.delays import Delay
from echelon.seeds import generators

_ALPHA = 6.0  # how much slower stragglers are, as given (block, note 5)
_DRAWS = 4_000  # by which levels are chosen where the law has no formula


def uncoded(workers: int, coordinates: int) -> FloatArray:
    """Return all coordinates at level 0: the round waits for every worker, E[tau] = unit L t_N.

    >>> uncoded(3, 10).tolist()
    [10.0, 0.0, 0.0]
    """
    return _single(workers, coordinates, 0)


def single_block(workers: int, coordinates: int, law: Delay) -> FloatArray:
    """Return the best partition with one block, at the level n of least (n+1) t_{N-n} (block, note 5).

    >>> from echelon.delays import Exponential
    >>> single_block(3, 10, Exponential(rate=1.0)).tolist()
    [0.0, 0.0, 10.0]
    """
    return _single_block(coordinates, order_means(workers, law))


def tandon(workers: int, coordinates: int, law: Delay, *, alpha: float = _ALPHA) -> FloatArray:
    """Return the partial-straggler scheme of Tandon et al. at its best level s, by exact expected runtimes.

    x_0 = L (s+1)/(s+alpha) and x_s = L (alpha-1)/(s+alpha): stragglers, alpha times slower, end their uncoded part
    when the others end everything.

    Differs from paper: its alpha is printed inverted and can't be 6 for a shifted exponential; 6 is taken as given
    (block, note 5).

    >>> from echelon.delays import Exponential
    >>> tandon(3, 80, Exponential(rate=1.0)).tolist()
    [30.0, 0.0, 50.0]
    """
    checks.whole("coordinates", coordinates, least=1)
    checks.number("alpha", alpha, above=1)
    known = ContinuousLaw(law, workers)
    return _tandon(workers, coordinates, alpha, lambda x: mean_only(x, known))


def ferdinand(workers: int, coordinates: int, law: Delay) -> FloatArray:
    """Return the layers of Ferdinand et al.: layer l = 1 … r needs k_l workers, with l t_{k_l} equal for all layers.

    The last layer needs one worker, so l t_{k_l} = r t_1 and s_l = N - k_l; the share of layers with k_l >= k is
    t_1 / t_k, whatever r is. So x_n = L t_1 (1/t_{N-n} - 1/t_{N+1-n}).

    Differs from paper: r = L and r = L/2 are two curves there. They differ by the rounding of one layer only and can't
    be told apart (block, note 5), so here there is one.

    >>> from echelon.delays import Exponential
    >>> ferdinand(2, 12, Exponential(rate=1.0)).tolist()
    [4.0, 8.0]
    """
    checks.whole("coordinates", coordinates, least=1)
    return _ferdinand(coordinates, order_means(workers, law))


def baselines(workers: int, coordinates: int, law: Delay, unit: float = 1.0, *, seed: int = 1) -> dict[str, Partition]:
    """Return the four baselines with their expected runtimes, by name.

    They are exact up to 200 workers whose law has a continuous distribution function. Else `seed` draws cycle times:
    some to choose the levels, fresh ones for the runtimes.

    >>> from echelon.delays import ShiftedExponential
    >>> found = baselines(4, 100, ShiftedExponential(shift=0.1, rate=1.0))
    >>> {name: round(partition.expected, 1) for name, partition in found.items()}
    {'single': 140.0, 'tandon': 123.0, 'ferdinand': 117.3, 'uncoded': 218.3}
    """
    checks.number("unit", unit, above=0)
    flat = uncoded(workers, coordinates)
    if is_continuous(checked_law(law)) and workers <= EXACT_WORKERS:
        found = {
            "single": single_block(workers, coordinates, law),
            "tandon": tandon(workers, coordinates, law),
            "ferdinand": ferdinand(workers, coordinates, law),
            "uncoded": flat,
        }
        return {name: assess(x, law, unit, name) for name, x in found.items()}
    rng, fresh = generators(seed)
    times = sorted_times(law, workers, _DRAWS, rng)
    means = np.maximum(times.mean(axis=0), 1e-300)
    found = {
        "single": _single_block(coordinates, means),
        "tandon": _tandon(workers, coordinates, _ALPHA, lambda x: float(arrivals(x, times, 1.0).max(axis=1).mean())),
        "ferdinand": _ferdinand(coordinates, means),
        "uncoded": flat,
    }
    judged = zip(found.items(), sampled_means(list(found.values()), law, unit, fresh), strict=True)
    return {name: Partition(x, mean, None, name, error) for (name, x), (mean, error) in judged}


def _single_block(coordinates: int, means: FloatArray) -> FloatArray:
    workers = len(means)
    return _single(workers, coordinates, int(np.argmin(np.arange(1, workers + 1) * means[::-1])))


def _tandon(workers: int, coordinates: int, alpha: float, runtime: Callable[[FloatArray], float]) -> FloatArray:
    tried = []
    for s in range(workers):
        x = np.zeros(workers)
        x[0] = coordinates * (s + 1) / (s + alpha)
        x[s] += coordinates * (alpha - 1) / (s + alpha)
        tried.append((runtime(x), s, x))
    return min(tried, key=lambda item: item[:2])[2]


def _ferdinand(coordinates: int, means: FloatArray) -> FloatArray:
    shares = np.diff(1 / means[::-1], prepend=0.0)
    x: FloatArray = coordinates * np.maximum(shares, 0.0) / shares.sum()
    return x


def _single(workers: int, coordinates: int, level: int) -> FloatArray:
    checks.whole("workers", workers, least=1)
    checks.whole("coordinates", coordinates, least=1)
    x = np.zeros(workers)
    x[level] = coordinates
    return x
