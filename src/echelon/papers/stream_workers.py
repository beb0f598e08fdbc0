"""The workers of the stream paper: Example 2 as printed, and our own draws where the paper prints none.

The paper shows its workers in Figs. 2 and 5 without numbers, and those of Fig. 4 not at all. The draws below are
seeded. Their ranges were chosen to be of the kind that the text describes: with five workers the uniform split is
mostly unstable in Fig. 3 and mostly stable in Fig. 4; with a hundred, about a third are active at K = 350 and theta
is of the size of 650. A claim that depends on the draw is therefore checked over many, or not judged.
"""

import numpy as np

from echelon.profile import Arrivals, Profile, Worker, Workload

_RATES = (5.29e7, 7.26e7, 3.10e7, 1.37e7, 6.03e7)
_LINKS = (0.0481, 0.0562, 0.0817, 0.0509, 0.0893)


def example2() -> Profile:
    """Return Example 2: K = 50, Omega = 1.1, C = 2 827 440, I = 50, five workers as printed."""
    job = Workload(
        critical=50, redundancy=1.1, iterations=50, arrivals=Arrivals.poisson(0.01), operations=2_827_440
    )  # fmt: skip
    pairs = zip(_RATES, _LINKS, strict=True)
    return Profile(job, [Worker(f"w{p}", rate=rate, link=link) for p, (rate, link) in enumerate(pairs, 1)])


def weak_five(seed: int = 1) -> Profile:
    """Return five workers for Figs. 2 and 3: C = 500, K = 1000, Omega = 1, I = 10."""
    return _drawn(5, (5e3, 3e4), (0.2, 1.5), seed)


def strong_five(seed: int = 1) -> Profile:
    """Return five stronger workers for Fig. 4, stable even under the uniform split."""
    return _drawn(5, (1.3e4, 6e4), (0.02, 0.15), seed)


def hundred(seed: int = 1) -> Profile:
    """Return a hundred workers for Figs. 5 to 7 and Table II: K C = 175 000, with K = 350 to begin with."""
    return _drawn(100, (100.0, 750.0), (0.0, 75.0), seed).with_workload(critical=350)


def _drawn(workers: int, rates: tuple[float, float], links: tuple[float, float], seed: int) -> Profile:
    rng = np.random.default_rng(seed)
    job = Workload(critical=1000, redundancy=1.0, iterations=10, arrivals=Arrivals.poisson(0.01), operations=500)
    drawn = zip(rng.uniform(*rates, workers), rng.uniform(*links, workers), strict=True)
    return Profile(job, [Worker(f"w{p}", rate=float(mu), link=float(c)) for p, (mu, c) in enumerate(drawn, 1)])
