"""The paper's yardsticks: the metric that Theorem 2 levels, its mismatch (10), and the lower bound (9)."""

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.profile import Arrivals, Speeds
from echelon.theory.queue import queue_delay


def metric(speeds: Speeds, counts: IntArray | FloatArray, gamma: float = 1.0) -> FloatArray:
    """Return E[T] + gamma E[T^2] of each worker's whole lane; 0 for a worker without rows.

    Tasks of a lane are taken to be independent, as in the paper. Where whole rounds are slow (stragglers, bursts)
    the second moment of a lane is larger, and only a prediction knows it.

    Differs from paper: the caption of Fig. 2 is misprinted; this follows (1) and (4) (note 3).

    >>> metric(Speeds(np.array([1.0]), np.array([1.0]), np.array([0.5])), np.array([2])).tolist()
    [10.75]
    """
    checks.number("gamma", gamma, least=0)
    c, m, sigma = speeds.link, speeds.mean, speeds.std
    kappa = np.asarray(counts, dtype=np.float64)
    first = c + kappa * m
    second = first**2 + kappa * sigma**2
    return np.where(kappa > 0, first + gamma * second, 0.0)


def mismatch(metrics: FloatArray) -> float:
    """Return the variance of the workers' metrics (stream, (10)); 0 for an empty list.

    It ignores purging, so it must not choose a redundancy (note 12).
    """
    return float(np.var(metrics)) if len(metrics) else 0.0


def lower_bound(speeds: Speeds, critical: int, iterations: int) -> float:
    """Return I (K / sum 1/E[T_p] + mean c_p): all workers as one that is never idle (stream, (9)).

    It has no queue in it and is not a bound in general: an idle worker with a long link raises it (note 6).

    >>> lower_bound(Speeds(np.array([1.0, 1.0]), np.ones(2), np.array([0.1, 0.3])), 10, 2)
    10.4
    """
    checks.whole("critical", critical, least=1)
    checks.whole("iterations", iterations, least=1)
    return iterations * (critical / float((1 / speeds.mean).sum()) + float(speeds.link.mean()))


def queued_bound(arrivals: Arrivals, bound: float) -> float:
    """Return the delay of a queue whose service always takes the bound; inf where it is unstable (note 6)."""
    return queue_delay(arrivals, bound, bound**2).mean
