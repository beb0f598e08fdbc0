"""Passes over large arrays by all processors: one thread per slice, each in one call that lets the others run."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numpy as np

from echelon.arrays import NumberArray

_LEAST = 1 << 21  # bytes of a slice: less is not worth a thread
_Found = TypeVar("_Found")


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process; one that was forked has its own."""
    return ThreadPoolExecutor(processors(), thread_name_prefix="echelon-pass")


def by_slices(size: int, itemsize: int, work: Callable[[slice], _Found]) -> list[_Found]:
    """Return what a function gives for slices of so many items, computed side by side where there are many."""
    count = max(1, min(processors(), size * itemsize // _LEAST))
    slices = [slice(size * i // count, size * (i + 1) // count) for i in range(count)]
    return [work(slices[0])] if count == 1 else list(_pool(os.getpid()).map(work, slices))


def copy(target: NumberArray, source: NumberArray) -> None:
    """Copy one flat array to another.

    >>> target = np.zeros(3)
    >>> copy(target, np.arange(3.0))
    >>> target.tolist()
    [0.0, 1.0, 2.0]
    """
    by_slices(len(target), target.itemsize, lambda some: np.copyto(target[some], source[some]))


def extreme(array: NumberArray) -> float:
    """Return the largest absolute value in a flat array, 0 in an empty one; not finite where a number is not.

    >>> extreme(np.array([1.0, -3.0])), extreme(np.array([1.0, np.nan]))
    (3.0, nan)
    """
    if not array.size:
        return 0.0
    if np.iscomplexobj(array):
        array = array.view(array.real.dtype)
    with np.errstate(invalid="ignore"):
        found = by_slices(len(array), array.itemsize, lambda some: (array[some].max(), -array[some].min()))
        return float(np.max(found))
