"""Every strategy on the same draws: what differs between two of them is then the strategies, and not luck."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from echelon.arrays import FloatArray
from echelon.delays import Delay
from echelon.plan import Plan
from echelon.profile import Costs
from echelon.seeds import place_generator
from echelon.simulation import RoundSampler

HISTORIES = 40  # independent ones, each of so many rounds that they add up
_HELD = 1 << 23  # numbers held at once


@dataclass(frozen=True)
class _Drawn(Delay):
    """A law that gives out times which were drawn before, shape (histories, rounds, tasks)."""

    times: FloatArray

    @property
    def mean(self) -> float:
        """Mean of what was drawn."""
        return float(self.times.mean())

    @property
    def std(self) -> float:
        """Deviation of what was drawn."""
        return float(self.times.std())

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return the first tasks of every round, as a copy: the sampler works in place."""
        return self.times[..., : size[-1]].copy()

    @classmethod
    def fit(cls, mean: float, std: float) -> Self:
        """Return the law of tasks that all take the mean."""
        return cls(np.full((1, 1, 1), mean))


class Rehearsal:
    """Rounds on workers of some laws and links, drawn once for all strategies.

    rounds: of all histories together. nbytes: of a message.
    """

    def __init__(
        self, laws: Sequence[Delay], links: FloatArray, *, costs: Costs, nbytes: float, rounds: int, seed: int
    ) -> None:
        self._laws, self._links, self._rounds, self._seed = laws, links, rounds, seed
        self._message = costs.message + nbytes / costs.bandwidth
        self._round = costs.round

    def times(self, plans: Sequence[Plan]) -> list[FloatArray]:
        """Return the time of every round under each plan, shape (histories, rounds)."""
        tasks = max(int(plan.counts.max()) + len(plan.pooled) for plan in plans)
        each = -(-self._rounds // HISTORIES)
        step = max(1, min(each, _HELD // (tasks * len(self._laws) * HISTORIES)))
        chances = [place_generator(self._seed, place) for place in range(len(self._laws))]
        memory = [law.begin(HISTORIES, rng) for law, rng in zip(self._laws, chances, strict=True)]
        found: list[list[FloatArray]] = [[] for _ in plans]
        for at in range(0, each, step):
            size = (HISTORIES, min(step, each - at), tasks)
            drawn = []
            for p, (law, rng) in enumerate(zip(self._laws, chances, strict=True)):
                times, memory[p] = law.advance(memory[p], (*size[:2], 1 if law.one_pace else tasks), rng)
                drawn.append(np.broadcast_to(times, size))
            for plan, parts in zip(plans, found, strict=True):
                parts.append(self._played(plan, drawn))
        return [np.concatenate(parts, axis=1) + self._round for parts in found]

    def _played(self, plan: Plan, drawn: list[FloatArray]) -> FloatArray:
        laws: list[Any] = [_Drawn(self._with_messages(plan, p, times)) for p, times in enumerate(drawn)]
        sampler = RoundSampler(plan, laws, self._links)
        rng = place_generator(self._seed, 0)
        return sampler.draw(sampler.begin(HISTORIES, rng), HISTORIES, drawn[0].shape[1], rng)[0].times

    def _with_messages(self, plan: Plan, p: int, times: FloatArray) -> FloatArray:
        """Return task times that include what a message takes, whatever its task costs."""
        if not self._message:
            return times
        costs = np.ones(times.shape[-1])
        lane = [*plan.costs[p], *(task.cost for task in plan.pooled)]
        costs[: len(lane)] = lane
        return times + self._message / costs
