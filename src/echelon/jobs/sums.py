"""Iterations that are a sum over chunks of data: gradients, k-means, EM, power iteration."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import NumberArray
from echelon.clusters import AtOnce, Room, Writes
from echelon.codes import Code, cyclic, uncoded
from echelon.endings import Exact, Policy
from echelon.errors import ArgumentError
from echelon.jobs.base import IterativeJob, checked_function, checked_verify
from echelon.jobs.calling import call
from echelon.jobs.chunks import Chunks
from echelon.jobs.own_code import OwnCode, made_code
from echelon.schemes import CodedPlan, Regrouping

MESSAGES = ("bfloat16",)
MOST_CODED = 1500  # chunks: making and decoding a cyclic code takes seconds here, and minutes beyond


class SumJob(IterativeJob):
    """A job whose iteration is ``state = update(state, sum of partial(state, chunk) over all chunks)``.

    partial: runs on the workers; returns an array, or dicts, lists and tuples of arrays; shapes must not depend on the
        chunk. Its arguments are read-only (see `copies`). Whole numbers come back as float64, with rounding. Results
        that are not finite let the job go on without a code, since rows that combine them can't tell inf from NaN.
    update: runs on the master.
    chunks: the data, cut into pieces of about equal work; arrays reach the workers once, through shared memory, and
        memory-mapped ones through their file. Or `load` and `parts`: then chunk i is ``load(i)``, called on a worker
        when it first needs the chunk.

    Data is not copied when a job is submitted: leave it alone until the job has ended. Chunks are shared out by speed,
    and idle workers repeat what is late where that pays. On a stream with a given redundancy, the sum is protected by a
    cyclic code over the chunks: with redundancy 1.1 and 55 chunks any 50 of 55 rows are enough, and each row combines 6
    neighbouring chunks, which a worker computes once for all its rows. With very few chunks a small redundancy rounds
    to none; more than 1500 chunks are refused then.

    weighted: ``weighted(state, chunks, coefficients)``, the weighted sum of `partial` over some chunks, where that is
        cheaper at once than chunk by chunk; used for rows whose chunks the worker needs for no other row.
    write: ``write(state, chunks, coefficients, room)``, the same, in memory from ``room(count, dtype)``, a flat array
        that is then sent without a copy, and its largest absolute value, which error estimates need; used like
        `weighted`, and for rows of one chunk, too.
    code: your own code for the sum, real and over as many parts as chunks: a `Code`; a name of `codes.CODES` with
        arguments, such as "fractional_repetition:load=3", which the redundancy completes; or ``code(parts)``. Workers
        still get consecutive rows by their speeds, as many as suit them best just now; the first row of a worker costs
        all of its chunks, a further one those that the row before it did not need. With "short_messages:pieces=2" a row
        is half as long as a result, and combines one chunk more; its chunks are then computed one by one.
    plan: how the sum is protected instead, and which worker computes what: a plan with codes from `echelon.schemes`
        (multi_message, gradient_coding, …), with one lane per worker of the stream. The stream's redundancy and
        split are then not used.
    lend: whether workers whose slot is recovered may repeat work of slots that lag, where that looks like a gain.
    regroup: how many clusters of the plan each worker has data of. Before each round, workers are dealt out to them
        anew, so that those who were late in the round before are spread evenly (`echelon.schemes.Regrouping`): for
        workers that are slow for several rounds on end. Not with verify="vote", whose rows have their own lanes.
    ending: when rounds end that may do without some rows, by a policy of `echelon.endings`: ``Residual(0.1)``,
        ``Deadline(2.0)``, ``Quorum(0.9, grace="auto")``, ``Deadline("auto") & Quorum(0.95)``. `update` then gets a sum
        that is as near to the exact one as the rows come; deliveries and records say how near, and who was left out.
        By default every sum is exact.
    unbiased: multiply a sum that is not exact by the sum of all weights over that of those that are there, so that it
        is as large as the exact one on average where every part is missing as often.
    messages: "bfloat16" halves what is sent of float32 results (others are refused): each row is rounded to 8 bits of
        precision, off by 2^-8 of itself at most, and decoding amplifies that as it does any rounding; the default
        tolerance is then 2^-4. None sends rows as they are.
    verify: how results are checked before each step, "spare" or "vote"; by default as the stream does.
    copies: give each call of `partial` its own copies of state and chunk, which it may change. Without, NumPy arrays,
        alone or in dicts, lists and tuples, can't be written; objects of other kinds must be left alone.

    >>> job = SumJob(partial=lambda w, x: x * w, update=lambda w, total: total / 6.0, state=1.0,
    ...              chunks=[1.0, 2.0, 3.0], iterations=4)
    >>> job.step(1.0, np.array([[6.0]])[0])
    array([1.])
    """

    added = True

    def __init__(
        self,
        *,
        partial: Callable[[Any, Any], Any],
        update: Callable[[Any, Any], Any],
        state: Any,
        chunks: Sequence[Any] | None = None,
        load: Callable[[int], Any] | None = None,
        parts: int | None = None,
        weighted: Callable[[Any, Sequence[Any], NumberArray], Any] | None = None,
        write: Callable[[Any, Sequence[Any], NumberArray, Room], tuple[Any, float]] | None = None,
        code: OwnCode | None = None,
        plan: CodedPlan | None = None,
        lend: bool = False,
        regroup: int | None = None,
        ending: Policy | None = None,
        unbiased: bool = False,
        messages: str | None = None,
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
        self._weighted = None if weighted is None else checked_function("weighted", weighted)
        self._write = None if write is None else checked_function("write", write)
        self._chunks = Chunks(chunks, load, parts)
        self.parts = len(self._chunks)
        if self._chunks.loaded:
            self.move_cost = 1.0  # reading a chunk takes about as long as using it
        if plan is not None:
            self.plan = _checked_plan(plan, self.parts)
        if code is not None:
            self.use_code(code)
        if checks.flag("lend", lend) and plan is None:
            raise ArgumentError("lend: not allowed without a plan; rows of one slot are shared out by speed anyway")
        self.lend = bool(lend)
        if regroup is not None:
            if plan is None or verify == "vote":
                raise ArgumentError(
                    f"regroup: {regroup!r} is not allowed; must be given with a plan of clusters, and without "
                    'verify="vote"'
                )
            self.regroup = Regrouping(plan, regroup).held
        if ending is not None:
            self.ending = _checked_ending(ending, self.plan, verify)
        if checks.flag("unbiased", unbiased) and ending is None and (plan is None or plan.ending is None):
            raise ArgumentError("unbiased: not allowed without an ending; every sum is exact then")
        self.unbiased = bool(unbiased)
        self.messages = None if messages is None else checks.one_of("messages", messages, MESSAGES)
        self.copies = bool(copies)

    def code(self, redundancy: float, rng: Generator) -> Code:
        """Return the job's own code, or a cyclic one over the chunks; without redundancy the chunks themselves."""
        needed = min(self.parts, max(1, round(self.parts / redundancy)))
        if self.own_code is not None:
            made = made_code(self.own_code, parts=self.parts, rows=self.parts, critical=needed, rng=rng)
            if not made.sums:
                raise ArgumentError("code: not allowed; must give a sum of partial results, by real numbers")
            if self.ending is not None and made.pieces > 1:
                raise ArgumentError("ending: not allowed with short messages: fewer rows than it takes give no sum")
            return made
        if needed == self.parts:
            return uncoded(parts=self.parts)
        if self.parts > MOST_CODED:
            raise ArgumentError(
                f"redundancy: {redundancy:g} is not allowed for {self.parts} chunks, whose code would take minutes to "
                f"make; leave it out, or cut the data into {MOST_CODED} chunks at most"
            )
        return cyclic(rows=self.parts, load=self.parts - needed + 1, rng=rng)

    def plain_code(self) -> Code:
        """Return the chunks themselves."""
        return uncoded(parts=self.parts)

    def work(self, codes: Sequence[Code]) -> "SumWork":
        """Return what travels to the workers."""
        chunks = [range(self.parts)] if self.plan is None else self.plan.chunks
        narrow, copies = self.messages is not None, self.copies
        if self._write is not None:
            return WritingWork(codes, chunks, self.partial, self._chunks, self._write, narrow=narrow, copies=copies)
        if self._weighted is not None:
            return WeightedWork(codes, chunks, self.partial, self._chunks, self._weighted, narrow=narrow, copies=copies)
        return SumWork(codes, chunks, self.partial, self._chunks, narrow=narrow, copies=copies)

    def chunk_of(self, part: int) -> int:
        """Return the part: it is a chunk's number."""
        return part

    def request(self, state: Any) -> Any:
        """Return the state: parts are computed from it."""
        return state

    def step(self, state: Any, recovered: Any) -> Any:
        """Return the updated state."""
        return self.update(state, recovered)


def _checked_ending(ending: Policy, plan: CodedPlan | None, verify: str | None) -> Policy | None:
    checks.instance("ending", ending, Policy)  # type: ignore[type-abstract]
    if verify is not None:
        raise ArgumentError(f"ending: not allowed with verify={verify!r}, which waits for rows to compare")
    if plan is not None:
        if plan.ending is not None:
            raise ArgumentError("ending: not allowed with a plan that has one")
        plan.ended(ending)
    else:
        ending.check(slots=1, lanes=1, sums=True)
    return None if isinstance(ending, Exact) else ending


def _checked_plan(plan: CodedPlan, parts: int) -> CodedPlan:
    if not isinstance(plan, CodedPlan):
        raise ArgumentError(f"plan: {type(plan).__name__} is not allowed; must have codes (echelon.schemes.CodedPlan)")
    if not all(code.sums for code in plan.codes):
        raise ArgumentError("plan: not allowed; every slot must give a sum of partial results, by a real code")
    if sorted(chunk for some in plan.chunks for chunk in some) != list(range(plan.parts)):
        raise ArgumentError("plan: not allowed; every chunk must be in one slot, once")
    if plan.parts != parts:
        raise ArgumentError(f"chunks: {parts} are not allowed; must be {plan.parts}, as the plan says")
    return plan


def rows_of(codes: Sequence[Code], parts: Sequence[Sequence[int]]) -> list[list[tuple[tuple[int, ...], NumberArray]]]:
    """Return which parts every row of every slot combines, by the names that a plan has for them, and how.

    Coefficients of a row have shape (parts,), or (parts, pieces) where the code combines pieces of results.
    """
    rows = []
    for code, names in zip(codes, parts, strict=True):
        pieces = (code.pieces,) if code.pieces > 1 else ()
        held = zip(code.matrix.reshape(code.rows, code.parts, *pieces), code.support, strict=True)
        rows.append([(tuple(names[i] for i in np.flatnonzero(some).tolist()), row[some]) for row, some in held])
    return rows


class SumWork:
    """Partial results of chunks, and which of them a row combines; `narrow`: its messages are rounded to bfloat16."""

    def __init__(
        self,
        codes: Sequence[Code],
        parts: Sequence[Sequence[int]],
        partial: Callable[[Any, Any], Any],
        chunks: Chunks,
        *,
        narrow: bool = False,
        copies: bool = False,
    ) -> None:
        self._rows = rows_of(codes, parts)
        self._partial, self._chunks, self.narrow, self._copies = partial, chunks, narrow, copies

    def row(self, slot: int, row: int) -> tuple[Sequence[int], NumberArray]:
        """Return the chunks of a row and their coefficients."""
        return self._rows[slot][row]

    def part(self, state: Any, part: int) -> Any:
        """Return the partial result of a chunk, which is loaded when it is first needed."""
        return call(self._partial, state, self._chunks[part], copies=self._copies)


class _RowWork(SumWork):
    """Partial results, and a function for several of them at once."""

    def __init__(
        self,
        codes: Sequence[Code],
        parts: Sequence[Sequence[int]],
        partial: Callable[[Any, Any], Any],
        chunks: Chunks,
        row: Callable[..., Any],
        *,
        narrow: bool = False,
        copies: bool = False,
    ) -> None:
        super().__init__(codes, parts, partial, chunks, narrow=narrow, copies=copies)
        self._row = row

    def _called(self, state: Any, parts: Sequence[int], *arguments: Any) -> Any:
        return call(self._row, state, [self._chunks[part] for part in parts], *arguments, copies=self._copies)


class WeightedWork(_RowWork, AtOnce):
    """Partial results whose weighted sums are cheaper at once."""

    def at_once(self, state: Any, parts: Sequence[int], coefficients: NumberArray) -> Any:
        """Return the weighted sum of the partial results of some chunks."""
        return self._called(state, parts, coefficients)


class WritingWork(_RowWork, Writes):
    """Partial results whose weighted sums are written where they are to lie."""

    def write(self, state: Any, parts: Sequence[int], coefficients: NumberArray, room: Room) -> tuple[Any, float]:
        """Return the weighted sum of the partial results of some chunks, and its largest number."""
        found, largest = self._called(state, parts, coefficients, room)
        return found, float(largest)
