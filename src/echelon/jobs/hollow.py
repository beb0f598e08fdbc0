"""Jobs that only take time: for studies of rounds in virtual time, where numbers do not matter."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from echelon.arrays import NumberArray
from echelon.codes import Code
from echelon.jobs.base import IterativeJob
from echelon.jobs.collected import Collected
from echelon.schemes import CodedPlan, Regrouping

_NOTHING, _ONE = np.empty(0), np.ones(1)


class HollowJob(IterativeJob):
    """Rounds of a plan whose messages are empty: what they cost is drawn, and nothing is computed.

    >>> from echelon.stream import Stream
    >>> from echelon.schemes import fractional_repetition
    >>> with Stream("virtual", workers=4) as stream:
    ...     stream.submit(HollowJob(fractional_repetition(workers=4, load=2), iterations=3)).delivery().delay
    6.0
    """

    def __init__(
        self,
        plan: CodedPlan,
        *,
        iterations: int,
        lend: bool = False,
        regroup: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(state=None, iterations=iterations, until=None, name=name, tolerance=1e30)
        self.plan, self.parts, self.lend = plan, plan.parts, lend
        self.regroup = None if regroup is None else Regrouping(plan, regroup).held

    def code(self, redundancy: float, rng: Generator) -> Code:
        """Never called: the plan has codes."""
        raise AssertionError("a hollow job has a plan")

    def work(self, codes: Sequence[Code]) -> "HollowWork":
        """Return work that computes nothing."""
        return HollowWork()

    def request(self, state: Any) -> Any:
        """Return nothing."""
        return None

    def advance(
        self, state: Any, iteration: int, collected: Collected, decide: Callable[[bool], None]
    ) -> tuple[Any, bool | None]:
        """Count the round."""
        return None, self.finished(None, iteration)

    def step(self, state: Any, recovered: Any) -> Any:
        """Never called: nothing is recovered."""
        raise AssertionError("a hollow job takes no steps")


class HollowWork:
    """Rows without numbers."""

    def row(self, slot: int, row: int) -> tuple[Sequence[int], NumberArray]:
        """Return a row that is one part."""
        return (row,), _ONE

    def part(self, state: Any, part: int) -> Any:
        """Return an empty array."""
        return _NOTHING
