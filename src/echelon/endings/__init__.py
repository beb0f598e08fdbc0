"""When rounds end that may do without some of their rows, one ending per file. A new one is one file and one line.

    Exact()                        wait for everything; what a plan without an ending does
    Residual(0.05)                 end as soon as the result is this near to the exact one
    Deadline(2.0)                  end after two seconds with what there is
    Quorum(0.9, grace=0.5)         end half a second after 90 % are there
    Deadline(2.0) & Quorum(0.9)    exact, or else after two seconds, but with 90 % at least

are policies for sums (`echelon.endings.policy`), and "auto" in place of seconds is learnt from the rounds before. `Due`
and `Fastest` are for chains, whose later rounds go on with what one leaves undone.
"""

from importlib import import_module

from echelon.endings.base import TIES, Ending, EndRule, Lane, Row
from echelon.endings.curves import Curves
from echelon.endings.deadline import Deadline
from echelon.endings.due import Due
from echelon.endings.exact import Exact
from echelon.endings.fastest import Fastest
from echelon.endings.lanes import LaneEnding
from echelon.endings.policy import Policy
from echelon.endings.quorum import Quorum
from echelon.endings.residual import Residual
from echelon.endings.sums import Sums


def _ending(path: str) -> type[Ending]:
    """Return an ending by file and class; a new one needs only one line below."""
    module, name = path.split(".")
    found: type[Ending] = getattr(import_module(f"echelon.endings.{module}"), name)
    return found


ENDINGS: dict[str, type[Ending]] = {
    "deadline": _ending("deadline.Deadline"),
    "due": _ending("due.Due"),
    "exact": _ending("exact.Exact"),
    "fastest": _ending("fastest.Fastest"),
    "quorum": _ending("quorum.Quorum"),
    "residual": _ending("residual.Residual"),
}

# those for chains of products: they wait in proportion to the time of the quickest worker
WAITING: dict[str, type[LaneEnding]] = {
    name: ending for name, ending in ENDINGS.items() if issubclass(ending, LaneEnding)
}  # fmt: skip

__all__ = [
    "ENDINGS", "TIES", "WAITING", "Curves", "Deadline", "Due", "EndRule", "Ending", "Exact", "Fastest", "Lane",
    "LaneEnding", "Policy", "Quorum", "Residual", "Row", "Sums",
]  # fmt: skip
