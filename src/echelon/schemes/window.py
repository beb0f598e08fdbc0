"""The rounds of a chain of products: what each round plans depends on what came back in earlier ones.

    window = Window(scheme)
    plan = window.open(product=7)               # the next round, which begins product 7
    finished = window.close(received, settled)  # what came of it, and which slots are recovered

Nothing here computes or reads a clock: the simulator, the master in virtual time and the live stream all use it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from echelon import checks
from echelon.arrays import BoolArray
from echelon.endings import WAITING, LaneEnding
from echelon.errors import ArgumentError
from echelon.plan import Plan, Slot, Task
from echelon.schemes.history import History, missed
from echelon.schemes.sequential import Sequential


class RoundPlan(Plan):
    """The plan of one round of a chain: slot s is for product ``products[s]``, the newest first."""

    products: tuple[int, ...]

    def __init__(
        self, products: Sequence[int], slots: Sequence[Slot], lanes: Sequence[Sequence[Task]], ending: LaneEnding
    ) -> None:
        super().__init__(slots, lanes, ending=ending)
        object.__setattr__(self, "products", tuple(products))


@dataclass(slots=True)
class _Open:
    """A product that is not finished.

    age: rounds since its first. rows: results that came, in order. coded: the next row that was never given out.
    plain: the next plain product that was never given out (IDIP). failed: rows that workers owe, by place (IDIP).
    """

    product: int
    load: float
    coded: int
    age: int = 0
    plain: int = 0
    rows: list[int] = field(default_factory=list)
    failed: dict[int, int] = field(default_factory=dict)


class Window:
    """What is known about the products under way.

    >>> from echelon.schemes import diagonal_interleaved
    >>> window = Window(diagonal_interleaved(2, x=1, y=3, delay=1))
    >>> plan = window.open(0)
    >>> plan.lanes[1], plan.ending.due
    ((Task(slot=0, row=1, cost=0.3333333333333333),), ())
    >>> window.close([(0, 1)], [])
    []
    >>> plan = window.open(1)
    >>> plan.products, [(task.slot, task.row) for task in plan.lanes[0]], plan.ending.due
    ((1, 0), [(0, 0), (1, 2), (1, 4)], (1,))
    """

    def __init__(self, scheme: Sequential) -> None:
        self.scheme = checks.instance("scheme", scheme, Sequential)
        self._history = History(scheme.workers, scheme.model)
        self._open: list[_Open] = []  # the newest first
        self._plan: RoundPlan | None = None

    @property
    def history(self) -> BoolArray:
        """Stragglers of the last rounds, shape (rounds, workers)."""
        return self._history.stragglers

    @property
    def products(self) -> list[int]:
        """Products that are not finished, the newest first."""
        return [product.product for product in self._open]

    def rows_of(self, product: int) -> tuple[int, ...]:
        """Return the rows of an unfinished product that came in earlier rounds."""
        (found,) = (known for known in self._open if known.product == product)
        return tuple(found.rows)

    def open(self, product: int | None = None, load: float = 1.0) -> RoundPlan | None:
        """Return the plan of the next round, which may begin another product; None where there is nothing to do.

        load: what the whole product costs on one worker. Tasks cost their share of it.
        """
        assert self._plan is None, "the round before is still open"
        if product is not None:
            if any(known.product >= product for known in self._open):
                raise ArgumentError(f"product: {product} is not allowed; numbers of products must grow")
            first = 0 if self.scheme.model is None else self.scheme.threshold
            self._open.insert(0, _Open(product, load, first))
        if not self._open:
            return None
        lanes: list[list[Task]] = [[] for _ in range(self.scheme.workers)]
        safe = None if self.scheme.model is None else self.scheme.model.longest(self.history)
        for slot, known in enumerate(self._open):
            cost = known.load * self.scheme.share
            rows = self._fresh(known) if safe is None else self._given(known, safe >= self._rounds_left(known))
            for lane, some in zip(lanes, rows, strict=True):
                lane.extend(Task(slot=slot, row=row, cost=cost) for row in some)
        slots = [
            Slot(rows=self.scheme.rows, threshold=self._missing(known), known=tuple(known.rows)) for known in self._open
        ]
        due = tuple(slot for slot, known in enumerate(self._open) if known.age == self.scheme.delay)
        ending = WAITING[self.scheme.waiting](due=due, limits=self._history.limits(), tolerance=self.scheme.tolerance)
        self._plan = RoundPlan(self.products, slots, lanes, ending)
        return self._plan

    def ahead(self) -> dict[int, range]:
        """Return rows that the next round will give out, of products that this round does not finish."""
        return {
            known.product: range(known.coded, known.coded + self.scheme.workers)
            for known in self._open
            if known.age < self.scheme.delay
        }

    def _missing(self, known: _Open) -> int:
        # a product whose results turned out too noisy has the threshold and still lacks one
        return max(1, self.scheme.threshold - len(known.rows))

    def _rounds_left(self, known: _Open) -> int:
        return self.scheme.delay - known.age + 1

    def _fresh(self, known: _Open) -> list[list[int]]:
        """Return new rows of a product for each worker (sequential, Algorithm 1)."""
        each = 1 if known.age < self.scheme.delay else self.scheme.due_tasks(self._missing(known))
        first, known.coded = known.coded, known.coded + each * self.scheme.workers
        return [list(range(first + place, known.coded, self.scheme.workers)) for place in range(self.scheme.workers)]

    def _given(self, known: _Open, may_be_lost: BoolArray) -> list[list[int]]:
        """Return one row of a product for each worker (sequential, Algorithm 2): what it owes, plain or coded.

        may_be_lost: whether each worker can straggle in every round that the product has left (line 13). Whether plain
        products are left for all workers (line 9) is decided once per round.
        """
        others = [place for place in range(self.scheme.workers) if place not in known.failed]
        enough = self.scheme.threshold - known.plain >= len(others)
        rows = dict(known.failed)
        for place in others:
            if enough and not may_be_lost[place]:
                rows[place], known.plain = known.plain, known.plain + 1
            else:
                rows[place], known.coded = known.coded, known.coded + 1
        return [[rows[place]] for place in range(self.scheme.workers)]

    def close(self, received: Collection[tuple[int, int]], settled: Collection[int]) -> list[int]:
        """Take in what came of a round: rows as (slot, row), and slots that are recovered. Return finished products.

        A straggler is a worker with a row that did not come, of a product that is not finished.
        """
        plan, came = self._plan, set(received)
        assert plan is not None, "no round is open"
        self._plan = None
        finished = [plan.products[slot] for slot in sorted(settled)]
        straggled = np.zeros(self.scheme.workers, dtype=bool)
        for slot, known in enumerate(self._open):
            known.rows += [row for at, row in sorted(came) if at == slot and row not in known.rows]
            known.failed = {}
        for place, (slot, row) in missed(plan, came, settled):
            straggled[place] = True
            self._open[slot].failed[place] = row
        self._open = [known for slot, known in enumerate(self._open) if slot not in settled]
        for known in self._open:
            known.age += 1
        self._history.note(straggled)
        return finished
