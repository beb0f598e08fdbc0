"""What all codes for chains of gradients say: how the data is cut, and who computes what of which gradient when.

Gradient t begins in round t and must be there T = `delay` rounds later; meanwhile those of other models go on, so that
T + 1 models trained in turn keep all rounds busy. `GradientWindow` turns a scheme into a plan for each round.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from echelon import checks
from echelon.arrays import BoolArray, FloatArray
from echelon.codes import Code
from echelon.endings import WAITING
from echelon.errors import ArgumentError
from echelon.stragglers import Bursts


class Mini(NamedTuple):
    """A mini-task: a row of a unit of a gradient, and the place that computes it."""

    place: int
    unit: int
    row: int


@dataclass(slots=True)
class Underway:
    """A gradient that is not finished.

    age: rounds since its first. came: rows that came, by unit. done: units that are recovered.
    cost: of the whole gradient on one worker.
    """

    number: int
    cost: float
    came: list[set[int]]
    age: int = 0
    done: set[int] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True)
class GradientChain(ABC):
    """A code over the rounds of a chain of gradients, for stragglers in bursts (`stragglers.Bursts`).

    The sum of a gradient has `units`, each with a code over chunks of its own, which are recovered one by one; in a
    round a gradient has one slot for each of `codes`, and `units_at` says for which unit.

    workers: n. workers_at_once, length, window: lambda, B and W, the model of stragglers.
    tolerance: mu; how much longer than the fastest worker the round waits for the others.
    waiting: when a round ends that conforms to the model, a name of `endings.WAITING`. "due": at the first set of
        workers that conforms. "fastest", the paper's rule: not before 1 + mu times what the fastest worker takes for
        its whole lane.
    seed: of the codes' random numbers.
    """

    workers: int
    workers_at_once: int
    length: int
    window: int
    tolerance: float = 0.0
    waiting: str = "due"
    seed: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        checks.whole("workers", self.workers, least=1, most=2000)
        checks.whole("workers_at_once", self.workers_at_once, least=0, most=self.workers)
        checks.whole("window", self.window, least=2, most=1000)
        checks.whole("length", self.length, least=1, most=self.window - 1)
        checks.number("tolerance", self.tolerance, least=0)
        checks.one_of("waiting", self.waiting, WAITING)
        checks.whole("seed", self.seed, least=0)

    @property
    def model(self) -> Bursts:
        """Which workers may straggle when; a round waits until its stragglers conform."""
        return Bursts(workers_at_once=self.workers_at_once, length=self.length, window=self.window)

    @property
    @abstractmethod
    def delay(self) -> int:
        """T, rounds after its first that a gradient may take."""

    @property
    @abstractmethod
    def codes(self) -> tuple[Code, ...]:
        """The code of each slot that a gradient has in a round."""

    @property
    @abstractmethod
    def units(self) -> int:
        """Number of units whose sums add up to the gradient."""

    @property
    @abstractmethod
    def share(self) -> float:
        """What one mini-task costs, as a share of the whole gradient."""

    @property
    @abstractmethod
    def load(self) -> float:
        """What a worker computes in a round, as a share of the whole gradient."""

    @property
    @abstractmethod
    def shares(self) -> FloatArray:
        """How large each chunk of the data is, as a share of all of it, shape (parts,)."""

    @abstractmethod
    def first_chunk(self, unit: int) -> int:
        """Return the number of a unit's first chunk; the others follow."""

    @abstractmethod
    def units_at(self, age: int) -> tuple[int, ...]:
        """Return the unit that each slot of a gradient of this age is for."""

    @abstractmethod
    def due_at(self, age: int) -> tuple[int, ...]:
        """Return the units that must be recovered in this round of a gradient's."""

    @abstractmethod
    def minis(self, going: Sequence[Underway], safe: BoolArray) -> list[list[Mini]]:
        """Return the mini-tasks of a round, by gradient, the newest first.

        safe: workers that can't straggle in this round, shape (workers,).
        """

    @property
    def parts(self) -> int:
        """Number of chunks that the data must be cut into."""
        return len(self.shares)

    def cut(self, samples: int) -> list[slice]:
        """Return which samples each chunk holds: consecutive ones, as many as its share of them asks for.

        >>> from echelon.schemes import m_sgc
        >>> [part.stop - part.start for part in m_sgc(2, workers_at_once=1, length=1, window=2).cut(12)]
        [4, 4, 2, 2]
        """
        if checks.whole("samples", samples, least=1) < self.parts:
            raise ArgumentError(f"samples: {samples} are not allowed; must be at least {self.parts}, one per chunk")
        ends = np.rint(self.shares.cumsum() * samples).astype(int)
        # no chunk is empty, however small its share
        ends = np.maximum.accumulate(ends - np.arange(self.parts)) + np.arange(self.parts)
        ends = np.minimum(np.maximum(ends, np.arange(1, self.parts + 1)), samples - np.arange(self.parts)[::-1])
        begins = [0, *ends[:-1].tolist()]
        return [slice(begin, end) for begin, end in zip(begins, ends.tolist(), strict=True)]
