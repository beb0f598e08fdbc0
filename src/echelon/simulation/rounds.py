"""Rounds of a plan, many at a time: arrival times, then the moment at which every slot is recovered.

This is the path that samples every task. It works for any plan and any delay law, and keeps what the master
sees of every worker: how long it computed and how many results it sent before the round was over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from echelon.arrays import FloatArray, IntArray
from echelon.delays import Delay, per_worker
from echelon.errors import ArgumentError
from echelon.plan import Plan
from echelon.simulation.one_slot import OneSlot
from echelon.simulation.pulled import Pulled
from echelon.simulation.slots import Slots


def checked_links(links: Any, workers: int) -> FloatArray:
    """Return link delays as an array, one a lane."""
    try:
        values = np.asarray(links, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"links: {links!r} is not allowed; must be numbers, one a lane") from None
    if values.shape != (workers,):
        raise ArgumentError(f"links: shape {values.shape} is not allowed; must be ({workers},), one a lane")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ArgumentError(f"links: {values.tolist()} is not allowed; must be finite and >= 0")
    return values


class Kernel(Protocol):
    """From task times to the ends of rounds, for plans of one kind."""

    def empty(self, rounds: int) -> FloatArray:
        """Return memory for the arrivals of so many rounds."""

    def arrive(self, p: int, times: FloatArray, arrivals: FloatArray) -> None:
        """Write the arrivals of lane p from its task times, shape (rounds, tasks), or (rounds, 1) for one pace."""

    def arrive_together(self, paces: FloatArray, arrivals: FloatArray) -> None:
        """Write all arrivals from the paces of all workers, shape (workers, rounds)."""

    def recovered(self, arrivals: FloatArray) -> FloatArray:
        """Return when each slot is recovered, shape (slots, rounds)."""

    def load(self, arrivals: FloatArray, ends: FloatArray) -> IntArray:
        """Return how many messages arrived until then, shape (rounds,)."""

    def load_with_stop(self, arrivals: FloatArray, recovered: FloatArray) -> IntArray:
        """Return how many of them came while their slot was not recovered, shape (rounds,)."""

    def seen(self, arrivals: FloatArray, ends: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return computing time and results of every worker, shape (rounds, workers)."""


@dataclass(frozen=True)
class Rounds:
    """What happened in a batch of rounds.

    times: duration of each round, shape (seeds, rounds).
    """

    times: FloatArray
    _kernel: Kernel
    _arrivals: FloatArray
    _recovered: FloatArray

    @cached_property
    def _seen(self) -> tuple[FloatArray, IntArray]:
        busy, done = self._kernel.seen(self._arrivals, self.times.ravel())
        return busy.reshape(*self.times.shape, -1), done.reshape(*self.times.shape, -1)

    @property
    def busy(self) -> FloatArray:
        """Time each worker computed, links excluded, shape (seeds, rounds, workers)."""
        return self._seen[0]

    @property
    def done(self) -> IntArray:
        """Results each worker sent before the round was over, shape (seeds, rounds, workers)."""
        return self._seen[1]

    @cached_property
    def load(self) -> IntArray:
        """Messages received up to the end of the round, repeated and useless ones included, shape (seeds, rounds)."""
        return self._kernel.load(self._arrivals, self.times.ravel()).reshape(self.times.shape)

    @cached_property
    def load_with_stop(self) -> IntArray:
        """The same where nobody sends for a slot that is recovered, shape (seeds, rounds)."""
        return self._kernel.load_with_stop(self._arrivals, self._recovered).reshape(self.times.shape)


class RoundSampler:
    """Draws rounds of one plan on workers with the given laws and links.

    >>> from echelon.delays import Deterministic
    >>> from echelon.schemes import any_k
    >>> sampler = RoundSampler(any_k([2, 1], critical=2), Deterministic(time=1.0), np.array([0.5, 0.0]))
    >>> state = sampler.begin(1, np.random.default_rng(1))
    >>> sampler.draw(state, 1, 1, np.random.default_rng(1))[0].times.tolist()
    [[1.5]]
    """

    def __init__(
        self, plan: Plan, laws: Delay | Sequence[Delay], links: FloatArray | Sequence[float], *, purge: bool = True
    ) -> None:
        workers = len(plan.lanes)
        self.plan = plan
        self.laws = per_worker(laws, workers)
        self.links = checked_links(links, workers)
        self._active = [p for p in range(workers) if plan.lanes[p]]
        if plan.pool is not None and not purge:
            raise ArgumentError("purge: False is not allowed; a plan with a pool leaves undone what is not needed")
        self._kernel = self._kernel_for(plan, purge=purge)
        self._tasks = [len(lane) for lane in plan.lanes]
        if isinstance(self._kernel, Pulled):
            self._active, self._tasks = list(range(workers)), [self._kernel.most] * workers
        # workers that keep one pace a round, by the same law, are drawn together: one draw a worker and round
        alike = {law for law in self.laws if law.one_pace and law.independent_rounds}
        self._together = len(alike) == 1 and all(law in alike for law in self.laws)

    def _kernel_for(self, plan: Plan, *, purge: bool) -> Kernel:
        if plan.pool is not None:
            return Pulled(plan, self.links)
        simple = plan.counts_suffice or not purge
        return OneSlot(plan, self.links, purge=purge) if simple else Slots(plan, self.links)

    def begin(self, seeds: int, rng: Generator) -> list[Any]:
        """Return what the laws must remember of `seeds` independent runs before the first round."""
        return [self.laws[p].begin(seeds, rng) for p in self._active]

    def draw(self, state: list[Any], seeds: int, rounds: int, rng: Generator) -> tuple[Rounds, list[Any]]:
        """Return the next rounds of every run and the state after them."""
        arrivals = self._kernel.empty(seeds * rounds)
        after = state
        if self._together:
            paces = self.laws[0].sample((len(self.plan.lanes), seeds * rounds, 1), rng)
            self._kernel.arrive_together(paces[..., 0], arrivals)
        else:
            after = []
            for p, memory in zip(self._active, state, strict=True):
                tasks = 1 if self.laws[p].one_pace else self._tasks[p]
                times, memory = self.laws[p].advance(memory, (seeds, rounds, tasks), rng)
                after.append(memory)
                self._kernel.arrive(p, times.reshape(seeds * rounds, -1), arrivals)
        recovered = self._kernel.recovered(arrivals)
        times = recovered[0] if len(recovered) == 1 else recovered.max(axis=0)
        return Rounds(times.reshape(seeds, rounds), self._kernel, arrivals, recovered), after
