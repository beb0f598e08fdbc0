"""One way to run an iteration."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from echelon.plan import Plan
from echelon.reprs import short_repr


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to run an iteration.

    name: what it is called. family: uncoded, pull, copies or coded.
    plan: returns the plan that a job runs; of products, the scheme.
    lighter: returns the same plan without its code, where that takes longer to make than to try; of block coordinates,
        at its cost in parts.
    load: parts that a row of such a plan combines; 0 where rows are encoded before, None where the code must tell.
    job: the kind of job that can run it; None where any job of its work can.
    best_of: name of strategies of which only the best few are compared with the others.
    overlap: whether workers that would be idle begin the next job (`Stream(overlap=True)`).
    """

    name: str
    family: str
    plan: Callable[[], Any]
    lighter: Callable[[], Plan] | None = None
    load: int | None = None
    job: str | None = None
    best_of: str | None = None
    overlap: bool = False

    __repr__ = short_repr
