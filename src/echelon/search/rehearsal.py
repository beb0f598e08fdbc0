"""Every strategy on the same draws: what differs between two of them is then the strategies, and not luck."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.random import Generator

from echelon.arrays import FloatArray
from echelon.can import Rules
from echelon.delays import Delay, begin_all, common_cycle
from echelon.delays.base import draws, parts_of
from echelon.plan import Plan
from echelon.seeds import place_generator
from echelon.simulation import RoundSampler
from echelon.simulation.beside import Adding

HISTORIES = 40  # independent of one another; they share the rounds among them
_HELD = 1 << 23  # numbers held at once


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A plan to be tried, with what it costs beside computing.

    beside: seconds that each task takes besides, one array per lane, in which those of the pool follow the lane's own.
    more: seconds that a round takes besides.
    port: seconds that each message takes at the master's port, as for `beside`.
    adding: what adding up takes where rows stay with their workers.
    """

    plan: Plan
    beside: tuple[FloatArray, ...] = ()
    more: float = 0.0
    port: tuple[FloatArray, ...] = ()
    adding: Adding | None = None

    @property
    def rules(self) -> Rules:
        """How its rounds are run."""
        return Rules(port=bool(self.port), stay=self.adding is not None)

    @property
    def most(self) -> int:
        """Number of parts whose times must be drawn for one worker; rows of a pool are nobody's twice."""
        lane = max(int(draws(costs).sum()) for costs in self.plan.costs)
        return lane + sum({task.row: parts_of(task.cost) for task in self.plan.pooled}.values())

    def sampler(self, laws: Sequence[Delay], links: FloatArray) -> RoundSampler:
        """Return what draws rounds of it."""
        return RoundSampler(
            self.plan, laws, links, beside=self.beside or 0.0, more=self.more, port=self.port, adding=self.adding
        )


@dataclass(frozen=True)
class Drawn(Delay):
    """A law that gives out times of parts which were drawn before, shape (histories, rounds, parts).

    kept: whether they are given out as they are, to code that does not write to them, and not as a copy.
    per_call: as of the law that they were drawn from.
    """

    times: FloatArray
    kept: bool
    per_call: bool = False

    @property
    def mean(self) -> float:
        """Mean of what was drawn."""
        return float(self.times.mean())

    @property
    def std(self) -> float:
        """Deviation of what was drawn."""
        return float(self.times.std())

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return the first parts of every round."""
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
        """Return the time of every round under each plan, shape (histories, rounds).

        Where rounds come again in a cycle, there is one history of one cycle.
        """
        cycle = common_cycle(self._laws)
        if cycle is not None:
            rng = place_generator(self._seed, 0)
            samplers = [one.sampler(self._laws, self._links) for one in tried]
            return [sampler.draw(sampler.begin(1, rng), 1, cycle, rng)[0].times for sampler in samplers]
        parts = max(one.most for one in tried)
        each = -(-self._rounds // HISTORIES)
        step = max(1, min(each, _HELD // (parts * len(self._laws) * HISTORIES)))
        chances = [place_generator(self._seed, place) for place in range(len(self._laws))]
        memory = begin_all(self._laws, HISTORIES, chances)
        found: list[list[FloatArray]] = [[] for _ in tried]
        for at in range(0, each, step):
            size = (HISTORIES, min(step, each - at), parts)
            drawn = []
            for p, (law, rng) in enumerate(zip(self._laws, chances, strict=True)):
                times, memory[p] = law.advance(memory[p], (*size[:2], 1 if law.one_pace else parts), rng)
                drawn.append(np.broadcast_to(times, size))
            for one, pieces in zip(tried, found, strict=True):
                kept = one.plan.pool is not None
                laws = [
                    Drawn(times, kept=kept, per_call=law.per_call) for times, law in zip(drawn, self._laws, strict=True)
                ]
                sampler, rng = one.sampler(laws, self._links), place_generator(self._seed, 0)
                pieces.append(sampler.draw(sampler.begin(HISTORIES, rng), HISTORIES, size[1], rng)[0].times)
        return [np.concatenate(pieces, axis=1) for pieces in found]
