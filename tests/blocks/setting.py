"""The setting of the paper's section VI, and intervals for sampled means."""

import numpy as np

from echelon.delays import Gamma, RoundPace, ShiftedExponential, Straggler

COORDINATES = 20_000
LAW = ShiftedExponential(shift=50.0, rate=1e-3)
# with a kink where slow tasks begin to end, or with two steep stretches far apart
ROUGH = {
    "kink": Straggler(base=ShiftedExponential(shift=1.0, rate=1.0), probability=0.1, slowdown=5.0),
    "paper": Straggler(base=LAW, probability=0.1, slowdown=5.0),
    "steep": Straggler(base=ShiftedExponential(shift=1.0, rate=100.0), probability=0.1, slowdown=5.0),
    "gamma": Straggler(base=Gamma(shape=1000.0, scale=1e-3), probability=0.1, slowdown=5.0),
    "paced": RoundPace(
        base=Straggler(
            base=Straggler(base=ShiftedExponential(shift=1.0, rate=2.0), probability=0.2, slowdown=2.0),
            probability=0.1, slowdown=3.0,
        )
    ),
}  # fmt: skip


def unit(workers: int) -> float:
    """M b / N with M = 50 and b = 1."""
    return 50 / workers


def drawn(law, workers: int, draws: int, seed: int) -> np.ndarray:
    """Sorted cycle times, shape (draws, workers)."""
    return np.sort(law.sample((draws, workers, 1, 1), np.random.default_rng(seed))[..., 0, 0], axis=1)


def literal_runtime(x, times, unit=1.0) -> np.ndarray:
    """(5), level by level."""
    workers = len(x)
    ends = [
        unit * times[:, workers - n - 1] * sum((i + 1) * x[i] for i in range(n + 1)) for n in range(workers)
    ]  # T_(N-n) is column N-n-1
    return np.max(ends, axis=0)


def within_999(values: np.ndarray, expected: float) -> bool:
    """Whether the 99.9 % interval of the mean of independent values covers `expected`."""
    return abs(values.mean() - expected) <= 3.2905 * values.std(ddof=1) / np.sqrt(len(values))
