"""When rounds end that leave out some of their slots, one ending per file. A new one is one file and one line.

A plan without an ending ends its round when every slot is recovered.
"""

from importlib import import_module

from echelon.endings.base import TIES, Ending, EndRule, Lane, Row
from echelon.endings.due import Due
from echelon.endings.fastest import Fastest
from echelon.endings.lanes import LaneEnding
from echelon.endings.quorum import Quorum


def _ending(path: str) -> type[Ending]:
    """Return an ending by file and class; a new one needs only one line below."""
    module, name = path.split(".")
    found: type[Ending] = getattr(import_module(f"echelon.endings.{module}"), name)
    return found


ENDINGS: dict[str, type[Ending]] = {
    "due": _ending("due.Due"),
    "fastest": _ending("fastest.Fastest"),
    "quorum": _ending("quorum.Quorum"),
}

# those for chains of products: they wait in proportion to the time of the quickest worker
WAITING: dict[str, type[LaneEnding]] = {
    name: ending for name, ending in ENDINGS.items() if issubclass(ending, LaneEnding)
}  # fmt: skip

__all__ = [
    "ENDINGS", "TIES", "WAITING", "Due", "EndRule", "Ending", "Fastest", "Lane", "LaneEnding", "Quorum", "Row",
]  # fmt: skip
