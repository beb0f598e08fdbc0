"""Gradients by blocks of coordinates: iterations whose sum over chunks is recovered block by block."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from echelon.arrays import NumberArray
from echelon.codes import Code
from echelon.errors import ArgumentError
from echelon.jobs.base import IterativeJob, checked_function, checked_verify
from echelon.jobs.calling import call
from echelon.jobs.chunks import Chunks
from echelon.jobs.sums import rows_of
from echelon.schemes.block_coordinate import BlockPlan


class BlockJob(IterativeJob):
    """A job whose iteration is ``state = update(state, gradient)``, with a gradient that is recovered block by block.

    plan: the blocks and their redundancy, from `echelon.schemes.block_coordinate`, with one lane per worker of the
        stream; there must be as many chunks as workers.
    partial: ``partial(prepared, chunk, coordinates)`` returns the derivative by some coordinates, a slice, summed over
        a chunk; runs on the workers.
    prepare: ``prepare(state, chunk)`` returns what all blocks of a chunk share, such as the residuals of a linear
        model; computed once per round and chunk. Without it, `partial` gets the state.
    update: runs on the master, with the whole gradient.
    verify: how results are checked before each step, "spare" or "vote"; by default as the stream does.
    copies: give each call of `partial` and `prepare` its own copies of what it is given, which it may change.

    Messages of the first blocks leave a worker while it computes the later ones.

    >>> from echelon.schemes import block_coordinate
    >>> job = BlockJob(partial=lambda w, x, at: x[at] * w[at], update=lambda w, g: w - g, state=np.ones(3),
    ...                chunks=[np.ones(3)] * 2, plan=block_coordinate(2, [2, 1]), iterations=1)
    >>> job.parts
    2
    """

    by_slot = added = True

    def __init__(
        self,
        *,
        partial: Callable[[Any, Any, slice], Any],
        update: Callable[[Any, Any], Any],
        state: Any,
        plan: BlockPlan,
        chunks: Sequence[Any] | None = None,
        load: Callable[[int], Any] | None = None,
        prepare: Callable[[Any, Any], Any] | None = None,
        copies: bool = False,
        verify: str | None = None,
        iterations: int | None = None,
        until: Callable[[Any], bool] | None = None,
        name: str | None = None,
        tolerance: float | None = None,
    ) -> None:
        super().__init__(state=state, iterations=iterations, until=until, name=name, tolerance=tolerance)
        self.verify = checked_verify(verify)
        self.partial, self.update = checked_function("partial", partial), checked_function("update", update)
        self.prepare = None if prepare is None else checked_function("prepare", prepare)
        self.copies = bool(copies)
        if not isinstance(plan, BlockPlan):
            raise ArgumentError(f"plan: {type(plan).__name__} is not allowed; must come from schemes.block_coordinate")
        self.plan: BlockPlan = plan
        self._chunks = Chunks(chunks, load, None if load is None else len(plan.lanes))
        self.parts = len(self._chunks)
        if self.parts != len(plan.lanes):
            raise ArgumentError(f"chunks: {self.parts} are not allowed; must be {len(plan.lanes)}, one per worker")

    def code(self, redundancy: float, rng: Generator) -> Code:
        """Never called: the plan has the codes."""
        raise AssertionError("a block job brings its own codes")

    def work(self, codes: Sequence[Code]) -> "BlockWork":
        """Return what travels to the workers."""
        return BlockWork(codes, self.plan, self.partial, self.prepare, self._chunks, copies=self.copies)

    def chunk_of(self, part: int) -> int:
        """Return the chunk of a part, which is one block of its derivative."""
        return part % self.parts

    def request(self, state: Any) -> Any:
        """Return the state, with room for what the blocks of a chunk share in this round."""
        return state if self.prepare is None else RoundState(state)

    def step(self, state: Any, recovered: Any) -> Any:
        """Return the updated state, from the blocks of the gradient."""
        return self.update(state, np.concatenate(recovered))


class RoundState:
    """A state, and what was prepared from it: for one round, and one worker unless workers are threads."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._prepared: dict[int, Any] = {}

    def prepared(self, number: int, chunk: Any, prepare: Callable[[Any, Any], Any], *, copies: bool) -> Any:
        """Return what is prepared for a chunk; threads that ask at once may both compute it, with the same result."""
        if number not in self._prepared:
            self._prepared[number] = call(prepare, self._state, chunk, copies=copies)
        return self._prepared[number]


class BlockWork:
    """Derivatives by blocks on chunks, and which of them a row combines."""

    def __init__(
        self,
        codes: Sequence[Code],
        plan: BlockPlan,
        partial: Callable[[Any, Any, slice], Any],
        prepare: Callable[[Any, Any], Any] | None,
        chunks: Chunks,
        *,
        copies: bool = False,
    ) -> None:
        self._rows, self._blocks = rows_of(codes, plan.chunks), plan.blocks
        self._partial, self._prepare, self._chunks, self._copies = partial, prepare, chunks, copies

    def row(self, slot: int, row: int) -> tuple[Sequence[int], NumberArray]:
        """Return the parts of a row and their coefficients."""
        return self._rows[slot][row]

    def part(self, state: Any, part: int) -> Any:
        """Return the derivative by a block's coordinates on a chunk."""
        block, number = divmod(part, len(self._chunks))
        chunk = self._chunks[number]
        shared = state
        if self._prepare is not None:
            shared = state.prepared(number, chunk, self._prepare, copies=self._copies)
        return call(self._partial, shared, chunk, self._blocks[block], copies=self._copies)
