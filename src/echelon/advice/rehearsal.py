"""Every strategy on the same draws: what differs between two of them is then the strategies, and not luck."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.random import Generator

from echelon.arrays import FloatArray
from echelon.delays import Delay
from echelon.plan import Plan
from echelon.seeds import place_generator
from echelon.simulation import RoundSampler

HISTORIES = 40  # independent ones, each of so many rounds that they add up
_HELD = 1 << 23  # numbers held at once


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A plan to be tried, with what it costs beside computing.

    extra: seconds that each task takes besides, an array a lane, in which those of the pool follow the lane's own.
    more: seconds that a round takes besides.
    spans: which of a worker's part times each task goes by, from the first up to the last, a list a lane: it takes its
        cost times their mean. Without, each task goes by one time of its own.
    """

    plan: Plan
    extra: tuple[FloatArray, ...] = ()
    more: float = 0.0
    spans: tuple[tuple[tuple[int, int], ...], ...] = ()

    @property
    def most(self) -> int:
        """Number of times that must be drawn for one worker; rows of a pool are nobody's twice."""
        if self.spans:
            return max(last for lane in self.spans for _, last in lane)
        lane = int(self.plan.counts.max())
        return lane if self.plan.pool is None else min(lane + len(self.plan.pooled), self.plan.slots[0].rows)


@dataclass(frozen=True)
class Drawn(Delay):
    """A law that gives out times which were drawn before, shape (histories, rounds, tasks).

    kept: whether whoever gets them leaves them as they are; others get a copy.
    """

    times: FloatArray
    kept: bool

    @property
    def mean(self) -> float:
        """Mean of what was drawn."""
        return float(self.times.mean())

    @property
    def std(self) -> float:
        """Deviation of what was drawn."""
        return float(self.times.std())

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return the first tasks of every round."""
        some = self.times[..., : size[-1]]
        return some if self.kept else some.copy()

    @classmethod
    def fit(cls, mean: float, std: float) -> Self:
        """Return the law of tasks that all take the mean."""
        return cls(np.full((1, 1, 1), mean), kept=False)


class Rehearsal:
    """Rounds on workers of some laws and links, drawn once for all strategies; `rounds` in all histories together."""

    def __init__(self, laws: Sequence[Delay], links: FloatArray, *, rounds: int, seed: int) -> None:
        self._laws, self._links, self._rounds, self._seed = laws, links, rounds, seed

    def times(self, tried: Sequence[Rehearsed]) -> list[FloatArray]:
        """Return the time of every round under each plan, shape (histories, rounds)."""
        tasks = max(one.most for one in tried)
        each = -(-self._rounds // HISTORIES)
        step = max(1, min(each, _HELD // (tasks * len(self._laws) * HISTORIES)))
        chances = [place_generator(self._seed, place) for place in range(len(self._laws))]
        memory = [law.begin(HISTORIES, rng) for law, rng in zip(self._laws, chances, strict=True)]
        found: list[list[FloatArray]] = [[] for _ in tried]
        for at in range(0, each, step):
            size = (HISTORIES, min(step, each - at), tasks)
            drawn = []
            for p, (law, rng) in enumerate(zip(self._laws, chances, strict=True)):
                times, memory[p] = law.advance(memory[p], (*size[:2], 1 if law.one_pace else tasks), rng)
                drawn.append(np.broadcast_to(times, size))
            shifted: dict[tuple[int, float], FloatArray] = {}  # by worker and what all of its tasks take besides
            for one, parts in zip(tried, found, strict=True):
                parts.append(self._played(one, drawn, shifted))
        return [np.concatenate(parts, axis=1) + one.more for one, parts in zip(tried, found, strict=True)]

    def _played(
        self, one: Rehearsed, drawn: list[FloatArray], shifted: dict[tuple[int, float], FloatArray]
    ) -> FloatArray:
        plan, laws = one.plan, list[Delay]()
        for p, times in enumerate(drawn):
            if one.spans:
                means = [times[..., first:last].mean(axis=-1) for first, last in one.spans[p]]
                times = np.stack(means, axis=-1) if means else times[..., :0]
            if one.extra and one.extra[p].any():
                times = _with_extra(plan, p, times[..., : one.most], one.extra[p], shifted)
            laws.append(Drawn(times, kept=plan.pool is not None))
        sampler = RoundSampler(plan, laws, self._links)
        rng = place_generator(self._seed, 0)
        return sampler.draw(sampler.begin(HISTORIES, rng), HISTORIES, drawn[0].shape[1], rng)[0].times


def _with_extra(
    plan: Plan, p: int, times: FloatArray, extra: FloatArray, shifted: dict[tuple[int, float], FloatArray]
) -> FloatArray:
    """Return times of tasks that include what each takes besides, whatever it costs."""
    tasks = times.shape[-1]
    costs = np.concatenate([plan.costs[p], [task.cost for task in plan.pooled]])
    more = np.zeros(tasks)
    more[: len(extra)] = (extra / costs)[:tasks]
    if plan.pool is None or more.min() != more.max():
        return times + more
    key = p, float(more[0])
    if key not in shifted or shifted[key].shape[-1] < tasks:
        shifted[key] = times + more
    return shifted[key]
