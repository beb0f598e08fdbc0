"""What a round costs besides computing, measured on a stream."""

import time
from functools import partial
from typing import Any

import numpy as np

from echelon.arrays import FloatArray
from echelon.codes import combine
from echelon.jobs import SumJob
from echelon.jobs.chunks import MOST_CHUNKS
from echelon.profile import Costs
from echelon.stream.stream import Stream

_ROUNDS, _FEW_ROUNDS, _TASKS, _LENGTH = 40, 8, 32, 1 << 19  # 4 MB
_LEAST = 1e-9  # seconds, the least that noise may leave
_COMBINED, _TRIES = 8, 5


def measure_costs(stream: Stream) -> Costs:
    """Return what messages, bytes, rounds and sums cost on a stream without redundancy that shares out evenly.

    Measured by rounds that compute nothing: with one message per worker, with many, and with large ones. Adding is
    timed here; workers are assumed to be as fast.

    >>> with Stream("threads", workers=2, redundancy=1.0, split="uniform") as stream:
    ...     costs = measure_costs(stream)
    >>> 0 < costs.message < 0.1 and 0 < costs.round < 1 and costs.bandwidth > 1e6 and 0 < costs.combining < 1e-7
    True
    """
    one = _seconds(stream, 1, 1, _ROUNDS)
    tasks = max(2, min(_TASKS, MOST_CHUNKS // stream.workers))
    message = max((_seconds(stream, tasks, 1, _ROUNDS) - one) / (tasks - 1), _LEAST)
    large = max(_seconds(stream, 1, _LENGTH, _FEW_ROUNDS) - one, _LEAST)
    return Costs(
        message=message,
        round=max(one - message, _LEAST),
        bandwidth=8 * _LENGTH / large,
        combining=_seconds_a_byte(),
    )


def _seconds_a_byte() -> float:
    """Return the shortest time to add one weighted array to another, as encoding and decoding do."""
    arrays, weights = [np.ones(_LENGTH) for _ in range(_COMBINED)], np.full((1, _COMBINED), 0.5)
    taken = []
    for _ in range(_TRIES):
        began = time.perf_counter()
        combine(weights, arrays)
        taken.append(time.perf_counter() - began)
    return min(taken) / sum(array.nbytes for array in arrays)


def _seconds(stream: Stream, tasks: int, length: int, rounds: int) -> float:
    """Return the time of a round in which each worker sends `tasks` messages of `length` numbers."""
    job = SumJob(
        partial=partial(_ready, length),
        update=_same,
        state=0.0,
        chunks=range(tasks * stream.workers),
        iterations=rounds,
    )
    with stream.keep(job) as kept:
        kept.run(0.0)  # loads the work
        began = stream.now()
        kept.run(0.0)
        return (stream.now() - began) / rounds


def _ready(length: int, state: float, chunk: int) -> FloatArray:
    return np.zeros(length)


def _same(state: float, found: Any) -> float:
    return state
