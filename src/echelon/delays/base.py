"""What a law of task times must say; a new law is one subclass in one file and one line in the registry."""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from math import ceil
from typing import Any

import numpy as np
from numpy.random import Generator

from echelon.arrays import FloatArray, IntArray
from echelon.errors import NoClosedForm

# in virtual time, and whatever draws the same times
DRAWN = 128  # parts whose times are drawn together
MISSED = 64  # rounds without a lane whose times are drawn together
_ROUNDING = 1e-9  # parts: what a cost may be off by


class Delay(ABC):
    """A law of the times that one worker takes for parts: for tasks of cost one.

    A task of several parts takes the sum of their times, unless the law says that a round has one pace.

    Subclasses are frozen dataclasses. They give `mean`, `std`, `sample` and `fit`; a law whose sums have a
    distribution function in closed form also sets `closed` and gives `sums`, and is then predicted exactly.
    """

    @property
    @abstractmethod
    def mean(self) -> float:
        """Mean time of a task in the long run."""

    @property
    @abstractmethod
    def std(self) -> float:
        """Standard deviation of the time of a task in the long run (inf where there is none)."""

    @abstractmethod
    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return task times of shape (..., rounds, tasks), float64, from the long-run law.

        Rounds follow one another along the last axis but one: a law with memory keeps it along that axis.
        """

    @classmethod
    @abstractmethod
    def fit(cls, mean: float, std: float) -> "Delay":
        """Return the member of the family that has this mean, and this standard deviation where it can.

        Whatever else a family needs is a keyword of its own, checked before it is used.
        """

    @property
    def closed(self) -> bool:
        """Whether `sums` is known."""
        return False

    @property
    def independent_rounds(self) -> bool:
        """Whether what happens in one round says nothing about the next."""
        return True

    @property
    def one_pace(self) -> bool:
        """Whether all tasks of a round take the same time, so that one draw gives them all."""
        return False

    @property
    def per_call(self) -> bool:
        """Whether the first part of a lane carries a cost, which work that is handed out later carries again."""
        return False

    @property
    def cycle(self) -> int | None:
        """After how many rounds all comes again, whatever chance says; None where it need not.

        What such a law remembers is the number of the next round.
        """
        return None

    @property
    def together(self) -> Hashable:
        """What workers have in common that were recorded together: equal values begin in one state (`begin_all`)."""
        return None

    def sums(self, counts: range, times: FloatArray) -> FloatArray:
        """Return P(T_1 + … + T_k <= t), shape (times, counts), for consecutive counts k >= 0.

        The sum of no task is 0, and times may be negative.
        """
        raise NoClosedForm(f"{type(self).__name__}: sums of its tasks have no closed form; sample instead")

    def atoms(self, counts: range) -> FloatArray:
        """Return the times at which some of these sums has positive probability (jumps of `sums`)."""
        return np.empty(0)

    def kinks(self, counts: range) -> FloatArray:
        """Return the times, 0 aside, at which some of these sums is continuous but not smooth (kinks of `sums`)."""
        return np.empty(0)

    def begin(self, seeds: int, rng: Generator) -> Any:
        """Return what `advance` must remember about `seeds` independent runs of one worker before their first round.

        For several workers, see `begin_all`.
        """
        return None

    def advance(self, state: Any, size: tuple[int, int, int], rng: Generator) -> tuple[FloatArray, Any]:
        """Return times of parts, shape (seeds, rounds, parts), for the next rounds, and the state after them."""
        return self.sample(size, rng), state

    def advance_tasks(
        self, state: Any, costs: FloatArray, size: tuple[int, int], rng: Generator
    ) -> tuple[FloatArray, Any]:
        """Return times of tasks of these costs, shape (seeds, rounds, tasks), for the next rounds, and the state after.

        size: (seeds, rounds).
        """
        if self.one_pace:
            paces, after = self.advance(state, (*size, 1), rng)
            return paces * costs, after
        times, after = self.advance(state, (*size, int(draws(costs).sum())), rng)
        return task_times(times, costs), after


def parts_of(cost: float) -> int:
    """Return how many part times a task adds up; the last may count as a fraction."""
    return max(1, ceil(cost - _ROUNDING))


def draws(costs: FloatArray) -> IntArray:
    """Return the same for tasks of each of these costs.

    >>> draws(np.array([1.0, 3.0, 2.5, 0.2])).tolist()
    [1, 3, 3, 1]
    """
    return np.maximum(np.ceil(np.asarray(costs) - _ROUNDING), 1.0).astype(np.int64)


def task_times(times: FloatArray, costs: FloatArray) -> FloatArray:
    """Return the times of tasks, shape (…, tasks), from those of their parts, shape (…, parts), one after another.

    A task of cost c takes the sum of its parts' times; where c is not whole, the last counts by the fraction left.

    >>> task_times(np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 2.5])).tolist()
    [1.0, 10.0]
    """
    each = draws(costs)
    last = np.cumsum(each) - 1
    shares = np.ones(int(each.sum()))
    shares[last] = costs - (each - 1)
    weighted = times if (shares == 1).all() else times * shares
    return weighted if len(shares) == len(costs) else np.add.reduceat(weighted, last - each + 1, axis=-1)


def sums_from(single: Any, counts: range, times: FloatArray) -> FloatArray:
    """Stack ``single(k, t)``, given for k > 0 and t > 0, into what `Delay.sums` promises.

    `single` takes an int array of shape (1, counts) and a float array of shape (times, 1).
    """
    ks = np.arange(counts.start, counts.stop)[None, :]
    ts = np.asarray(times, dtype=np.float64)[:, None]
    values = np.where(ts > 0, single(np.maximum(ks, 1), np.maximum(ts, 0.0)), 0.0)
    return np.where(ks == 0, np.where(ts >= 0, 1.0, 0.0), values)
