"""Plans of rounds: a job's own, or a split by the workers' speeds; and the owners of the lanes."""

import logging
from collections.abc import Mapping

from echelon.arrays import IntArray
from echelon.plan import Plan
from echelon.schemes import CodedPlan, Regrouping, coded_rows
from echelon.schemes.twice import twice
from echelon.stream.coding import Coded
from echelon.stream.defaults import PLANS, Defaults, lanes
from echelon.stream.observer import RoundSeen, Running
from echelon.stream.pacing import Pacing, observations

log = logging.getLogger("echelon.stream")

LATE = 2.0  # times the usual time per part: a worker that took longer is kept apart from others like it
DEAR = 1.5  # times the work of a round without redundancy: what costs more is told

Owned = tuple[Plan, tuple[int, ...]]  # a plan, and the owners of its lanes


class Planning:
    """Plans for the workers that are there; `places` of the living ones change under it."""

    def __init__(self, places: Mapping[int, int], pacing: Pacing, defaults: Defaults | None = None) -> None:
        self._places, self._pacing, self._defaults = places, pacing, defaults
        self._told = False

    def now(self, running: Running, workers: tuple[int, ...], made: Plan | None) -> Owned:
        """Return the plan of a job's next round: the one made for that round, its own, or a split by speed."""
        made = running.store.next_plan if made is None else made
        if made is not None:
            return self._by_place(_own(running, made) if running.verify == "vote" else made, workers)
        left, move_cost = running.rounds_left(), running.job.move_cost
        places, owners = self._in_order(workers)
        code = running.store.plain or running.codes[0]
        counts = self._pacing.counts(running.store.key, code, places, left, move_cost)
        if self._defaults is not None and running.job.own_code is None and running.verify is None:
            return self._defaults.plan(running, counts, places), owners
        return self._split(running, counts), owners

    def _split(self, running: Running, counts: IntArray) -> Plan:
        """Return the plan for a split; those that were made before are kept."""
        key, plans = tuple(counts.tolist()), running.store.plans
        if key not in plans:
            if len(plans) >= PLANS:
                plans.pop(next(iter(plans)))
            plan = coded_rows(running.codes[0], counts)
            self._tell_cost(running, plan)
            plans[key] = twice(plan) if running.verify == "vote" else plan
        return plans[key]

    def _tell_cost(self, running: Running, plan: Plan) -> None:
        """Say once what redundancy costs a sum, where that is much: each worker computes all that its rows combine."""
        parts = running.job.parts
        work = sum(float(costs.sum()) for costs in plan.costs) / parts
        if work > DEAR and not self._told and not running.codes[0].precoded and running.job.own_code is None:
            self._told = True
            log.warning(
                "%s: with this redundancy its rounds take %.1f times the work of its %d parts, because every row "
                "combines %d of them; leave redundancy out, unless workers are later than that",
                running.name,
                work,
                parts,
                round(running.codes[0].mean_costs[0]),
            )

    def observe(self, running: Running, seen: RoundSeen) -> None:
        """Note a round that is over; where its workers change groups, deal them out for the next."""
        store, held = running.store, running.job.regroup
        if held is not None and store.plan is not None and running.verify != "vote":
            store.regrouping = store.regrouping or Regrouping(store.plan, held)
            store.regrouping.deal(late_places(seen, self._places, self._pacing, len(store.plan.lanes)))
        if self._defaults is not None:
            self._defaults.observe(running, seen)

    def recoded(self, running: Running, workers: tuple[int, ...]) -> Coded | None:
        """Return the code by which a job's data is to be encoded anew before its next round; None: stay."""
        own = running.store.plan is not None or running.job.own_code is not None
        if self._defaults is None or own or running.verify is not None:
            return None
        return self._defaults.recoded(running, self._in_order(workers)[0])

    def ahead(self, running: Running, workers: tuple[int, ...]) -> Owned:
        """Return the plan of a job whose turn has not come."""
        made = running.store.next_plan
        if made is not None:
            return self._by_place(made, workers)
        places, owners = self._in_order(workers)
        counts = self._pacing.counts_for_next(running.store.plain or running.codes[0], places)
        if running.store.plain is not None:
            return lanes(running.codes[0], counts), owners
        return self._split(running, counts), owners

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


def late_places(seen: RoundSeen, places: Mapping[int, int], pacing: Pacing, count: int) -> set[int]:
    """Return the places that took more than `LATE` times as long per part as the median of a round, or are empty.

    One that finished nothing was at its first task for as long as is known, and is late if that alone is too long.
    """
    first = {
        places[worker]: lane[0].cost
        for worker, lane in zip(seen.workers, seen.lanes(), strict=True)
        if worker in places and lane
    }
    watched = observations(seen, places, pacing)
    paces = {one.place: one.busy / (one.done or first[one.place]) for one in watched}
    known = sorted(paces[one.place] for one in watched if one.done)
    usual = known[(len(known) - 1) // 2] if known else float("inf")
    late = {place for place, pace in paces.items() if pace > LATE * usual}
    return late | (set(range(count)) - set(places.values()))


def _own(running: Running, plan: Plan) -> Plan:
    """Return a job's own plan with every row in two lanes; what is in a pool is given out again when it came once."""
    if not isinstance(plan, CodedPlan) or plan.pool is not None:
        return plan
    plans = running.store.plans
    if () not in plans:
        plans[()] = twice(plan)
    return plans[()]
