"""The plan of a round: slots that must be recovered, and lanes of tasks, one lane per worker.

A slot is recovered when `threshold` distinct rows of it have arrived; the round ends when every slot is, unless the
plan has an ending of its own (`echelon.endings`).
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.endings import Ending
from echelon.errors import ArgumentError
from echelon.html import table
from echelon.reprs import short_repr


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Something to recover: `rows` coded combinations exist, any `threshold` distinct ones are enough.

    alone: rows that are enough by themselves, such as the plain sum beside coded ones.
    counting: whether fewer than `threshold` of the others never are.
    known: rows that came in rounds before and tell nothing new.
    """

    rows: int
    threshold: int
    alone: tuple[int, ...] = ()
    counting: bool = True
    known: tuple[int, ...] = ()

    __repr__ = short_repr

    def __post_init__(self) -> None:
        checks.whole("rows", self.rows, least=1)
        checks.whole("threshold", self.threshold, least=1)
        if self.threshold > self.rows:
            raise ArgumentError(
                f"threshold: {self.threshold} is not allowed; must be at most the number of rows, {self.rows}"
            )
        if not isinstance(self.alone, tuple):
            raise ArgumentError(f"alone: {self.alone!r} is not allowed; must be a tuple of rows")
        for row in self.alone:
            checks.whole("alone", row, least=0, most=self.rows - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One step of a worker: compute what one row of one slot still lacks, at `cost` parts, and send it."""

    slot: int
    row: int
    cost: float = 1.0


AHEAD = 1 << 20  # slots of the next job are numbered from here on: work ahead, for idle workers


def is_ahead(slot: int) -> bool:
    """Return whether a slot of a round belongs to the next job."""
    return slot >= AHEAD


def stopped_as(slot: int) -> int:
    """Return the number by which a slot is stopped: its own, or `AHEAD` for all of the next job's."""
    return min(slot, AHEAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Batches of tasks that no worker has yet: a worker with no more than `ahead` tasks left gets the next one.

    A task of a row that has arrived, or that the worker already has, is left out; so rows may appear twice, for
    workers that would be idle.
    """

    batches: tuple[tuple[Task, ...], ...]
    ahead: int = 0

    __repr__ = short_repr

    def __post_init__(self) -> None:
        checks.whole("ahead", self.ahead, least=0)
        for batch in checks.items("batches", self.batches):
            for task in checks.items("batches", batch):
                checks.instance("batches", task, Task)


@dataclass(frozen=True)
class Plan:
    """Slots and lanes: everything a round needs, with the true cost of every task.

    ending: when the round ends, where that is not when every slot is recovered.
    pool: tasks beyond the lanes, for workers that are done with their own.

    >>> plan = Plan([Slot(rows=3, threshold=2)], [[Task(slot=0, row=0), Task(slot=0, row=1)], [Task(slot=0, row=2)]])
    >>> plan.counts.tolist(), plan.tasks
    ([2, 1], 3)
    """

    slots: tuple[Slot, ...]
    lanes: tuple[tuple[Task, ...], ...]
    ending: Ending | None
    pool: Pool | None
    codes: ClassVar[tuple[Any, ...]] = ()  # of the slots; without, any `threshold` distinct rows are enough

    def __init__(
        self,
        slots: Sequence[Slot],
        lanes: Sequence[Sequence[Task]],
        *,
        ending: Ending | None = None,
        pool: Pool | None = None,
    ) -> None:
        made = tuple(checks.instance("slots", slot, Slot) for slot in checks.items("slots", slots))
        listed = tuple(tuple(checks.items("lanes", lane)) for lane in checks.items("lanes", lanes))
        object.__setattr__(self, "slots", made)
        object.__setattr__(self, "lanes", listed)
        object.__setattr__(self, "ending", ending)
        object.__setattr__(self, "pool", pool)
        if ending is not None:
            checks.instance("ending", ending, Ending)  # type: ignore[type-abstract]
        if pool is not None:
            checks.instance("pool", pool, Pool)
        if not self.slots or not self.lanes:
            raise ArgumentError("slots, lanes: empty is not allowed; a plan needs at least one slot and one lane")
        planned: list[set[int]] = [set() for _ in self.slots]
        named = [(f"lanes[{p}]", lane) for p, lane in enumerate(self.lanes)]
        for name, tasks in [*named, ("pool", self.pooled)]:
            for task in tasks:
                checks.instance(name, task, Task)
                if not 0 <= task.slot < len(self.slots) or not 0 <= task.row < self.slots[task.slot].rows:
                    raise ArgumentError(f"{name}: {task} is not allowed; there is no such slot or row")
                checks.number(f"{name}: cost", task.cost, above=0)
                planned[task.slot].add(task.row)
        self._check_ending()
        enough = [
            len(rows) >= slot.threshold or bool(rows & set(slot.alone))
            for slot, rows in zip(self.slots, planned, strict=True)
        ]
        for s in range(len(self.slots)) if ending is None else ending.due:
            if not enough[s]:
                raise ArgumentError(
                    f"slots[{s}]: {len(planned[s])} planned rows are not allowed; must reach threshold "
                    f"{self.slots[s].threshold}"
                )
        least = 0 if ending is None else ending.needed(sum(map(bool, planned)))
        if sum(enough) < least:
            raise ArgumentError(
                f"slots: {sum(enough)} with enough planned rows are not allowed; must be {least}, as the ending says"
            )

    def __repr__(self) -> str:
        first, many = self.slots[0], f"{len(self.slots)} slots, the first " if len(self.slots) > 1 else ""
        pool = "" if self.pool is None else f", pooled {len(self.pooled)}"
        return (
            f"<{type(self).__name__}: {many}any {first.threshold} of {first.rows} rows; lanes {len(self.lanes)}, "
            f"tasks {self.tasks}{pool}>"
        )

    def _repr_html_(self) -> str:
        rows = [
            [p, len(lane), float(costs.sum()), len({task.slot for task in lane})]
            for p, (lane, costs) in enumerate(zip(self.lanes, self.costs, strict=True))
        ]
        return table(repr(self)[1:-1], ["place", "tasks", "parts", "slots served"], rows)

    @cached_property
    def counts(self) -> IntArray:
        """Number of tasks in each lane, shape (workers,)."""
        return np.array([len(lane) for lane in self.lanes], dtype=np.int64)

    @property
    def sums(self) -> bool:
        """Whether every slot has a code that gives one sum, so that fewer rows are known to come near it."""
        return bool(self.codes) and all(code.sums and code.pieces == 1 for code in self.codes)

    def ended(self, ending: Ending | None) -> Self:
        """Return the same plan with another ending."""
        made = copy(self)
        object.__setattr__(made, "ending", ending)
        made._check_ending()
        return made

    def _check_ending(self) -> None:
        if self.ending is None:
            return
        if self.pool is not None and not self.ending.approximate:
            raise ArgumentError(
                "pool: not allowed together with an ending that leaves slots to later rounds; it is for rounds that "
                "recover every slot, or come near"
            )
        self.ending.check(slots=len(self.slots), lanes=len(self.lanes), sums=self.sums)

    @property
    def tasks(self) -> int:
        """Number of tasks in all lanes."""
        return int(self.counts.sum())

    @property
    def draws(self) -> int:
        """Number of task times that a round may need: any worker may take any row of the pool, once."""
        return self.tasks + len({(task.slot, task.row) for task in self.pooled}) * len(self.lanes)

    @cached_property
    def pooled(self) -> tuple[Task, ...]:
        """Tasks of the pool, one after another."""
        return () if self.pool is None else tuple(task for batch in self.pool.batches for task in batch)

    @cached_property
    def costs(self) -> tuple[FloatArray, ...]:
        """Cost in parts of each task, one array per lane."""
        return tuple(np.array([task.cost for task in lane], dtype=np.float64) for lane in self.lanes)

    @cached_property
    def unit_costs(self) -> bool:
        """Whether every task costs exactly one part."""
        return all(bool((costs == 1).all()) for costs in self.costs)

    @cached_property
    def counts_suffice(self) -> bool:
        """Whether there is one slot and every row is in one lane: then the K-th arrival ends the round."""
        one_kind = len(self.slots) == 1 and not self.slots[0].alone and self.pool is None
        return one_kind and len({task.row for lane in self.lanes for task in lane}) == self.tasks
