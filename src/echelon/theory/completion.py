"""The exact law of a round of several slots, where lanes serve one slot each and no row is in two of them.

At time t lane p has sent N_p(t) messages, independently of the others. A slot is recovered once its lanes have sent
`threshold` of them, or one that is enough alone; slots are independent, so the law of the last is the product of all.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from echelon.arrays import FloatArray
from echelon.errors import NoClosedForm
from echelon.plan import Plan
from echelon.theory.iteration import TaskSums, cuts_of
from echelon.theory.tabulated import TabulatedCdf


class PacedSums(TaskSums, Protocol):
    """What this module also asks of a law."""

    @property
    def closed(self) -> bool:
        """Whether sums of tasks have a distribution function."""

    @property
    def independent_rounds(self) -> bool:
        """Whether rounds say nothing of each other."""

    @property
    def one_pace(self) -> bool:
        """Whether all tasks of a round take the same time."""


def completion_law(plan: Plan, laws: Sequence[PacedSums], links: FloatArray) -> TabulatedCdf:
    """Return the law of the time at which every slot of the plan is recovered; `NoClosedForm` where there is none.

    Exact for gradient coding, fractional repetition, Lagrange coding and those uncorrelated designs, plain or hybrid,
    of which fewer rows than the threshold never do, on workers that keep one pace a round (mmc, (5)); and for tasks of
    cost one under every law with closed sums.

    >>> from echelon.delays import RoundPace, ShiftedExponential
    >>> from echelon.schemes import gradient_coding
    >>> law = RoundPace(base=ShiftedExponential(shift=0.01, rate=10.0))
    >>> round(completion_law(gradient_coding(workers=40, load=10), [law] * 40, np.zeros(40)).mean, 4)
    1.5496
    """
    why = _obstacle(plan, laws)
    if why:
        raise NoClosedForm(f"plan: no exact law, since {why}; sample instead")
    active = [p for p, lane in enumerate(plan.lanes) if lane]
    reach = {p: np.cumsum(plan.costs[p]) for p in active}
    lanes: list[list[int]] = [[p for p in active if plan.lanes[p][0].slot == s] for s in range(len(plan.slots))]
    # slots whose workers are alike have the same law, and are worked out once
    groups: dict[object, list[int]] = {}
    for s, members in enumerate(lanes):
        kind = (plan.slots[s], tuple((laws[p], links[p], tuple(reach[p]), tuple(_steps(plan, p))) for p in members))
        groups.setdefault(kind, []).append(s)

    def cdf(times: FloatArray) -> FloatArray:
        whole = np.ones(len(times))
        for alike in groups.values():
            members = lanes[alike[0]]
            left = np.zeros((len(times), plan.slots[alike[0]].threshold))
            left[:, 0] = 1.0
            for p in members:
                left = _advance(left, _sent(laws[p], reach[p], times - links[p]), _steps(plan, p))
            whole *= (1 - left.sum(axis=1)) ** len(alike)
        return np.clip(whole, 0.0, 1.0)

    start = max(float(links[p] + reach[p][-1] * laws[p].mean) for p in active)
    decay = max(float(reach[p][-1] * (laws[p].std ** 2 / laws[p].mean + laws[p].mean)) for p in active)
    cuts = [links[p] + _cuts(laws[p], reach[p]) for p in active]
    return TabulatedCdf(cdf, start=start, cuts=np.concatenate(cuts), decay=decay)


def _obstacle(plan: Plan, laws: Sequence[PacedSums]) -> str:
    """Return why a plan has no exact law on workers of these laws; empty where it has one."""
    seen: set[tuple[int, int]] = set()
    if plan.pool is not None:
        return "it has a pool"
    for s, slot in enumerate(plan.slots):
        if not slot.counting:
            return f"fewer than {slot.threshold} rows may do for slot {s}"
    for p, lane in enumerate(plan.lanes):
        if len({task.slot for task in lane}) > 1:
            return f"lane {p} serves several slots"
        if lane and not (laws[p].closed and laws[p].independent_rounds):
            return f"the law of worker {p} has no closed sums, or memory"
        if not laws[p].one_pace and any(task.cost != 1 for task in lane):
            return f"the tasks of lane {p} cost different times"
        for task in lane:
            enough = plan.slots[task.slot].threshold == 1 or task.row in plan.slots[task.slot].alone
            if (task.slot, task.row) in seen and not enough:
                return f"row {task.row} of slot {task.slot} is in several lanes"
            seen.add((task.slot, task.row))
    return ""


def has_completion_law(plan: Plan, laws: Sequence[PacedSums]) -> bool:
    """Return whether `completion_law` knows the plan on workers of these laws."""
    return not _obstacle(plan, laws)


def _steps(plan: Plan, p: int) -> list[int]:
    """Return how far the slot is after each message of a lane, in rows, at most its threshold."""
    slot = plan.slots[plan.lanes[p][0].slot]
    steps, far = [], 0
    for task in plan.lanes[p]:
        far = slot.threshold if task.row in slot.alone else min(far + 1, slot.threshold)
        steps.append(far)
    return steps


def _sent(law: PacedSums, reach: FloatArray, times: FloatArray) -> FloatArray:
    """Return P(at least j messages by t), shape (times, messages), for j from 1 on."""
    if not law.one_pace:
        return law.sums(range(1, len(reach) + 1), times)
    scaled = (times[:, None] / reach).ravel()
    return law.sums(range(1, 2), scaled).reshape(len(times), len(reach))


def _advance(left: FloatArray, sent: FloatArray, steps: list[int]) -> FloatArray:
    """Return the masses of 0 … threshold - 1 rows after one more lane; all terms are positive, nothing cancels."""
    threshold = left.shape[1]
    after = left * (1 - sent[:, :1])
    for j, far in enumerate(steps):
        if far >= threshold:
            break
        here = sent[:, j] - (sent[:, j + 1] if j + 1 < len(steps) else 0.0)
        after[:, far:] += left[:, : threshold - far] * here[:, None]
    return after


def _cuts(law: PacedSums, reach: FloatArray) -> FloatArray:
    if not law.one_pace:
        return cuts_of(law, range(1, len(reach) + 1))
    return np.outer(cuts_of(law, range(1, 2)), reach).ravel()
