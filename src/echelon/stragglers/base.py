"""What a model of stragglers must say; a new model is one subclass in one file and one line in the registry."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import BoolArray, IntArray
from echelon.errors import ArgumentError

Limits = tuple[tuple[tuple[int, ...], int], ...]


class StragglerModel(ABC):
    """A promise about which (worker, round) pairs are stragglers (sequential, section 3.2.1).

    Patterns are bool arrays of shape (rounds, workers), the oldest round first. A model constrains every `window`
    consecutive rounds, or the whole pattern where it is shorter than that. Two things hold of every model, and all
    below relies on them: a pattern that conforms still does after some of its stragglers are taken out, and
    rounds without stragglers before and after it change nothing.

    Subclasses are frozen dataclasses. They give `most`, `check_workers`, `fits`, `longest` and `limits`.
    """

    window: int

    @property
    @abstractmethod
    def most(self) -> int:
        """Most stragglers, counted as (worker, round) pairs, in any `window` consecutive rounds."""

    @abstractmethod
    def check_workers(self, workers: int) -> None:
        """Raise `ArgumentError` where the model can't be meant for this many workers: some results must return."""

    @abstractmethod
    def fits(self, patterns: BoolArray) -> BoolArray:
        """Return which of many patterns conform: shape (..., rounds, workers) in, shape (...) out."""

    @abstractmethod
    def longest(self, history: BoolArray) -> IntArray:
        """Return for how many of the next rounds each worker can straggle throughout, shape (workers,).

        The answer is at most `window`, which then means for ever. `history` must conform, i.e. be what is left after
        waiting; only its last `window` - 1 rounds matter.
        """

    @abstractmethod
    def limits(self, history: BoolArray) -> Limits:
        """Return pairs (workers, most): at most this many of these workers may straggle in the next round.

        A set of stragglers makes the pattern of history and next round conform if and only if it keeps to all pairs;
        workers in no pair may straggle freely. `history` must conform.
        """

    def conforms(self, pattern: BoolArray) -> bool:
        """Return whether a pattern of shape (rounds, workers) keeps to the model."""
        return bool(self.fits(checked_pattern("pattern", pattern)))

    def may_straggle(self, history: BoolArray, rounds: int) -> BoolArray:
        """Return whether each worker can straggle in all of the next rounds (sequential, Algorithm 2, line 13).

        The others are taken not to straggle in these rounds: if they did, the pattern would conform still less.
        Call `longest` once when you need many numbers of rounds.
        """
        may: BoolArray = self.longest(history) >= min(checks.whole("rounds", rounds, least=0), self.window)
        return may

    def recent(self, history: BoolArray) -> BoolArray:
        """Return the part of a history that can share a window with the next round."""
        checked_pattern("history", history)
        return history[max(0, len(history) - self.window + 1) :]

    def worst_patterns(self, workers: int, rounds: int, rng: Generator, count: int) -> BoolArray:
        """Return random patterns to which no straggler can be added, shape (count, rounds, workers).

        Pairs are tried once each, in random order. One that is refused would be refused later, too.
        """
        self.check_workers(workers)
        margin = self.window - 1
        checks.whole("rounds", rounds, least=1)
        grown = np.zeros((checks.whole("count", count, least=1), rounds + 2 * margin, workers), dtype=bool)
        orders = rng.permuted(np.tile(np.arange(rounds * workers), (count, 1)), axis=1)
        each = np.arange(count)
        for step in range(rounds * workers):
            at, worker = np.divmod(orders[:, step], workers)
            grown[each, at + margin, worker] = True
            around = grown[each[:, None], at[:, None] + np.arange(2 * margin + 1)]
            grown[each, at + margin, worker] = self.fits(around)
        return grown[:, margin : margin + rounds]

    def all_patterns(self, workers: int, rounds: int) -> Iterator[BoolArray]:
        """Yield every pattern of shape (rounds, workers) that conforms, round by round; for small sizes."""
        checks.whole("rounds", rounds, least=0)
        if checks.whole("workers", workers, least=1) * rounds > 40:
            raise ArgumentError(f"workers * rounds: {workers * rounds} is not allowed; must be at most 40")
        choices = np.array(list(product((False, True), repeat=workers)))
        yield from self._extended(np.zeros((rounds, workers), dtype=bool), 0, choices)

    def _extended(self, pattern: BoolArray, known: int, choices: BoolArray) -> Iterator[BoolArray]:
        """Yield all conforming patterns that agree with this one in its first `known` rounds."""
        if known == len(pattern):
            yield pattern.copy()
            return
        limits = self.limits(pattern[:known])
        for choice in choices:
            if keeps_to(limits, choice):
                pattern[known] = choice
                yield from self._extended(pattern, known + 1, choices)


def keeps_to(limits: Limits, stragglers: BoolArray) -> bool:
    """Return whether the stragglers of one round, shape (workers,), keep to all pairs of `StragglerModel.limits`.

    >>> keeps_to((((0, 1), 1), ((2,), 0)), np.array([True, False, False]))
    True
    """
    return all(np.count_nonzero(stragglers[list(workers)]) <= most for workers, most in limits)


def checked_pattern(name: str, pattern: BoolArray) -> BoolArray:
    """Return a bool array of shape (rounds, workers) with at least one worker."""
    if not isinstance(pattern, np.ndarray) or pattern.dtype != bool or pattern.ndim != 2 or not pattern.shape[1]:
        shape = f"{pattern.dtype} of shape {pattern.shape}" if isinstance(pattern, np.ndarray) else repr(pattern)
        raise ArgumentError(f"{name}: {shape} is not allowed; must be a bool array of shape (rounds, workers)")
    return pattern
