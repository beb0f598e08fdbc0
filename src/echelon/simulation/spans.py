"""Rounds in which fewer rows than the threshold may do: message by message, by what the rows span. Slow, and right."""

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from echelon.arrays import FloatArray
from echelon.codes import tracker
from echelon.delays import Delay
from echelon.errors import ArgumentError
from echelon.schemes import CodedPlan


def complete_by_span(
    plan: CodedPlan, laws: Sequence[Delay], links: FloatArray, rounds: int, rng: Generator
) -> FloatArray:
    """Return completion times of independent rounds, as the live master would see them."""
    if plan.pool is not None:
        raise ArgumentError("plan: not allowed; who takes what of a pool is not followed here")
    reach = [np.cumsum(costs) for costs in plan.costs]
    ends = np.full(rounds, np.inf)
    for number in range(rounds):
        arrivals = [
            (float(time), task.slot, task.row)
            for p, lane in enumerate(plan.lanes)
            if lane
            for task, time in zip(lane, _arrivals(laws[p], reach[p], plan.costs[p], rng) + links[p], strict=True)
        ]
        open_slots = {slot: tracker(code) for slot, code in enumerate(plan.codes)}
        for time, slot, row in sorted(arrivals):
            if slot in open_slots and open_slots[slot].add(row):
                del open_slots[slot]
                if not open_slots:
                    ends[number] = time
                    break
    return ends


def _arrivals(law: Delay, reach: FloatArray, costs: FloatArray, rng: Generator) -> FloatArray:
    if law.one_pace:
        paced: FloatArray = law.sample((1, 1), rng)[0, 0] * reach
        return paced
    return np.cumsum(law.sample((1, len(costs)), rng)[0] * costs)
