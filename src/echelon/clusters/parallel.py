"""Passes over large arrays by all processors: one thread per slice, each in one call that lets the others run."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import accumulate
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


def copy(pairs: Sequence[tuple[NumberArray, NumberArray]]) -> None:
    """Copy flat arrays of bytes, (target, source) each, as if they were one.

    >>> target = np.zeros(3, np.uint8)
    >>> copy([(target, np.arange(3, dtype=np.uint8))])
    >>> target.tolist()
    [0, 1, 2]
    """
    ends = list(accumulate((len(target) for target, _ in pairs), initial=0))

    def pass_over(some: slice) -> None:
        for (target, source), start in zip(pairs, ends, strict=False):
            first, last = max(some.start - start, 0), min(some.stop - start, len(target))
            if first < last:
                np.copyto(target[first:last], source[first:last])

    by_slices(ends[-1], 1, pass_over)


def extreme(array: NumberArray) -> float:
    """Return the largest absolute value in a flat array, 0 in an empty one; not finite where a number is not.

    >>> extreme(np.array([1.0, -3.0])), extreme(np.array([1.0, np.nan]))
    (3.0, nan)
    """
    if not array.size:
        return 0.0
    if np.iscomplexobj(array):
        array = array.view(array.real.dtype)
    high, low = float(array.max()), -float(array.min())
    return low if low > high else high  # both are nan where one number is
