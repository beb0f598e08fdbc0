"""Yardsticks: the metric that Theorem 2 levels, its mismatch (10), the paper's bound (9), and a bound that holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.errors import ArgumentError
from echelon.profile import Arrivals, Speeds
from echelon.theory.iteration import TaskSums, cuts_of, sum_at_most
from echelon.theory.queue import queue_delay, service_moments
from echelon.theory.tabulated import TabulatedCdf


def metric(speeds: Speeds, counts: IntArray | FloatArray, gamma: float = 1.0) -> FloatArray:
    """Return E[T] + gamma E[T^2] of each worker's whole lane; 0 for a worker without rows.

    Tasks of a lane are taken to be independent, as in the paper. Where whole rounds are slow (stragglers, bursts)
    the second moment of a lane is larger, and only a prediction accounts for it.

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


def paper_bound(speeds: Speeds, critical: int, iterations: int) -> float:
    """Return I (K / sum 1/E[T_p] + mean c_p), the paper's bound on the service time of a job (stream, (9)).

    It has no queue in it and is not a bound in general: a split may do without a worker whose long link raises the
    mean, and tasks that vary more than exponential ones may end sooner (note 6). `lower_bound` holds.

    >>> paper_bound(Speeds(np.array([1.0, 1.0]), np.ones(2), np.array([0.1, 0.3])), 10, 2)
    10.4
    """
    checks.whole("critical", critical, least=1)
    checks.whole("iterations", iterations, least=1)
    return iterations * (critical / float((1 / speeds.mean).sum()) + float(speeds.link.mean()))


def queued_bound(arrivals: Arrivals, bound: float) -> float:
    """Return the delay of a queue whose service always takes the bound; inf where it is unstable (note 6)."""
    return queue_delay(arrivals, bound, bound**2).mean


@dataclass(frozen=True, slots=True)
class LowerBound:
    """What no split of any number of rows gets below: the mean service time of a job, and its mean delay."""

    service: float
    delay: float


def lower_bound(
    laws: Sequence[TaskSums], links: FloatArray, critical: int, iterations: int, arrivals: Arrivals
) -> LowerBound:
    """Return what a job takes where no worker ever runs out of rows (see `busy_law`), alone and in its queue.

    An iteration of any split on these workers, or on some of them, takes at least as long in every draw, and so does
    the sum of all iterations of a job. The delay of a job in a queue served in order never falls when services take
    longer. So both means are bounds. The delay is that of Pollaczek and Khinchine for Poisson arrivals; for others no
    formula is exact, and a job takes at least its own service. It is inf where no split keeps the queue stable.

    >>> from echelon.delays import Exponential
    >>> bound = lower_bound([Exponential(rate=1.0)] * 2, np.zeros(2), 1, 1, Arrivals.poisson(1.0))
    >>> round(bound.service, 6), round(bound.delay, 6)  # M/M/1 with rates 1 and 2
    (0.5, 1.0)
    """
    law = busy_law(laws, links, critical)
    # less what quadrature may have added
    service, second = service_moments(law.mean - law.error, law.second - law.second_error, iterations)
    queue = queue_delay(arrivals, service, second)
    return LowerBound(service, queue.mean if queue.exact or not queue.stable else service)


def busy_law(laws: Sequence[TaskSums], links: FloatArray, critical: int) -> TabulatedCdf:
    """Return the law of the time until `critical` results are there, of workers that never run out of rows.

    N_p(t), the results of worker p by t, is the greatest k with c_p + T_1 + … + T_k <= t. A split gives the worker
    kappa_p rows, maybe none, so that min(kappa_p, N_p(t)) <= N_p(t) of them are there at t. Hence an iteration, over
    once these sum to K (to more, without purging), ends no sooner than the first t with sum_p N_p(t) >= K, in
    every draw: whatever the split, the redundancy, the laws and the links. A further worker makes no bound larger.
    P(sum_p N_p(t) <= K - 1) is the lower part of a convolution.

    >>> from echelon.delays import Deterministic
    >>> busy_law([Deterministic(time=1.0)] * 2, np.array([0.0, 2.5]), 4).quantile(0.5).tolist()  # 1, 2, 3 and 3.5
    3.5
    """
    links = np.asarray(links, dtype=np.float64)
    if not len(laws) or len(laws) != len(links):
        raise ArgumentError(f"links: {len(links)} given; must be one per law, {len(laws)}")
    checks.whole("critical", critical, least=1)
    cuts = [link + cuts_of(law, range(1, critical + 1)) for law, link in zip(laws, links, strict=True)]
    # the worker that would be the first to deliver everything alone
    first = min(range(len(laws)), key=lambda p: float(links[p] + critical * laws[p].mean))
    sent = [partial(_sent_pmf, law, float(link), critical) for law, link in zip(laws, links, strict=True)]
    return TabulatedCdf(
        lambda times: 1 - sum_at_most(critical - 1, sent, times),
        start=float(links[first] + critical * laws[first].mean),
        cuts=np.concatenate(cuts),
        decay=float(laws[first].std ** 2 / laws[first].mean + laws[first].mean),
    )


def _sent_pmf(law: TaskSums, link: float, critical: int, times: FloatArray) -> FloatArray:
    """Return P(N = j) for j = 0 … K - 1, shape (times, K)."""
    reached = law.sums(range(critical + 1), times - link)  # P(N >= k), k = 0 … K
    reached[:, 0] = 1.0
    return np.maximum(reached[:, :-1] - reached[:, 1:], 0.0)
