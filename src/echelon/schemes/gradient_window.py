"""The rounds of a chain of gradients: what each round plans depends on what came back in earlier ones.

    window = GradientWindow(scheme)
    plan = window.open(gradient=7)              # the next round, which begins gradient 7
    finished = window.close(received, settled)  # what came of it, and which slots are recovered

Nothing here computes or reads a clock, as in `Window` for products.
"""

from collections.abc import Collection, Sequence

import numpy as np

from echelon import checks
from echelon.arrays import BoolArray
from echelon.endings import WAITING, LaneEnding
from echelon.errors import ArgumentError
from echelon.plan import Plan, Slot, Task
from echelon.schemes.gradient_chain import GradientChain, Underway
from echelon.schemes.history import History, missed


class GradientPlan(Plan):
    """The plan of one round of a chain: slot s is for unit ``units[s][1]`` of gradient ``units[s][0]``."""

    units: tuple[tuple[int, int], ...]

    def __init__(
        self,
        units: Sequence[tuple[int, int]],
        slots: Sequence[Slot],
        lanes: Sequence[Sequence[Task]],
        ending: LaneEnding,
    ) -> None:
        super().__init__(slots, lanes, ending=ending)
        object.__setattr__(self, "units", tuple(units))


class GradientWindow:
    """What is known about the gradients under way.

    >>> from echelon.schemes import sr_sgc
    >>> window = GradientWindow(sr_sgc(3, workers_at_once=2, length=1, window=2))
    >>> plan = window.open(0)
    >>> plan.slots[0].threshold, [[task.row for task in lane] for lane in plan.lanes], plan.ending.limits
    (2, [[0], [1], [2]], (((0, 1, 2), 2),))
    >>> window.close([(0, 1)], [])
    []
    >>> plan = window.open(1)
    >>> plan.units, [[(task.slot, task.row) for task in lane] for lane in plan.lanes], plan.ending.due
    (((1, 0), (0, 0)), [[(1, 0)], [(0, 1)], [(0, 2)]], (1,))
    """

    def __init__(self, scheme: GradientChain) -> None:
        self.scheme = checks.instance("scheme", scheme, GradientChain)  # type: ignore[type-abstract]
        self._history = History(scheme.workers, scheme.model)
        self._open: list[Underway] = []  # the newest first
        self._plan: GradientPlan | None = None

    @property
    def history(self) -> BoolArray:
        """Stragglers of the last rounds, shape (rounds, workers)."""
        return self._history.stragglers

    @property
    def gradients(self) -> list[int]:
        """Gradients that are not finished, the newest first."""
        return [gradient.number for gradient in self._open]

    def open(self, gradient: int | None = None, cost: float = 1.0) -> GradientPlan | None:
        """Return the plan of the next round, which may begin another gradient; None where there is nothing to do.

        cost: what the whole gradient costs on one worker. Rounds in which nothing is to be done pass at once.
        """
        assert self._plan is None, "the round before is still open"
        if gradient is not None:
            if any(known.number >= gradient for known in self._open):
                raise ArgumentError(f"gradient: {gradient} is not allowed; numbers of gradients must grow")
            self._open.insert(0, Underway(gradient, cost, [set() for _ in range(self.scheme.units)]))
        while self._open:
            plan = self._next()
            if plan.tasks:
                self._plan = plan
                return plan
            self._pass(np.zeros(self.scheme.workers, dtype=bool))
        return None

    def came(self, gradient: int, unit: int) -> tuple[int, ...]:
        """Return the rows of a unit of an unfinished gradient that came in earlier rounds."""
        (found,) = (known for known in self._open if known.number == gradient)
        return tuple(sorted(found.came[unit]))

    def _next(self) -> GradientPlan:
        scheme, codes = self.scheme, self.scheme.codes
        units, slots, due = list[tuple[int, int]](), list[Slot](), list[int]()
        lanes: list[list[Task]] = [[] for _ in range(scheme.workers)]
        shared = scheme.minis(self._open, scheme.model.longest(self.history) == 0)
        for known, minis in zip(self._open, shared, strict=True):
            at = {unit: len(slots) + i for i, unit in enumerate(scheme.units_at(known.age))}
            for unit, code in zip(at, codes, strict=True):
                came = known.came[unit]
                units.append((known.number, unit))
                slots.append(
                    Slot(rows=code.rows, threshold=max(1, code.threshold - len(came)), known=tuple(sorted(came)))
                )
            for mini in minis:
                lanes[mini.place].append(Task(slot=at[mini.unit], row=mini.row, cost=known.cost * scheme.share))
            due += [at[unit] for unit in scheme.due_at(known.age) if unit not in known.done]
        ending = WAITING[scheme.waiting](due=tuple(due), limits=self._history.limits(), tolerance=scheme.tolerance)
        return GradientPlan(units, slots, lanes, ending)

    def close(self, received: Collection[tuple[int, int]], settled: Collection[int]) -> list[int]:
        """Take in what came of a round: rows as (slot, row), and slots that are recovered. Return finished gradients.

        A straggler is a worker with a row that did not come, of a unit that is not recovered.
        """
        plan, came = self._plan, set(received)
        assert plan is not None, "no round is open"
        self._plan = None
        by_number = {known.number: known for known in self._open}
        for slot, row in came:
            number, unit = plan.units[slot]
            by_number[number].came[unit].add(row)
        for slot in settled:
            number, unit = plan.units[slot]
            by_number[number].done.add(unit)
        stragglers = np.zeros(self.scheme.workers, dtype=bool)
        stragglers[[place for place, _ in missed(plan, came, settled)]] = True
        return self._pass(stragglers)

    def _pass(self, stragglers: BoolArray) -> list[int]:
        """Let a round pass; return the gradients that are finished."""
        finished = [known.number for known in self._open if len(known.done) == self.scheme.units]
        self._open = [known for known in self._open if known.number not in finished]
        for known in self._open:
            known.age += 1
        self._history.note(stragglers)
        return finished
