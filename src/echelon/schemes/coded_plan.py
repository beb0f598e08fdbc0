"""A plan whose slots have codes: what the live runtime needs beyond slots and lanes to compute and decode rows."""

from collections.abc import Sequence

import numpy as np

from echelon import checks
from echelon.codes import Code
from echelon.endings import Ending
from echelon.errors import ArgumentError
from echelon.plan import Plan, Pool, Slot, Task

LEAST = 0.01  # parts: a row whose parts are all there must still be combined and sent


class CodedPlan(Plan):
    """A plan with one code per slot.

    codes: how the rows of each slot are made of its parts.
    chunks: which chunk of the data part j of slot s is, ``chunks[s][j]``; by default slots follow one another.

    >>> from echelon.codes import uncoded
    >>> code = uncoded(parts=2)
    >>> plan = CodedPlan([code, code], [[Task(slot=s, row=row) for s in (0, 1)] for row in (0, 1)])
    >>> plan.chunks, plan.parts
    (((0, 1), (2, 3)), 4)
    """

    codes: tuple[Code, ...]  # type: ignore[misc]
    chunks: tuple[tuple[int, ...], ...]

    def __init__(
        self,
        codes: Sequence[Code],
        lanes: Sequence[Sequence[Task]],
        chunks: Sequence[Sequence[int]] | None = None,
        *,
        ending: Ending | None = None,
        pool: Pool | None = None,
    ) -> None:
        codes = [checks.instance("codes", code, Code) for code in checks.items("codes", codes)]
        slots = {code: _slot(code) for code in codes}
        object.__setattr__(self, "codes", tuple(codes))
        super().__init__([slots[code] for code in codes], lanes, ending=ending, pool=pool)
        if chunks is None:
            ends = np.cumsum([code.parts for code in codes]).tolist()
            chunks = [range(end - code.parts, end) for code, end in zip(codes, ends, strict=True)]
        chunks = [checks.items("chunks", some) for some in checks.items("chunks", chunks)]
        if [len(some) for some in chunks] != [code.parts for code in codes]:
            raise ArgumentError("chunks: must name one chunk for every part of every slot's code")
        for chunk in (chunk for some in chunks for chunk in some):
            checks.whole("chunks", chunk, least=0)
        object.__setattr__(self, "chunks", tuple(tuple(some) for some in chunks))

    __eq__, __hash__ = object.__eq__, object.__hash__  # plans with codes are compared by identity, not by their numbers

    @property
    def parts(self) -> int:
        """Number of chunks that the data must be cut into."""
        return 1 + max(chunk for some in self.chunks for chunk in some)


def _slot(code: Code) -> Slot:
    """Return the slot that a code protects; a row that is the one wanted value is enough alone."""
    if code.counting:
        return Slot(rows=code.rows, threshold=code.threshold)
    sums = (code.matrix == code.target).all(axis=1) if len(code.target) == 1 else np.zeros(code.rows, dtype=bool)
    # beside rows that are enough alone the others may count; without such rows the code has said that they don't
    counting = sums.all() or (sums.any() and np.linalg.matrix_rank(code.matrix[~sums]) == code.threshold)
    alone = tuple(np.flatnonzero(sums).tolist())
    return Slot(rows=code.rows, threshold=code.threshold, alone=alone, counting=bool(counting))


def lane_tasks(codes: Sequence[Code], chunks: Sequence[Sequence[int]], rows: Sequence[tuple[int, int]]) -> list[Task]:
    """Return the tasks of one worker, (slot, row) by (slot, row), at their true cost.

    A worker keeps the results of parts that later rows of its lane need: no part is computed twice.
    """
    tasks: list[Task] = []
    kept: set[int] = set()
    for slot, row in rows:
        code = codes[slot]
        if code.precoded:
            tasks.append(Task(slot=slot, row=row))
            continue
        needed = {chunks[slot][part] for part in np.flatnonzero(code.support[row]).tolist()}
        tasks.append(Task(slot=slot, row=row, cost=max(LEAST, float(len(needed - kept)))))
        kept |= needed
    return tasks
