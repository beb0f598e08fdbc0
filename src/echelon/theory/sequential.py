"""Time a job takes in a sequence of products, for stragglers that are independent (sequential, section 4).

In each round each worker straggles with the same `probability`, whatever came before. A task of load L takes the time
L, or `slowdown` L for a straggler, so that all stragglers of a round return at the same moment; times are per job,
in units of a whole job on one worker that does not straggle.

Letters of the paper: P `workers`, delta `probability`, alpha `slowdown`, S `stragglers`, N `count`, W `window`,
beta = xy `results`.

Differs from paper: a round in which everybody straggles lasts `slowdown`, though it may conform to the straggler model
(N >= P); the printed bound on IDIP forgets that, and lies below the truth there. That IDIP is no slower than the
polynomial code for N = S W is true of the scheme, by `idip_time`, but the printed bound shows it for small
probabilities only (`idip_bound_fails_from`).
"""

import numpy as np
from scipy.special import bdtr, bdtrc

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.errors import ArgumentError


def rounds_needed(*, results: int, workers: int, probability: float) -> float:
    """Return f, the mean number of rounds until a job has its results, each worker computing one per round.

    f(r) = 1 + sum_i P(i workers return) f(r - i), and f(r) = 0 for r <= 0. A round in which everybody straggles
    returns `workers` results, as the master waits for the fastest (sequential, note 6).

    >>> round(rounds_needed(results=6, workers=4, probability=0.3), 6)
    2.461714
    """
    checks.whole("results", results, least=1, most=10**6)
    returned = stragglers_pmf(workers, probability)[::-1]
    returned[-1] += returned[0]
    returned[0] = 0.0
    # f(r), after `workers` zeros that stand for r <= 0
    f = np.zeros(workers + 1 + results)
    for r in range(workers + 1, len(f)):
        f[r] = 1 + returned[1:] @ f[r - workers : r][::-1]
    return float(f[-1])


def uncoded_time(*, slowdown: float, workers: int, probability: float) -> float:
    """Return the time of a job in equal shares: one straggler is enough to slow it down.

    >>> round(uncoded_time(slowdown=5, workers=4, probability=0.3), 4)
    1.0099
    """
    return polynomial_time(slowdown=slowdown, stragglers=0, workers=workers, probability=probability)


def polynomial_time(*, slowdown: float, stragglers: int, workers: int, probability: float) -> float:
    """Return the time of a job by the polynomial code that any P - S workers finish: R_poly.

    >>> round(polynomial_time(slowdown=5, stragglers=2, workers=4, probability=0.3), 4)
    0.6674
    """
    long = _more_than(_below("stragglers", stragglers, workers), workers, probability)
    return _scaled(slowdown, long) / (workers - stragglers)


def dip_time(*, slowdown: float, results: int, workers: int, probability: float) -> float:
    """Return the time of a job by the DIP code whose jobs may take for ever (T = infinity): (f / beta) E[round].

    >>> round(dip_time(slowdown=5, results=6, workers=4, probability=0.3), 4)
    0.4236
    """
    rounds = rounds_needed(results=results, workers=workers, probability=probability)
    return rounds / results * _scaled(slowdown, float(probability) ** workers)


def optimal_load(*, workers: int, count: int, window: int) -> float:
    """Return 1 / (P - N/W), the least load of a round that outlasts every (N, W)-arbitrary pattern (Theorem 3.1).

    >>> optimal_load(workers=4, count=8, window=4)
    0.5
    """
    _check_model(workers, count, window)
    return window / (workers * window - count)


def idip_time_bound(*, slowdown: float, count: int, window: int, workers: int, probability: float) -> float:
    """Return the printed bound on the time of a job by the IDIP code: a round is long if its window holds more than N.

    Differs from paper: it is no bound where N >= P, see `idip_time_corrected_bound`.

    >>> round(idip_time_bound(slowdown=5, count=8, window=4, workers=4, probability=0.3), 4)
    0.5513
    """
    load = optimal_load(workers=workers, count=count, window=window)
    return load * _scaled(slowdown, _more_than(count, workers * window, probability))


def idip_time_corrected_bound(*, slowdown: float, count: int, window: int, workers: int, probability: float) -> float:
    """Return a true bound: a round is long if its window holds more than N, or if everybody straggles in it.

    What is added to the printed probability is delta^P P(at most N - P stragglers in the other W - 1 rounds). It is a
    bound still, as rounds that were waited for leave fewer stragglers behind than were drawn.

    >>> round(idip_time_corrected_bound(slowdown=5, count=8, window=4, workers=4, probability=0.3), 4)
    0.5631
    """
    printed = idip_time_bound(slowdown=slowdown, count=count, window=window, workers=workers, probability=probability)
    if count < workers:
        return printed
    fits = 1 - _more_than(count - workers, workers * (window - 1), probability)
    load = optimal_load(workers=workers, count=count, window=window)
    return printed + load * (float(slowdown) - 1) * float(probability) ** workers * fits


def idip_time(*, slowdown: float, count: int, window: int, workers: int, probability: float) -> float:
    """Return the time of a job by the IDIP code, exactly, by the chain of stragglers in the last W - 1 rounds.

    A round that must be waited for has no stragglers left, as they all return at the same moment, and neither has one
    in which everybody straggles. The load is that of `optimal_load` in every round, as in the paper.

    For N = S W this is never above `polynomial_time`: between two rounds that wait, or in the window before one, more
    than S W stragglers in at most W rounds make one of these rounds hold more than S, and such spans don't overlap.

    >>> round(idip_time(slowdown=5, count=8, window=4, workers=4, probability=0.3), 4)
    0.5376
    """
    load = optimal_load(workers=workers, count=count, window=window)
    pmf = stragglers_pmf(workers, probability)
    if (workers + 1) ** (window - 1) > 10**6:
        raise ArgumentError(f"window: {window} is not allowed with {workers} workers; (P + 1)^(W - 1) must be <= 10^6")
    # state: stragglers left in the last W - 1 rounds, oldest first; for a window of one round the last does not count
    chain = np.zeros((workers + 1,) * max(window - 1, 1))
    room = count - (np.indices(chain.shape).sum(axis=0) if window > 1 else np.zeros(chain.shape, dtype=np.int64))
    chain.flat[0] = 1.0
    for _ in range(100_000):
        long, after = _step(chain, room, pmf)
        if np.abs(after - chain).sum() < 1e-13:
            return load * _scaled(slowdown, long)
        chain = after
    raise ArgumentError(f"probability: {probability!r} is not allowed; the chain of stragglers does not settle")


def idip_bound_fails_from(*, stragglers: int, workers: int, window: int) -> float:
    """Return the probability from which on the printed bound on IDIP with N = S W is above the polynomial code's time.

    Differs from paper: section 4 says that R_IDIP <= R_poly "can be shown". Below this probability the printed bound
    shows it (whatever the slowdown), above it does not; `idip_time` is below R_poly everywhere.

    >>> round(idip_bound_fails_from(stragglers=2, workers=4, window=4), 4)
    0.4384
    """
    checks.whole("stragglers", stragglers, least=1)
    _below("stragglers", stragglers, workers)
    checks.whole("window", window, least=2)
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        # chances of short rounds, as those of long ones are both 1 to the last digit long before probability 1
        fails = bdtr(stragglers * window, workers * window, middle) < bdtr(stragglers, workers, middle)
        low, high = (low, middle) if fails else (middle, high)
    return high


def _step(chain: FloatArray, room: IntArray, pmf: FloatArray) -> tuple[float, FloatArray]:
    """Return the chance that the next round is long, and the law of the stragglers left after it."""
    everybody = len(pmf) - 1
    after = np.zeros((*chain.shape[1:], len(pmf)))
    long = 0.0
    for stragglers, chance in enumerate(pmf):
        short = (room >= stragglers) & (stragglers < everybody)
        conforming = chance * chain * short
        waiting = chance * chain * ~short
        # the oldest round moves out, the newest in at the end
        after[..., stragglers] += conforming.sum(axis=0)
        after[..., 0] += waiting.sum(axis=0)
        long += float(waiting.sum())
    return long, after


def _scaled(slowdown: float, long: float) -> float:
    """Return the mean length of a round that is `slowdown` times longer with probability `long`."""
    return 1 + (checks.number("slowdown", slowdown, least=1) - 1) * long


def _more_than(stragglers: int, pairs: int, probability: float) -> float:
    """Return the chance of more than this many stragglers among this many (worker, round) pairs."""
    checks.probability("probability", probability)
    return float(bdtrc(stragglers, pairs, probability)) if stragglers < pairs else 0.0


def stragglers_pmf(workers: int, probability: float) -> FloatArray:
    """Return P(i of the workers straggle), i = 0…P, by adding one worker after another."""
    checks.whole("workers", workers, least=1, most=10**4)
    checks.probability("probability", probability)
    pmf = np.ones(1)
    for _ in range(workers):
        pmf = np.append(pmf * (1 - probability), 0.0) + np.append(0.0, pmf * probability)
    return pmf


def _below(name: str, value: int, workers: int) -> int:
    """Return a number of workers that leaves at least one."""
    if checks.whole(name, value, least=0) >= checks.whole("workers", workers, least=1):
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be less than the {workers} workers")
    return value


def _check_model(workers: int, count: int, window: int) -> None:
    """Refuse more stragglers than P W - 1 in a window: some result must return."""
    pairs = checks.whole("workers", workers, least=1) * checks.whole("window", window, least=1)
    if checks.whole("count", count, least=0) >= pairs:
        raise ArgumentError(f"count: {count!r} is not allowed; must be at most workers * window - 1 = {pairs - 1}")
