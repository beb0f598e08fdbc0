"""Iterations that are a sum over chunks of data: gradients, k-means, EM, power iteration."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import NumberArray
from echelon.codes import Code, cyclic, uncoded
from echelon.errors import ArgumentError
from echelon.jobs.base import IterativeJob, checked_function

MOST_CHUNKS = 10**4


class SumJob(IterativeJob):
    """A job whose iteration is ``state = update(state, sum of partial(state, chunk) over all chunks)``.

    partial: runs on the workers; returns an array, or dicts, lists and tuples of arrays; shapes must not depend on the
        chunk, and what it is given must not be changed. Whole numbers come back as float64, with rounding.
    update: runs on the master.
    chunks: the data, cut into pieces of about equal work; arrays reach the workers once, through shared memory, and
        memory-mapped ones through their file. Or `load` and `parts`: then chunk i is ``load(i)``, called on a worker
        when it first needs the chunk.

    Data is not copied when a job is submitted: leave it alone until the job has ended. The sum is protected by a cyclic
    code over the chunks: with redundancy 1.1 and 55 chunks any 50 of 55 rows are enough, and each row combines 6
    neighbouring chunks, which a worker computes once for all its rows. With very few chunks a small redundancy rounds
    to none.

    >>> job = SumJob(partial=lambda w, x: x * w, update=lambda w, total: total / 6.0, state=1.0,
    ...              chunks=[1.0, 2.0, 3.0], iterations=4)
    >>> job.step(1.0, np.array([[6.0]])[0])
    array([1.])
    """

    def __init__(
        self,
        *,
        partial: Callable[[Any, Any], Any],
        update: Callable[[Any, Any], Any],
        state: Any,
        chunks: Sequence[Any] | None = None,
        load: Callable[[int], Any] | None = None,
        parts: int | None = None,
        iterations: int | None = None,
        until: Callable[[Any], bool] | None = None,
        name: str | None = None,
        tolerance: float | None = None,
    ) -> None:
        super().__init__(state=state, iterations=iterations, until=until, name=name, tolerance=tolerance)
        self.partial, self.update = checked_function("partial", partial), checked_function("update", update)
        if (chunks is None) == (load is None):
            raise ArgumentError("chunks, load: one of them must be given, and not both")
        if load is None:
            assert chunks is not None
            if isinstance(chunks, str | bytes | dict | set) or not hasattr(chunks, "__len__"):
                raise ArgumentError(f"chunks: {type(chunks).__name__} is not allowed; must be a list of chunks")
            if parts is not None:
                raise ArgumentError(f"parts: {parts!r} is not allowed beside chunks; their number is len(chunks)")
            self.parts = checks.whole("chunks: their number", len(chunks), least=1, most=MOST_CHUNKS)
            self._chunks: list[Any] | None = list(chunks)
            self._load: Callable[[int], Any] | None = None
        else:
            self.parts = checks.whole("parts", parts, least=1, most=MOST_CHUNKS)
            self._chunks, self._load = None, checked_function("load", load)
            self.move_cost = 1.0  # reading a chunk takes about as long as using it

    def code(self, redundancy: float, rng: Generator) -> Code:
        """Return a cyclic code over the chunks; without redundancy the chunks themselves."""
        needed = min(self.parts, max(1, round(self.parts / redundancy)))
        if needed == self.parts:
            return uncoded(parts=self.parts)
        return cyclic(rows=self.parts, load=self.parts - needed + 1, rng=rng)

    def work(self, code: Code) -> "SumWork":
        """Return what travels to the workers."""
        return SumWork(code, self.partial, self._chunks, self._load)

    def request(self, state: Any) -> Any:
        """Return the state: parts are computed from it."""
        return state

    def step(self, state: Any, recovered: Any) -> Any:
        """Return the updated state."""
        return self.update(state, recovered)


class SumWork:
    """Partial results of chunks, and which of them a row combines."""

    def __init__(
        self,
        code: Code,
        partial: Callable[[Any, Any], Any],
        chunks: list[Any] | None,
        load: Callable[[int], Any] | None,
    ) -> None:
        self._rows: list[tuple[tuple[int, ...], NumberArray]] = []
        for row, held in zip(code.matrix, code.support, strict=True):
            self._rows.append((tuple(np.flatnonzero(held).tolist()), row[held]))
        self._partial, self._load = partial, load
        self._chunks = dict(enumerate(chunks)) if chunks is not None else {}

    def row(self, slot: int, row: int) -> tuple[Sequence[int], NumberArray]:
        """Return the chunks of a row and their coefficients."""
        return self._rows[row]

    def part(self, state: Any, part: int) -> Any:
        """Return the partial result of a chunk, which is loaded when it is first needed."""
        if part not in self._chunks:
            assert self._load is not None
            self._chunks[part] = self._load(part)
        return self._partial(state, self._chunks[part])
