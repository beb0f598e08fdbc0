"""Several models that are trained in turn, each iteration of each a gradient that may take some rounds.

What is under way lies in the state of the run (`Turns`), so that a job can be submitted again. A journal keeps of it
the models and how far they are; gradients that were under way begin again.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator

from echelon import checks, trees
from echelon.arrays import NumberArray
from echelon.clusters import Attached, Cluster, Message, new_key
from echelon.codes import Code, Weights
from echelon.codes.combine import largest
from echelon.codes.error_estimate import relative_to
from echelon.errors import ArgumentError
from echelon.jobs.base import RoundJob, checked_function
from echelon.jobs.calling import call
from echelon.jobs.chunks import Chunks
from echelon.jobs.collected import Collected
from echelon.jobs.sums import rows_of
from echelon.plan import Plan
from echelon.schemes import GradientChain, GradientPlan, GradientWindow


@dataclass(eq=False, slots=True)
class _Going:
    """A gradient under way: of which model, where its state lies, its sum so far, and rows that wait to be decoded."""

    model: int
    key: int
    form: bytes = b""
    total: list[NumberArray] = field(default_factory=list)
    error: float = 0.0
    held: dict[tuple[int, int], Message] = field(default_factory=dict)  # by unit and row


@dataclass(eq=False, slots=True)
class _Run:
    """What one run of a job has under way."""

    cluster: Cluster
    window: GradientWindow
    plan: GradientPlan | None = None
    began: int = 0
    going: dict[int, _Going] = field(default_factory=dict)


class Turns:
    """The models of a `TurnJob`: what it results in.

    states: of the models. iterations: how many each has had.
    """

    def __init__(self, states: Sequence[Any]) -> None:
        self.states = list(states)
        self.iterations = [0] * len(self.states)
        self.run: _Run | None = None

    def __getstate__(self) -> tuple[list[Any], list[int]]:
        return self.states, self.iterations

    def __setstate__(self, kept: tuple[list[Any], list[int]]) -> None:
        (self.states, self.iterations), self.run = kept, None

    def __repr__(self) -> str:
        return f"<{len(self.states)} models after {self.iterations} iterations>"


class TurnJob(RoundJob):
    """Models trained in turn by a code over rounds: ``state = update(state, sum of partial(state, chunk))`` of each.

    Where workers are slow in bursts of few rounds, what one owes of a gradient may come a round or two later: meanwhile
    the gradients of other models go on. Prefer it where several models (restarts, folds, rates) are trained on the same
    data anyway. `schemes.m_sgc` asks for the least work per round, `schemes.sr_sgc` for the shortest delay.

    scheme: how the data is coded over workers and rounds, for as many workers as the stream has.
    states: of the models. With fewer than ``scheme.delay + 1``, some rounds begin no gradient.
    iterations: of each model.
    chunks: the data, in pieces of the sizes that the scheme asks for: ``[x[part] for part in scheme.cut(len(x))]``. Or
        `load`: then chunk i is ``load(i)``, called on a worker when it first needs it, i < ``scheme.parts``.
    partial, update, copies: as for `SumJob`.
    cost: of a whole gradient on one worker, in parts of the profile; for times that are drawn from it.

    The result has the models: ``stream.submit(job).result().states``.

    >>> from echelon.schemes import m_sgc
    >>> from echelon.stream import Stream
    >>> scheme, data = m_sgc(3, workers_at_once=1, length=1, window=2), np.arange(24.0)
    >>> job = TurnJob(scheme, partial=lambda w, x: (x * w).sum(), update=lambda w, total: w + total / 276,
    ...               states=[1.0, 10.0], chunks=[data[part] for part in scheme.cut(24)], iterations=3)
    >>> with Stream("threads", workers=3) as stream:
    ...     [round(float(state), 9) for state in stream.submit(job).result().states]
    [8.0, 80.0]
    """

    def __init__(
        self,
        scheme: GradientChain,
        *,
        partial: Callable[[Any, Any], Any],
        update: Callable[[Any, Any], Any],
        states: Sequence[Any],
        iterations: int,
        chunks: Sequence[Any] | None = None,
        load: Callable[[int], Any] | None = None,
        copies: bool = False,
        cost: float = 1.0,
        name: str | None = None,
        tolerance: float | None = None,
    ) -> None:
        super().__init__(name=name, tolerance=tolerance)
        self.scheme = checks.instance("scheme", scheme, GradientChain)  # type: ignore[type-abstract]
        self.partial, self.update = checked_function("partial", partial), checked_function("update", update)
        self.goal = checks.whole("iterations", iterations, least=1)
        listed = checks.items("states", states)
        if not len(listed):
            raise ArgumentError("states: empty is not allowed; must have the state of at least one model")
        self.copies = bool(checks.flag("copies", copies))
        self._cost = checks.number("cost", cost, above=0)
        self._chunks = Chunks(chunks, load, None if load is None else scheme.parts)
        if len(self._chunks) != scheme.parts:
            raise ArgumentError(
                f"chunks: {len(self._chunks)} are not allowed; must be {scheme.parts}, of the sizes of scheme.cut"
            )
        self.parts, self.workers, self.codes = scheme.parts, scheme.workers, scheme.codes
        self.state = Turns(listed)

    def code(self, redundancy: float, rng: Generator) -> Code:
        """Return the code of the first slot of each gradient; `codes` has all."""
        return self.scheme.codes[0]

    @property
    def code_key(self) -> Hashable:
        """The scheme's code itself."""
        return self.scheme.codes[0]

    def work(self, codes: Sequence[Code]) -> "TurnWork":
        """Return what travels to the workers."""
        return TurnWork(self.scheme.codes, self.partial, self._chunks, copies=self.copies)

    def open(self, cluster: Cluster, state: Turns) -> Plan:
        """Begin the gradient of the model that is furthest behind, unless all are under way, and plan the round."""
        if state.run is None:
            state.run = _Run(cluster, GradientWindow(self.scheme))
        run, number = state.run, None
        busy = {going.model for going in run.going.values()}
        idle = [m for m, done in enumerate(state.iterations) if done < self.goal and m not in busy]
        if idle:
            model, number = min(idle, key=lambda m: (state.iterations[m], m)), run.began
            run.began += 1
            run.going[number] = _Going(model, new_key())
            cluster.load(run.going[number].key, cluster.pack(state.states[model]))
        run.plan = run.window.open(number, self._cost)
        assert run.plan is not None, "a job that is done goes on"
        return run.plan

    def request(self, state: Turns) -> "TurnStates":
        """Return where the states of this round's gradients lie, and the first chunk of each slot."""
        run = _running(state)
        return TurnStates([(run.going[n].key, self.scheme.first_chunk(unit)) for n, unit in _plan(run).units])

    def held(self, state: Turns, slot: int) -> Sequence[int]:
        """Return the rows of a slot that came in rounds before."""
        run = _running(state)
        return run.window.came(*_plan(run).units[slot])

    def close(self, state: Turns, collected: Collected, decide: Callable[[bool], None]) -> bool | None:
        """Add up what came, and let models whose gradients are finished take their steps."""
        run = _running(state)
        plan, weights, messages = _plan(run), collected.weights, collected.take()
        came: dict[int, list[int]] = {}
        for (slot, row), message in messages.items():
            number, unit = plan.units[slot]
            run.going[number].held[unit, row] = message
            came.setdefault(slot, []).append(row)
        for slot, (number, unit) in enumerate(plan.units):
            code = self.scheme.codes[slot % len(self.scheme.codes)]
            found = _plain(came[slot]) if code.plain and slot in came else weights.get(slot)
            if found is not None and not (code.plain and slot not in came):
                self._add(run, number, unit, found, code)
        for number in run.window.close(messages.keys(), weights.keys()):
            going = run.going.pop(number)
            run.cluster.unload(going.key)
            self._step(state, going, collected)
        return all(done >= self.goal for done in state.iterations)

    def _add(self, run: _Run, number: int, unit: int, weights: Weights, code: Code) -> None:
        """Add what some rows of a unit give to the sum of a gradient, and give back their memory."""
        going = run.going[number]
        rows = [row for held, row in going.held if held == unit]
        some = Collected(
            {(0, row): going.held[unit, row] for row in rows}, {0: weights}, run.cluster.combine, (code,)
        )  # fmt: skip
        form, segments = trees.flatten(some.total())
        for row in rows:
            run.cluster.release(going.held.pop((unit, row)))
        if going.form and form != going.form:
            raise ArgumentError(f"partial: it gave {going.form.decode()} and {form.decode()}; must give one form")
        going.total = [a + b for a, b in zip(going.total, segments, strict=True)] if going.form else segments
        going.form = form
        going.error += some.relative_to_result * max(map(largest, segments), default=0.0)

    def _step(self, state: Turns, going: _Going, collected: Collected) -> None:
        after = self.update(state.states[going.model], trees.unflatten(going.form, going.total))
        if after is None:
            raise ArgumentError("update: returned None; must return the next state")
        size, epsilon = max(map(largest, going.total), default=0.0), float(np.finfo(np.float64).eps)
        error = relative_to(going.error, size, epsilon)
        collected.relative_to_result = max(collected.relative_to_result, error)
        state.states[going.model] = after
        state.iterations[going.model] += 1

    def ended(self, state: Turns) -> None:
        """Give back what gradients that will not be finished have."""
        run, state.run = state.run, None
        if run is None:
            return
        for going in run.going.values():
            run.cluster.unload(going.key)
            for message in going.held.values():
                run.cluster.release(message)


def _running(state: Turns) -> _Run:
    assert state.run is not None, "no round was opened"
    return state.run


def _plan(run: _Run) -> GradientPlan:
    assert run.plan is not None, "no round was opened"
    return run.plan


def _plain(rows: Sequence[int]) -> Weights:
    """Return how to add up rows that are parts."""
    count = len(rows)
    ones, reach = np.ones((1, count)), np.full(count, float(count))
    return Weights(np.array(sorted(rows)), np.zeros(1, np.int64), ones, np.full(1, -1), count**0.5, 1.0, 0.0, reach)


class TurnStates(Attached):
    """What a round is computed from: for each slot the key of its model's state, and the number of its first chunk."""

    def __init__(self, slots: Sequence[tuple[int, int]]) -> None:
        self._slots = slots
        self._find: Callable[[int], Any] | None = None

    def attach(self, find: Callable[[int], Any]) -> None:
        """Take the function that finds states by key."""
        self._find = find

    def of(self, slot: int) -> tuple[Any, int]:
        """Return the state and the first chunk of a slot."""
        assert self._find is not None
        key, first = self._slots[slot]
        return self._find(key), first


class TurnWork:
    """Partial results for several states. Part numbers are slot times the parts of the largest code, plus the part."""

    def __init__(
        self, codes: Sequence[Code], partial: Callable[[Any, Any], Any], chunks: Chunks, *, copies: bool
    ) -> None:
        self._rows = rows_of(codes, [range(code.parts) for code in codes])
        self._most = max(code.parts for code in codes)
        self._partial, self._chunks, self._copies = partial, chunks, copies

    def row(self, slot: int, row: int) -> tuple[Sequence[int], NumberArray]:
        """Return the parts of a row and their coefficients."""
        parts, coefficients = self._rows[slot % len(self._rows)][row]
        return [slot * self._most + part for part in parts], coefficients

    def part(self, state: TurnStates, part: int) -> Any:
        """Return the partial result of a chunk, for the state of the slot's model."""
        slot, at = divmod(part, self._most)
        found, first = state.of(slot)
        return call(self._partial, found, self._chunks[first + at], copies=self._copies)
