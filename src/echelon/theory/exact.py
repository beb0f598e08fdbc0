"""The exact law of a round, where lanes serve one slot each and no row is in two of them.

At time t lane p has sent N_p(t) messages, independently of the others. A slot is recovered once its lanes have sent
`threshold` of them, or one that is enough alone; slots are independent, so the law of the last is the product of all.
Where nothing is purged, the last message of every lane is awaited.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from echelon.arrays import FloatArray
from echelon.can import PLAIN, Can, Rules
from echelon.errors import NoClosedForm
from echelon.plan import Plan
from echelon.theory.iteration import TaskSums, cuts_of, iteration_law
from echelon.theory.tabulated import TabulatedCdf


class PacedSums(TaskSums, Protocol):
    """What this module also asks of a law."""

    @property
    def closed(self) -> bool:
        """Whether sums of tasks have a distribution function."""

    @property
    def independent_rounds(self) -> bool:
        """Whether rounds say nothing about each other."""

    @property
    def one_pace(self) -> bool:
        """Whether all tasks of a round take the same time."""


def exact_law(
    plan: Plan, laws: Sequence[PacedSums], links: FloatArray, *, purge: bool = True
) -> TabulatedCdf:  # fmt: skip
    """Return the law of the time at which every slot of the plan is recovered; `NoClosedForm` where there is none.

    Exact for gradient coding, fractional repetition, Lagrange coding and those uncorrelated designs, plain or hybrid,
    where fewer rows than the threshold are never enough, on workers that keep one pace in a round (mmc, (5)); and for
    tasks of whole parts under every law with closed sums.

    >>> from echelon.delays import RoundPace, ShiftedExponential
    >>> from echelon.schemes import gradient_coding
    >>> law = RoundPace(base=ShiftedExponential(shift=0.01, rate=10.0))
    >>> round(exact_law(gradient_coding(workers=40, load=10), [law] * 40, np.zeros(40)).mean, 4)
    1.5496
    """
    answer = can(plan, laws, Rules(purge=purge))
    if not answer:
        raise NoClosedForm(f"plan: no exact law, since {answer.why_not}; sample instead")
    active = [p for p, lane in enumerate(plan.lanes) if lane]
    if plan.unit_costs and (plan.counts_suffice or not purge):
        return iteration_law(laws, links, plan.counts, plan.slots[0].threshold if purge else plan.tasks)
    reach = {p: np.cumsum(plan.costs[p]) for p in active}
    lanes: list[list[int]] = [[p for p in active if plan.lanes[p][0].slot == s] for s in range(len(plan.slots))]
    # slots whose workers are alike have the same law, and are worked out once
    groups: dict[object, list[int]] = {}
    for s, members in enumerate(lanes):
        kind = (plan.slots[s], tuple((laws[p], links[p], tuple(reach[p]), tuple(_steps(plan, p))) for p in members))
        groups.setdefault(kind, []).append(s)

    def all_sent(times: FloatArray) -> FloatArray:
        whole = np.ones(len(times))
        for p in active:
            whole *= _sent(laws[p], reach[p][-1:], times - links[p])[:, 0]
        return whole

    def recovered(times: FloatArray) -> FloatArray:
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
    cdf = recovered if purge else all_sent
    return TabulatedCdf(cdf, start=start, cuts=np.concatenate(cuts), decay=decay)


def can(plan: Plan, laws: Sequence[PacedSums], rules: Rules = PLAIN) -> Can:
    """Return whether a plan has an exact law on workers of these laws, or why not."""
    if plan.pool is not None:
        return Can("which worker takes what from its pool is decided during the round")
    if plan.ending is not None:
        return Can("it ends by a rule of its own, not when every slot is recovered")
    if rules.lend or rules.overlap:
        return Can("which workers are lent, or work ahead, is decided during the round")
    for p, lane in enumerate(plan.lanes):
        if lane and not (laws[p].closed and laws[p].independent_rounds):
            return Can(f"the law of worker {p} has no closed sums, or it has memory")
        if not laws[p].one_pace and (plan.costs[p] % 1 != 0).any():
            return Can(f"a task of lane {p} does not cost a whole number of parts")
    return _slots_are_apart(plan) if rules.purge else Can()


def _slots_are_apart(plan: Plan) -> Can:
    """Return whether slots are independent of each other, and each is recovered by counting what lanes have sent."""
    for s, slot in enumerate(plan.slots):
        if plan.codes and not slot.counting:
            return Can(f"fewer than {slot.threshold} rows may be enough for slot {s}")
    seen: set[tuple[int, int]] = set()
    for p, lane in enumerate(plan.lanes):
        if len({task.slot for task in lane}) > 1:
            return Can(f"lane {p} serves several slots")
        for task in lane:
            enough = plan.slots[task.slot].threshold == 1 or task.row in plan.slots[task.slot].alone
            if (task.slot, task.row) in seen and not enough:
                return Can(f"row {task.row} of slot {task.slot} is in several lanes")
            seen.add((task.slot, task.row))
    return Can()


def _steps(plan: Plan, p: int) -> list[int]:
    """Return how far the slot is after each message of a lane, in rows, at most its threshold."""
    slot = plan.slots[plan.lanes[p][0].slot]
    steps, far = [], 0
    for task in plan.lanes[p]:
        far = slot.threshold if task.row in slot.alone else min(far + 1, slot.threshold)
        steps.append(far)
    return steps


def _sent(law: PacedSums, reach: FloatArray, times: FloatArray) -> FloatArray:
    """Return P(at least j messages by t), shape (times, messages), for j from 1 on: they need `reach` parts."""
    if not law.one_pace:
        parts = reach.astype(np.int64)
        return law.sums(range(int(parts[0]), int(parts[-1]) + 1), times)[:, parts - parts[0]]
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
        return cuts_of(law, range(int(reach[0]), int(reach[-1]) + 1))
    return np.outer(cuts_of(law, range(1, 2)), reach).ravel()
