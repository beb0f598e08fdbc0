"""The two jobs of the comparison: training a model, and solving a linear system, both in parts.

An iteration asks every part for an array, and takes one step from all of them. Every contender does the same number of
iterations, and must end where a single process ends.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

SEED = 1
SAMPLES, FEATURES = 20, 20  # samples per part
ROWS = 10  # of the matrix, per part
SAME = 1e-6  # how far apart final states may be, relative


class Job(ABC):
    """An iterative job whose data is cut into parts.

    work: what `echelon.advise` calls it.
    """

    work: str

    def __init__(self, parts: int, iterations: int) -> None:
        self.parts, self.iterations = parts, iterations

    @abstractmethod
    def begin(self) -> Any:
        """Return the first state."""

    @abstractmethod
    def request(self, state: Any) -> np.ndarray:
        """Return what the parts are computed from."""

    @abstractmethod
    def part(self, request: np.ndarray, number: int) -> np.ndarray:
        """Return what a part gives; on the workers."""

    @abstractmethod
    def whole(self, found: Sequence[np.ndarray]) -> np.ndarray:
        """Return what all parts give together."""

    @abstractmethod
    def step(self, state: Any, whole: np.ndarray) -> Any:
        """Return the next state."""

    @abstractmethod
    def answer(self, state: Any) -> np.ndarray:
        """Return what was asked for."""

    @cached_property
    def alone(self) -> Any:
        """The state that a single process ends with."""
        state = self.begin()
        for _ in range(self.iterations):
            request = self.request(state)
            state = self.step(state, self.whole([self.part(request, number) for number in range(self.parts)]))
        return state

    def check(self, state: Any) -> None:
        """Raise unless a contender ended where a single process does."""
        expected, found = self.answer(self.alone), self.answer(state)
        off = float(np.abs(found - expected).max() / np.abs(expected).max())
        assert off < SAME, f"{type(self).__name__}: {off:.1e} from what a single process computes"


class Training(Job):
    """Logistic regression by gradient descent on all samples; states are weights."""

    work = "gradient"

    def __init__(self, parts: int, iterations: int) -> None:
        super().__init__(parts, iterations)
        rng = np.random.default_rng(SEED)
        self.inputs = rng.standard_normal((parts * SAMPLES, FEATURES))
        chances = 1 / (1 + np.exp(-self.inputs @ rng.standard_normal(FEATURES)))
        self.labels = (rng.random(len(chances)) < chances).astype(float)
        self.rate = 4 / float(np.linalg.eigvalsh(self.inputs.T @ self.inputs / len(self.inputs))[-1])

    def begin(self) -> np.ndarray:
        return np.zeros(FEATURES)

    def request(self, state: np.ndarray) -> np.ndarray:
        return state

    def chunk(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        held = slice(number * SAMPLES, (number + 1) * SAMPLES)
        return self.inputs[held], self.labels[held]

    def part(self, request: np.ndarray, number: int) -> np.ndarray:
        return gradient(request, self.chunk(number))

    def whole(self, found: Sequence[np.ndarray]) -> np.ndarray:
        return np.sum(found, axis=0)

    def step(self, state: np.ndarray, whole: np.ndarray) -> np.ndarray:
        return state - self.rate / len(self.inputs) * whole

    def answer(self, state: np.ndarray) -> np.ndarray:
        return state


def gradient(weights: np.ndarray, chunk: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the gradient of the loss of some samples, summed over them."""
    inputs, labels = chunk
    found: np.ndarray = inputs.T @ (1 / (1 + np.exp(-inputs @ weights)) - labels)
    return found


class Solve(Job):
    """Conjugate gradients on a symmetric positive definite system; states are solution, residual and direction."""

    work = "linear"

    def __init__(self, parts: int, iterations: int) -> None:
        super().__init__(parts, iterations)
        rng = np.random.default_rng(SEED)
        size = parts * ROWS
        axes = np.linalg.qr(rng.standard_normal((size, size)))[0]
        self.matrix = (axes * np.linspace(1, 25, size)) @ axes.T
        self.right = rng.standard_normal(size)

    def begin(self) -> tuple[np.ndarray, ...]:
        return np.zeros_like(self.right), self.right, self.right

    def request(self, state: tuple[np.ndarray, ...]) -> np.ndarray:
        return state[2]

    def part(self, request: np.ndarray, number: int) -> np.ndarray:
        found: np.ndarray = self.matrix[number * ROWS : (number + 1) * ROWS] @ request
        return found

    def whole(self, found: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(found)

    def step(self, state: tuple[np.ndarray, ...], whole: np.ndarray) -> tuple[np.ndarray, ...]:
        solution, residual, direction = state
        length = residual @ residual / (direction @ whole)
        rest = residual - length * whole
        return solution + length * direction, rest, rest + rest @ rest / (residual @ residual) * direction

    def answer(self, state: tuple[np.ndarray, ...]) -> np.ndarray:
        return state[0]


JOBS: dict[str, type[Job]] = {"training": Training, "solve": Solve}
