"""Plans of rounds: a job's own, or a split by the workers' speeds; and the owners of the lanes."""

from collections.abc import Mapping

from echelon.arrays import IntArray
from echelon.plan import Plan
from echelon.schemes import coded_rows
from echelon.stream.coding import Coded
from echelon.stream.defaults import Defaults, lanes
from echelon.stream.observer import Running
from echelon.stream.pacing import Pacing

_PLANS = 32  # plans of a job that are kept

Owned = tuple[Plan, tuple[int, ...]]  # a plan, and the owners of its lanes


class Planning:
    """Plans for the workers that are there; `places` of the living ones change under it."""

    def __init__(self, places: Mapping[int, int], pacing: Pacing, defaults: Defaults | None = None) -> None:
        self._places, self._pacing, self._defaults = places, pacing, defaults

    def now(self, running: Running, workers: tuple[int, ...], made: Plan | None) -> Owned:
        """Return the plan of a job's next round: the one made for that round, its own, or a split by speed."""
        made = running.store.plan if made is None else made
        if made is not None:
            return self._by_place(made, workers)
        left, move_cost = running.rounds_left(), running.job.move_cost
        places, owners = self._in_order(workers)
        code = running.store.plain or running.codes[0]
        counts = self._pacing.counts(running.store.key, code, places, left, move_cost)
        if self._defaults is not None and running.job.own_code is None:
            return self._defaults.plan(running, counts, places), owners
        return _plan(running, counts), owners

    def recoded(self, running: Running, workers: tuple[int, ...]) -> Coded | None:
        """Return the code by which a job's data is to be encoded anew before its next round; None: stay."""
        if self._defaults is None or running.store.plan is not None or running.job.own_code is not None:
            return None
        return self._defaults.recoded(running, self._in_order(workers)[0])

    def ahead(self, running: Running, workers: tuple[int, ...]) -> Owned:
        """Return the plan of a job whose turn has not come."""
        if running.store.plan is not None:
            return self._by_place(running.store.plan, workers)
        places, owners = self._in_order(workers)
        counts = self._pacing.counts_for_next(running.store.plain or running.codes[0], places)
        return (_plan(running, counts) if running.store.plain is None else lanes(running.codes[0], counts)), owners

    def _by_place(self, plan: Plan, workers: tuple[int, ...]) -> Owned:
        """Return a job's own plan and the owners of its lanes: by place, so that a successor takes them over.

        A lane whose place is empty has no owner: the master shares out what is needed of it.
        """
        by_place = {self._places[worker]: worker for worker in workers}
        return plan, tuple(by_place.get(place, -1 - place) for place in range(len(plan.lanes)))

    def _in_order(self, workers: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the places of workers in order, and the workers there."""
        known = sorted((self._places[worker], worker) for worker in workers)
        return tuple(place for place, _ in known), tuple(worker for _, worker in known)


def _plan(running: Running, counts: IntArray) -> Plan:
    """Return the plan for a split; those that were made before are kept."""
    key, plans = tuple(counts.tolist()), running.store.plans
    if key not in plans:
        if len(plans) >= _PLANS:
            plans.pop(next(iter(plans)))
        plans[key] = coded_rows(running.codes[0], counts)
    return plans[key]
