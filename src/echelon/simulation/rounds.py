"""Rounds of a plan, many at a time: arrival times, then the moment at which the round is over.

This is the path that samples every task, under any law. It keeps what the master sees of each worker: how long it
computed and how many results it sent before the round was over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.can import PLAIN, Can, Rules
from echelon.delays import Delay, begin_all, common_cycle, per_worker
from echelon.errors import ArgumentError, CannotEvaluate
from echelon.plan import Plan
from echelon.ports import through_port
from echelon.simulation.beside import Adding
from echelon.simulation.by_message import ByMessage
from echelon.simulation.one_slot import OneSlot
from echelon.simulation.pulled import Pulled
from echelon.simulation.slots import Slots


def checked_links(links: Any, workers: int) -> FloatArray:
    """Return link delays as an array, one per lane."""
    values = checks.floats("links", links)
    if values.shape != (workers,):
        raise ArgumentError(f"links: shape {values.shape} is not allowed; must be ({workers},), one per lane")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ArgumentError(f"links: {values.tolist()} is not allowed; must be finite and >= 0")
    return values


class Kernel(Protocol):
    """From task times to the ends of rounds, for plans of one kind. `quick` ones are vectorised over rounds."""

    quick: bool

    @staticmethod
    def can(plan: Plan, laws: Sequence[Delay], rules: Rules) -> Can:
        """Return whether a plan under these rules is of that kind, or why not."""

    def __init__(self, plan: Plan, links: FloatArray, beside: Sequence[FloatArray], rules: Rules) -> None: ...

    def empty(self, rounds: int) -> FloatArray:
        """Return memory for the arrivals of this many rounds."""

    def costs(self, p: int) -> FloatArray:
        """Return the costs of the tasks for which lane p needs times."""

    def arrive(self, p: int, times: FloatArray, arrivals: FloatArray) -> None:
        """Write the arrivals of lane p from the times of those tasks, shape (rounds, tasks)."""

    def arrive_paced(self, p: int, paces: FloatArray, arrivals: FloatArray) -> None:
        """Write the arrivals of lane p from the time of a part in each round, shape (rounds,)."""

    def arrive_together(self, paces: FloatArray, arrivals: FloatArray) -> None:
        """Write all arrivals from the paces of all workers, shape (workers, rounds)."""

    def over(self, arrivals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return when each round is over, shape (rounds,), and when each slot is recovered, shape (slots, rounds)."""

    def residual(self, arrivals: FloatArray, ends: FloatArray) -> FloatArray:
        """Return how far what each round gives is from the exact sum, shape (rounds,)."""

    def load(self, arrivals: FloatArray, ends: FloatArray) -> IntArray:
        """Return how many messages arrived until then, shape (rounds,)."""

    def load_with_stop(self, arrivals: FloatArray, recovered: FloatArray) -> IntArray:
        """Return how many of them came while their slot was not recovered, shape (rounds,)."""

    def seen(self, arrivals: FloatArray, ends: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return computing time and results of every worker, shape (rounds, workers)."""


@dataclass(frozen=True)
class Rounds:
    """What happened in a batch of rounds: when each had enough, after the workers began, shape (seeds, rounds)."""

    over: FloatArray
    _more: float | FloatArray
    _kernel: Kernel
    _sent: FloatArray
    _arrivals: FloatArray
    _recovered: FloatArray

    @property
    def times(self) -> FloatArray:
        """Duration of each round, until its rows are added up where they stay, shape (seeds, rounds)."""
        return self.over + self._more if np.any(self._more) else self.over

    @cached_property
    def _seen(self) -> tuple[FloatArray, IntArray]:
        busy, done = self._kernel.seen(self._sent, self.over.ravel())
        return busy.reshape(*self.over.shape, -1), done.reshape(*self.over.shape, -1)

    @property
    def busy(self) -> FloatArray:
        """Time each worker computed, links excluded, shape (seeds, rounds, workers)."""
        return self._seen[0]

    @property
    def done(self) -> IntArray:
        """Results each worker sent before the round was over, shape (seeds, rounds, workers)."""
        return self._seen[1]

    @cached_property
    def residual(self) -> FloatArray:
        """How far what each round gives is from the exact sum, |alpha - 1| / |1|, shape (seeds, rounds)."""
        return self._kernel.residual(self._arrivals, self.over.ravel()).reshape(self.over.shape)

    @cached_property
    def load(self) -> IntArray:
        """Messages received up to the end of the round, repeated and useless ones included, shape (seeds, rounds)."""
        return self._kernel.load(self._arrivals, self.over.ravel()).reshape(self.over.shape)

    @cached_property
    def load_with_stop(self) -> IntArray:
        """The same where workers stop sending for a recovered slot, shape (seeds, rounds)."""
        return self._kernel.load_with_stop(self._arrivals, self._recovered).reshape(self.over.shape)


@dataclass(frozen=True)
class Replayed:
    """The same, for rounds that are all among those of one cycle: `at` says which, shape (seeds, rounds)."""

    cycle: Rounds
    at: IntArray

    @property
    def over(self) -> FloatArray:
        """When each round had enough, shape (seeds, rounds)."""
        found: FloatArray = self.cycle.over[0][self.at]
        return found

    @property
    def times(self) -> FloatArray:
        """Duration of each round, shape (seeds, rounds)."""
        found: FloatArray = self.cycle.times[0][self.at]
        return found

    @property
    def busy(self) -> FloatArray:
        """Time each worker computed, shape (seeds, rounds, workers)."""
        found: FloatArray = self.cycle.busy[0][self.at]
        return found

    @property
    def done(self) -> IntArray:
        """Results each worker sent before the round was over, shape (seeds, rounds, workers)."""
        found: IntArray = self.cycle.done[0][self.at]
        return found

    @property
    def residual(self) -> FloatArray:
        """How far what each round gives is from the exact sum, shape (seeds, rounds)."""
        found: FloatArray = self.cycle.residual[0][self.at]
        return found

    @property
    def load(self) -> IntArray:
        """Messages received up to the end of the round, shape (seeds, rounds)."""
        found: IntArray = self.cycle.load[0][self.at]
        return found

    @property
    def load_with_stop(self) -> IntArray:
        """The same where workers stop sending for a recovered slot, shape (seeds, rounds)."""
        found: IntArray = self.cycle.load_with_stop[0][self.at]
        return found


KERNELS: dict[str, type[Kernel]] = {
    "one slot": OneSlot,
    "slots": Slots,
    "pulled": Pulled,
    "by message": ByMessage,
}


def can(plan: Plan, laws: Sequence[Delay], rules: Rules = PLAIN) -> Can:
    """Return whether rounds of a plan can be drawn one by one, or why not."""
    return _choice(plan, laws, rules)[1]


def _choice(plan: Plan, laws: Sequence[Delay], rules: Rules) -> tuple[type[Kernel] | None, Can]:
    """Return the quickest kernel for a plan, or why there is none."""
    answers = {name: kernel.can(plan, laws, rules) for name, kernel in KERNELS.items()}
    found = next((KERNELS[name] for name, answer in answers.items() if answer), None)
    said = dict.fromkeys(answer.why_not for answer in answers.values())
    return found, Can("" if found else "; ".join(said))


class RoundSampler:
    """Draws rounds of one plan on workers with the given laws and links.

    beside: seconds that each task takes beyond computing: a number for all, or one array per lane, in which tasks of
        the pool follow the lane's own.
    more: seconds that each round takes on top.
    port: seconds that each message takes at the master's port, as for `beside`; none where it takes nothing.
    adding: what adding up takes where rows stay with their workers (`Beside.adding`).

    >>> from echelon.delays import Deterministic
    >>> from echelon.schemes import any_k
    >>> sampler = RoundSampler(any_k([2, 1], critical=2), Deterministic(time=1.0), np.array([0.5, 0.0]))
    >>> state = sampler.begin(1, np.random.default_rng(1))
    >>> sampler.draw(state, 1, 1, np.random.default_rng(1))[0].times.tolist()
    [[1.5]]
    """

    def __init__(
        self,
        plan: Plan,
        laws: Delay | Sequence[Delay],
        links: FloatArray | Sequence[float],
        *,
        purge: bool = True,
        beside: float | Sequence[FloatArray] = 0.0,
        more: float = 0.0,
        port: Sequence[FloatArray] = (),
        adding: Adding | None = None,
    ) -> None:
        workers = len(plan.lanes)
        self.plan = plan
        self.laws = per_worker(laws, workers)
        self.links = checked_links(links, workers)
        self._active = [p for p in range(workers) if plan.lanes[p] or plan.pool is not None]
        calls = all(law.per_call for law in self.laws)
        rules = Rules(purge=purge, port=len(port) > 0, stay=adding is not None, calls=calls)
        self._port = np.concatenate(list(port)) if len(port) else None
        self._adding = adding
        kernel, answer = _choice(plan, self.laws, rules)
        if kernel is None:
            raise CannotEvaluate(f"plan: can't be simulated: {answer.why_not}; run it in virtual time")
        tasks = (plan.counts + len(plan.pooled)).tolist()
        self._beside = [np.full(n, beside) for n in tasks] if isinstance(beside, float | int) else list(beside)
        # it delays everything; but what a pool hands out crosses the link again, without this delay
        before, self._more = (more, 0.0) if plan.pool is None else (0.0, more)
        self._kernel = kernel(plan, self.links + before, self._beside, rules)
        self.quick = kernel.quick
        # workers that keep one pace per round, by the same law, are drawn together: one draw per worker and round
        alike = {law for law in self.laws if law.one_pace and law.independent_rounds}
        self._together = len(alike) == 1 and all(law in alike for law in self.laws)
        self.cycle = common_cycle([self.laws[p] for p in self._active])
        self._whole: Rounds | None = None  # all rounds of the cycle

    @property
    def independent(self) -> bool:
        """Whether what happens in one round says nothing about the next."""
        return all(self.laws[p].independent_rounds for p in self._active)

    def begin(self, seeds: int, rng: Generator) -> list[Any]:
        """Return what the laws must remember about `seeds` independent runs before the first round."""
        return begin_all([self.laws[p] for p in self._active], seeds, [rng] * len(self._active))

    def draw(self, state: list[Any], seeds: int, rounds: int, rng: Generator) -> tuple[Rounds | Replayed, list[Any]]:
        """Return the next rounds of every run and the state after them; of a cycle, each is computed once."""
        if self.cycle is None:
            return self._drawn(state, seeds, rounds, rng)
        if self._whole is None:
            first = [np.zeros(1, dtype=np.int64) for _ in state]
            self._whole = self._drawn(first, 1, self.cycle, rng)[0]
        at: IntArray = (state[0][:, None] + np.arange(rounds)) % self.cycle
        return Replayed(self._whole, at), [(begun + rounds) % self.cycle for begun in state]

    def _drawn(self, state: list[Any], seeds: int, rounds: int, rng: Generator) -> tuple[Rounds, list[Any]]:
        arrivals = self._kernel.empty(seeds * rounds)
        after = state
        if self._together:
            paces = self.laws[0].sample((len(self.plan.lanes), seeds * rounds, 1), rng)
            self._kernel.arrive_together(paces[..., 0], arrivals)
        else:
            after = []
            for p, memory in zip(self._active, state, strict=True):
                if self.laws[p].one_pace:
                    paces, memory = self.laws[p].advance(memory, (seeds, rounds, 1), rng)
                    self._kernel.arrive_paced(p, paces.ravel(), arrivals)
                else:
                    times, memory = self.laws[p].advance_tasks(memory, self._kernel.costs(p), (seeds, rounds), rng)
                    if self.plan.pool is None:
                        times += self._beside[p]
                    self._kernel.arrive(p, times.reshape(seeds * rounds, -1), arrivals)
                after.append(memory)
        passed = arrivals if self._port is None else through_port(arrivals, self._port)
        ends, recovered = self._kernel.over(passed)
        more: float | FloatArray = self._more
        if self._adding is not None:
            more = more + self._adding(self._kernel.seen(arrivals, ends)[1]).reshape(seeds, rounds)
        return Rounds(ends.reshape(seeds, rounds), more, self._kernel, arrivals, passed, recovered), after
