"""Gradients tried once more: a gradient code for few stragglers, and a second round for what more of them owe."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from echelon.arrays import BoolArray, FloatArray
from echelon.codes import Code, cyclic
from echelon.errors import ArgumentError
from echelon.schemes.gradient_chain import GradientChain, Mini, Underway
from echelon.seeds import place_generator


@dataclass(frozen=True, kw_only=True)
class Reattempted(GradientChain):
    """See `sr_sgc`. A gradient is one unit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.window - 1) % self.length:
            raise ArgumentError(
                f"window: {self.window} is not allowed with length {self.length}; must be 1 more than a multiple of it"
            )
        if self.spare >= self.workers:
            raise ArgumentError(f"workers: {self.workers} is not allowed; must be more than the {self.spare} spared")

    @property
    def spare(self) -> int:
        """S = ceil(B lambda / (W - 1 + B)): results that a gradient can do without."""
        return ceil(self.length * self.workers_at_once / (self.window - 1 + self.length))

    @property
    def delay(self) -> int:
        """T = B."""
        return self.length

    @cached_property
    def codes(self) -> tuple[Code, ...]:
        """Any n - s rows."""
        return (cyclic(rows=self.workers, load=self.spare + 1, rng=place_generator(self.seed, 0)),)

    @property
    def units(self) -> int:
        """One."""
        return 1

    @property
    def share(self) -> float:
        """What one mini-task costs: s + 1 of n chunks."""
        return (self.spare + 1) / self.workers

    @property
    def load(self) -> float:
        """One mini-task."""
        return self.share

    @cached_property
    def shares(self) -> FloatArray:
        """How large each chunk is: all are equal."""
        return np.full(self.workers, 1 / self.workers)

    def first_chunk(self, unit: int) -> int:
        """Return the first chunk."""
        return 0

    def units_at(self, age: int) -> tuple[int, ...]:
        """Return the only unit."""
        return (0,)

    def due_at(self, age: int) -> tuple[int, ...]:
        """Return the unit in the last round."""
        return (0,) if age == self.delay else ()

    def minis(self, going: Sequence[Underway], safe: BoolArray) -> list[list[Mini]]:
        """Return what is repeated of the gradient that is due, and the newest one's mini-tasks of all other workers."""
        found: list[list[Mini]] = [[] for _ in going]
        busy: set[int] = set()
        for i, gradient in enumerate(going):
            if gradient.age == self.delay:
                owing = [place for place in range(self.workers) if place not in gradient.came[0]]
                owing.sort(key=lambda place: (not safe[place], place))
                # one that turned out too noisy has enough results, and still lacks one
                again = owing[: max(1, self.codes[0].threshold - len(gradient.came[0]))]
                found[i] = [Mini(place, 0, place) for place in again]
                busy.update(again)
        for i, gradient in enumerate(going):
            if gradient.age == 0:
                found[i] = [Mini(place, 0, place) for place in range(self.workers) if place not in busy]
        return found


def sr_sgc(
    workers: int,
    *,
    workers_at_once: int,
    length: int,
    window: int,
    tolerance: float = 0.0,
    waiting: str = "due",
    seed: int = 1,
) -> Reattempted:
    """Return SR-SGC: a gradient code for fewer stragglers than there may be; prefer it to M-SGC for a shorter delay.

    A gradient has one round, coded so that any n - s workers are enough. If more than s fail, the surplus is repeated
    B = `length` rounds later, in place of those workers' part of that round's own gradient. For any window W = x B + 1,
    s = ceil(B lambda / (W - 1 + B)) is enough: the load of a round is (s + 1) / n, where a gradient code without a
    second round needs (lambda + 1) / n. Needs B + 1 models or more, in turn.

    In any W rounds at most lambda = `workers_at_once` workers may straggle, each within B rounds; a round in which no
    more than s do counts as one without. A round in which they would not conform waits for some.

    Differs from paper: of those that owe a result, workers that can't straggle now are asked first.

    >>> scheme = sr_sgc(4, workers_at_once=2, length=1, window=2)
    >>> scheme.delay, scheme.spare, scheme.load
    (1, 1, 0.5)
    """
    return Reattempted(
        workers=workers,
        workers_at_once=workers_at_once,
        length=length,
        window=window,
        tolerance=tolerance,
        waiting=waiting,
        seed=seed,
    )
