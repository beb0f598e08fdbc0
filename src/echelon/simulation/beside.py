"""What the rounds of a plan take beside computing: messages, links, the master's port, and adding up where rows lie."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from echelon import ports
from echelon.arrays import FloatArray, IntArray
from echelon.plan import Plan
from echelon.profile import Costs

Adding = Callable[[IntArray], FloatArray]


@dataclass(frozen=True, slots=True)
class Beside:
    """What tasks and rounds take besides.

    tasks: seconds that each task takes, one array per lane, in which those of the pool follow the lane's own; none
        where they take nothing.
    port: seconds that the message of each takes at the master's port, in the same order; none where it takes nothing.
    more: seconds that each round takes before anything else.
    adding: returns the seconds that adding up takes at the end of each round, from the rows that each worker sent in
        it, shape (rounds, workers); None where rows come to the master.
    """

    tasks: tuple[FloatArray, ...] = ()
    port: tuple[FloatArray, ...] = ()
    more: float = 0.0
    adding: Adding | None = None


def beside(
    plan: Plan,
    costs: Costs,
    *,
    message: float | FloatArray = 0.0,
    state: float = 0.0,
    added: bool = False,
    tasks: tuple[FloatArray, ...] = (),
) -> Beside:
    """Return what rounds of a plan take besides, under these costs.

    message: bytes of the messages of each slot, or of all. state: bytes of the state. added: whether rows are only ever
    added up, so that large ones may stay with their workers. tasks: further seconds that each task takes.

    >>> from echelon.schemes import any_k
    >>> found = beside(any_k([1, 1], 2), Costs(message=0.5, bandwidth=1e6, port=1e6), message=1e6, state=1e5)
    >>> found.tasks[0].tolist(), found.port[0].tolist(), round(found.more, 9)
    ([1.5], [1.0], 0.3)
    """
    sizes = np.broadcast_to(np.asarray(message, dtype=np.float64), (len(plan.slots),))
    stay = added & (sizes >= ports.stay_bytes(costs))
    travels = np.where(stay, 0.0, sizes)
    listed = [np.array([task.slot for task in (*lane, *plan.pooled)], dtype=np.intp) for lane in plan.lanes]
    more = costs.round + ports.state_s(costs, state, len(plan.lanes))
    sent = ports.sending_s(costs, travels)
    of_tasks = tasks or tuple(np.zeros(len(slots)) for slots in listed)
    if sent.any() or tasks:
        of_tasks = tuple(own + sent[slots] for own, slots in zip(of_tasks, listed, strict=True))
    else:
        of_tasks = ()
    taken = travels / costs.port
    port = tuple(taken[slots] for slots in listed) if taken.any() else ()
    adding = partial(_adding, costs, float(sizes[0])) if stay.any() else None
    return Beside(of_tasks, port, more, adding)


def _adding(costs: Costs, nbytes: float, rows: IntArray) -> FloatArray:
    """Return what adding up takes where each worker holds this many rows of a sum."""
    return ports.adding_s(costs, np.multiply(rows, nbytes, dtype=np.float64), nbytes)
