"""Groups of workers dealt out anew before each round, so that those who were late are spread over the groups.

A plan with clusters ends with its slowest one. Where the same workers are late in one round after another, two of them
in one cluster hold up every round, although each other cluster could do without one. With data of several clusters on
each worker they can change places (Buyukates, Ozfatura, Ulukus and Gunduz: gradient coding with dynamic clustering).
"""

from collections.abc import Collection

import numpy as np

from echelon import checks
from echelon.errors import ArgumentError
from echelon.plan import Plan
from echelon.schemes.coded_plan import CodedPlan


class Regrouping:
    """Who may take which lane of a plan, and who takes it next.

    plan: with groups of one size: workers whose lanes have slots in common. Lane q of one group is the counterpart of
        lane q of any other.
    held: groups that each worker holds data of: its own and those that follow, in a circle. It needs `held` times the
        data of its lane, and takes the place that it has in its own group in any of them.

    Position by position, workers are matched with groups so that late ones go where fewest late ones are so far, and
    others stay where they were. Every group is complete in every round. With data of all groups the numbers of late
    workers in two groups then differ by one at most.

    Differs from paper: a worker keeps its position, so that it needs data for one lane per group, and matching, not
    rounds of choosing, says who goes where.

    >>> from echelon.schemes import multi_message
    >>> grouping = Regrouping(multi_message(workers=4, load=2, clusters=2, order=1), held=2)
    >>> grouping.deal({0, 1})                      # both of the first group were late: one changes places
    (0, 3, 2, 1)
    >>> [lane[0].slot for lane in grouping.plan.lanes]
    [0, 1, 1, 0]
    """

    def __init__(self, plan: CodedPlan, held: int) -> None:
        self.plan = checks.instance("plan", plan, CodedPlan)
        self._lanes = plan.lanes
        self._groups = _groups(plan)
        count, sizes = len(self._groups), {len(group) for group in self._groups}
        if plan.pool is not None or plan.ending is not None or count < 2 or len(sizes) > 1:
            raise ArgumentError(
                f"plan: {count} groups of workers, of {sorted(sizes)}, are not allowed for regrouping; must be at "
                "least two of one size, without a pool or an ending (multi_message or gradient_coding with clusters)"
            )
        self.held = checks.whole("held", held, least=2, most=count)
        self._at = {place: group for group, places in enumerate(self._groups) for place in places}

    def deal(self, late: Collection[int]) -> tuple[int, ...]:
        """Make the plan of the next round, after a round in which these places were late; return each place's lane."""
        from scipy.optimize import linear_sum_assignment

        count = len(self._groups)
        holding = np.zeros(count)  # late workers in each group so far
        lanes = list(range(len(self._lanes)))
        at = dict(self._at)
        for counterparts in zip(*self._groups, strict=True):
            costs = np.full((count, count), np.inf)
            for home, place in enumerate(counterparts):
                reach = (home + np.arange(self.held)) % count
                costs[home, reach] = holding[reach] * (place in late) + _MOVE * (reach != self._at[place])
            for home, group in zip(*linear_sum_assignment(costs), strict=True):
                place = counterparts[int(home)]
                at[place], lanes[place] = int(group), counterparts[int(group)]
                holding[group] += place in late
        if at != self._at:
            self._at = at
            self.plan = CodedPlan(self.plan.codes, [self._lanes[lane] for lane in lanes], self.plan.chunks)
        return tuple(lanes)


_MOVE = 1e-6  # what changing groups costs, beside one more late worker in a group


def _groups(plan: Plan) -> list[list[int]]:
    """Return the places whose lanes have slots in common, in the order of their first."""
    groups: list[tuple[set[int], list[int]]] = []
    for place, lane in enumerate(plan.lanes):
        slots, places = {task.slot for task in lane}, [place]
        for other in [group for group in groups if group[0] & slots]:
            groups.remove(other)
            slots, places = slots | other[0], [*other[1], *places]
        groups.append((slots, places))
    return sorted(sorted(places) for _, places in groups)
