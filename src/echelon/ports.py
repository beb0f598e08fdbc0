"""What links and the master's port add to a round: one set of formulas for virtual time, simulation and advice.

Two planes move the data of a round (`Costs.plane`).

- "master": the state goes out to every worker through the master's port, and every message comes in through it, one
  after another in the order of arrival. The port passes (messages + workers * state) bytes per round.
- "responders": a large row stays with its worker, and only word of it travels. When enough are there, the coordinates
  are cut into one slice for each worker that responded. Each takes its slice of every chosen row, adds them up, and
  sends its slice of the total. The state goes out once, a slice to each worker, and workers pass their slices on. The
  port passes (total + state) bytes per round, however many workers there are.

A link passes a message before the port does; both carry whole messages. Messages and states below `LARGE` bytes go the
plain way in either plane. What waits at the port when its round is purged is never sent.
"""

from typing import Any

import numpy as np

from echelon.arrays import FloatArray
from echelon.profile import Costs

LARGE = 1 << 18  # bytes from which rows may stay where they were computed, and states are relayed


def stay_bytes(costs: Costs) -> float:
    """Return the size from which rows that are only added up stay with their workers."""
    return float(LARGE) if costs.plane == "responders" else float("inf")


def sending_s(costs: Costs, nbytes: Any) -> Any:
    """Return how long a worker takes to send a message of this size; word of one that stays has none.

    >>> sending_s(Costs(message=0.5, bandwidth=100.0), 200.0)
    2.5
    """
    return costs.message + nbytes / costs.bandwidth


def state_s(costs: Costs, nbytes: float, workers: int) -> float:
    """Return how long it takes until all workers have a state that the master begins to send.

    Plane "master": the port passes it once per worker, then each worker's link does. Plane "responders": the port
    passes one slice to each worker, and each passes its slice on to all others, which takes in and out (workers - 1) /
    workers of the state.

    >>> state_s(Costs(port=1e6, bandwidth=1e6), 1e6, 10)
    11.0
    >>> round(state_s(Costs(port=1e6, bandwidth=1e6, plane="responders"), 1e6, 10), 9)
    2.0
    """
    if nbytes < stay_bytes(costs):
        return workers * nbytes / costs.port + nbytes / costs.bandwidth
    return nbytes / costs.port + (workers - 1) * costs.message + nbytes / costs.bandwidth


def through_port(arrivals: FloatArray, seconds: FloatArray | float) -> FloatArray:
    """Return when messages have passed the master's port, first come first served, each round on its own.

    arrivals: when each comes to the port, shape (messages, rounds); inf for one that never does.
    seconds: what each takes there, shape (messages,), or the same for all.

    >>> through_port(np.array([[0.0], [5.0], [0.5]]), 1.0).ravel().tolist()
    [1.0, 6.0, 2.0]
    """
    order = np.argsort(arrivals, axis=0, kind="stable")
    taken = np.broadcast_to(np.reshape(np.asarray(seconds, dtype=np.float64), (-1, 1)), arrivals.shape)
    took = np.take_along_axis(taken, order, axis=0)
    passed = np.cumsum(took, axis=0)
    # the i-th has passed at the latest, over j <= i, of the arrival of j plus what j … i take
    begun = np.take_along_axis(arrivals, order, axis=0) - (passed - took)
    passed += np.maximum.accumulate(begun, axis=0, out=begun)
    found = np.empty_like(arrivals)
    np.put_along_axis(found, order, passed, axis=0)
    return found


def adding_s(
    costs: Costs, held: FloatArray, total: float, *, here: float = 0.0, adders: int | None = None
) -> FloatArray:
    """Return how long the responders take to add up the chosen rows, until the total is with the master.

    held: bytes of chosen rows that each worker holds, shape (..., workers). total: bytes of what they add up to.
    here: bytes of chosen rows that lie with the master. adders: who add; by default all that hold something.

    With R adders, a worker that holds h of all H bytes passes on h (R-1)/R and takes in (H - h)/R: the busiest link
    decides. Each adds up H/R bytes, and sends its slice of the total, which all pass the port.

    >>> costs = Costs(bandwidth=100.0, port=50.0, combining=0.001)
    >>> float(adding_s(costs, np.array([100.0, 100.0, 0.0]), 100.0))     # 0.5 + 0.1 + 2
    2.6
    """
    rows = np.asarray(held, dtype=np.float64)
    count = np.maximum(np.count_nonzero(rows > 0, axis=-1), 1) if adders is None else np.asarray(max(adders, 1))
    every = rows.sum(axis=-1)
    most, least = rows.max(axis=-1), rows.min(axis=-1, where=rows > 0, initial=np.inf)
    least = np.where((np.count_nonzero(rows > 0, axis=-1) < count) | ~np.isfinite(least), 0.0, least)
    out, taken = most * (count - 1) / count, (every - least + here) / count
    exchange = np.maximum(out, taken) / costs.bandwidth
    adding = (every + here) / count * costs.combining
    intake = np.maximum(total / costs.port, total / count / costs.bandwidth)
    found: FloatArray = exchange + adding + here / costs.port + intake + count * costs.message
    return found
