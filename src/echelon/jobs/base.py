"""What a job is to the stream, whatever it computes: a code, work for the workers, and steps on the master."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from numpy.random import Generator

from echelon import checks
from echelon.clusters import Cluster, Message, Work
from echelon.codes import Code, Weights
from echelon.errors import ArgumentError
from echelon.plan import Plan
from echelon.schemes import CodedPlan


class IterativeJob(ABC):
    """An iterative computation that is submitted to a stream.

    iterations: how many, at most where `until` is given as well.
    until: called with the state after each step; ends the job when it says True.
    name: what it is called in deliveries and progress.
    tolerance: relative error of a recovered iteration that is accepted; a noisier one waits for another row. By default
        half of the digits of the numbers at hand.

    A subclass sets `parts`: they and the redundancy determine its code, unless it brings a `plan` of its own, with
    codes; `lend` then says whether workers of slots that are recovered may help those that lag. One whose code recovers
    many values, and not one sum, is `stacked`; one that wants what each slot gives, and not their sum, is `by_slot`.
    `move_cost` is what a part that is new to a worker costs it, in parts.
    """

    parts: int
    plan: CodedPlan | None = None
    lend = False
    stacked = False
    by_slot = False
    move_cost = 0.0

    def __init__(
        self, *, state: Any, iterations: int | None, until: Any, name: str | None, tolerance: float | None
    ) -> None:
        if iterations is None and until is None:
            raise ArgumentError("iterations, until: missing; one of them must say when the job ends")
        if until is not None and not callable(until):
            raise ArgumentError(f"until: {until!r} is not allowed; must be a function of the state")
        if name is not None and not isinstance(name, str):
            raise ArgumentError(f"name: {name!r} is not allowed; must be a text")
        self.iterations = None if iterations is None else checks.whole("iterations", iterations, least=1)
        self.until = until
        self.name = name
        self.tolerance = None if tolerance is None else checks.number("tolerance", tolerance, above=0)
        self.state = state

    @abstractmethod
    def code(self, redundancy: float, rng: Generator) -> Code:
        """Return the code that protects an iteration, with about so many rows for each that is needed."""

    @abstractmethod
    def work(self, codes: Sequence[Code]) -> Work:
        """Return what travels to the workers, for slots with these codes."""

    @abstractmethod
    def request(self, state: Any) -> Any:
        """Return what the parts of an iteration are computed from."""

    @abstractmethod
    def step(self, state: Any, recovered: Any) -> Any:
        """Return the next state from what was recovered: the sum, all values along a first axis, or a list by slot."""

    def finished(self, state: Any, iteration: int) -> bool:
        """Return whether the job has ended after so many iterations."""
        if self.iterations is not None and iteration >= self.iterations:
            return True
        return self.until is not None and bool(self.until(state))


class RoundJob(IterativeJob):
    """A job that plans each of its rounds itself, from what came of those before. All of its slots have one code."""

    by_slot = True

    def __init__(self, *, name: str | None, tolerance: float | None) -> None:
        super().__init__(state=None, iterations=None, until=self._never, name=name, tolerance=tolerance)

    @staticmethod
    def _never(state: Any) -> bool:
        return False

    @abstractmethod
    def open(self, cluster: Cluster) -> Plan:
        """Return the plan of the next round, with a lane for every place, and load what it needs."""

    @abstractmethod
    def held(self, slot: int) -> Sequence[int]:
        """Return the rows of a slot that came in rounds before."""

    @abstractmethod
    def close(self, messages: dict[tuple[int, int], Message], weights: dict[int, Weights]) -> bool:
        """Take over the messages of a round, by slot and row, and the weights of slots that are recovered.

        Return whether that was the last round.
        """

    def step(self, state: Any, recovered: Any) -> Any:
        """Never asked: `close` takes what came."""
        raise AssertionError("a job of rounds takes no steps")


def checked_function(name: str, value: Any) -> Any:
    """Return a function, or refuse what is none."""
    if not callable(value):
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be a function")
    return value
