"""The exchange that every contender does: 55 tasks, 11 per worker, until 50 results are there."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache

import numpy as np

WORKERS, TASKS, NEEDED = 5, 11, 50
WARM_UP = 5
LENGTHS = {1: "8 B", 10_000: "80 kB", 1_000_000: "8 MB"}  # float64 numbers in a result

Rounds = Callable[[int, int], list[float]]  # does this many rounds with results of this length; the seconds of each


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """Who takes part, by which package, how it is driven, and for how many rounds at each length.

    rival: whose way this is, of a rival that has several.
    """

    name: str
    package: str
    open: Callable[[], AbstractContextManager[Rounds]]
    rounds: dict[int, int]
    how: str
    warm_up: int = WARM_UP
    rival: str = ""


def timed(exchange: Callable[[int], int]) -> Rounds:
    """Return rounds of an exchange that runs on demand and returns how many numbers it brought."""

    def rounds(length: int, count: int) -> list[float]:
        times = []
        for _ in range(count):
            start = time.perf_counter()
            brought = exchange(length)
            times.append(time.perf_counter() - start)
            assert brought == NEEDED * length, brought
        return times

    return rounds


@cache
def ready(length: int) -> np.ndarray:
    """Return the worker's array, the same one each time."""
    return np.ones(length)


def task(length: int, number: int) -> np.ndarray:
    return ready(length)
