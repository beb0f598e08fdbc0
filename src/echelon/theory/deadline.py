"""Time of a product by DIP with a deadline, exactly, for independent stragglers; by the paper's waiting rule and ours.

Letters of the paper: P `workers`, delta `probability`, alpha `slowdown`, beta = xy `results`, T `delay`, lambda
`spread`.

What the products of the window still lack is a Markov chain. All stragglers of a round return at the same moments, and
so do all others; hence the number of stragglers describes a round. Section 4 has no formula for this: it lets T go to
infinity (`dip_time`).
"""

from collections.abc import Iterator
from functools import lru_cache
from math import ceil, inf

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.errors import ArgumentError
from echelon.theory.sequential import stragglers_pmf

STATES = 10**5
WAITING = ("due", "fastest")
State = tuple[int, ...]  # results that each product of the window lacks, the newest first


def dip_deadline_time(
    *,
    slowdown: float,
    results: int,
    delay: int,
    workers: int,
    probability: float,
    spread: int = 1,
    waiting: str = "due",
) -> float:
    """Return the mean length of a round once the window is full, which is the time of a product; mu = 0.

    waiting: "due", a round ends with the due product, and with the first worker that is done;
        "fastest", the paper's: not before the fastest worker has returned all its results.

    >>> setting = {"slowdown": 5.0, "results": 16, "delay": 3, "workers": 4, "probability": 0.3}
    >>> [round(dip_deadline_time(waiting=waiting, **setting), 4) for waiting in ("due", "fastest")]
    [0.3753, 0.5783]
    """
    slow = checks.number("slowdown", slowdown, least=1)
    checks.whole("workers", workers, least=1, most=100)
    checks.whole("results", results, least=1, most=1000)
    checks.whole("delay", delay, least=0, most=20)
    checks.whole("spread", spread, least=1, most=workers)
    checks.one_of("waiting", waiting, WAITING)
    pmf = stragglers_pmf(workers, probability)
    lengths, after = _chain(slow, results, delay, workers, spread, waiting)
    share = np.zeros(len(lengths))
    share[0] = 1.0
    for _ in range(100_000):
        moved = np.zeros(len(share))
        for stragglers, chance in enumerate(pmf):
            moved += np.bincount(after[:, stragglers], chance * share, len(share))
        if np.abs(moved - share).sum() < 1e-13:
            return float(moved @ lengths @ pmf) / results
        share = moved
    raise ArgumentError(f"probability: {probability!r} is not allowed; the chain of products does not settle")


@lru_cache(maxsize=32)
def _chain(
    slowdown: float, results: int, delay: int, workers: int, spread: int, waiting: str
) -> tuple[FloatArray, IntArray]:
    """Return the length of a round and the state after it, by state and number of stragglers, in mini-tasks."""
    states: dict[State, int] = {(0,) * delay: 0}
    lengths: list[list[float]] = []
    after: list[list[int]] = []
    for state in _growing(states):
        rounds = [_round((results, *state), workers - s, s, slowdown, spread, waiting) for s in range(workers + 1)]
        lengths.append([length for length, _ in rounds])
        after.append([states.setdefault(left, len(states)) for _, left in rounds])
    return np.array(lengths), np.array(after)


def _growing(states: dict[State, int]) -> Iterator[State]:
    """Yield all states in order, including those added meanwhile."""
    listed: list[State] = []
    while len(listed) < len(states):
        for state in list(states)[len(listed) :]:
            listed.append(state)
            yield state
        if len(states) > STATES:
            raise ArgumentError(f"results, delay: more than {STATES} states are not allowed; must be smaller")


def _round(
    missing: State, quick: int, slow: int, slowdown: float, spread: int, waiting: str
) -> tuple[float, State]:  # fmt: skip
    """Return the length of a round in which some workers take 1 for a mini-task and some `slowdown`, and what is left.

    missing: of the products of the window, the due one last.
    """
    due = len(missing) - 1
    lane = [age for age in range(due) if missing[age]] + [due] * ceil(missing[due] / spread)
    kinds = [(count, pace) for count, pace in ((quick, 1.0), (slow, slowdown)) if count]
    came: dict[int, list[float]] = {age: [] for age in range(due + 1)}
    for count, pace in kinds:
        for place, age in enumerate(lane, 1):
            came[age] += [pace * place] * count
    there = {}  # when each product is recovered
    for age, lacking in enumerate(missing):
        times = sorted(came[age])
        there[age] = 0.0 if not lacking else times[lacking - 1] if lacking <= len(times) else inf
    if waiting == "due":
        ends = [max((min(pace * j, there[age]) for j, age in enumerate(lane, 1)), default=0.0) for _, pace in kinds]
    else:
        ends = [pace * len(lane) for _, pace in kinds]
    end = max(there[due], min(ends))
    left = [max(0, missing[age] - sum(time <= end for time in came[age])) for age in range(due)]
    return end, tuple(left)
