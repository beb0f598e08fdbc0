"""Bursts of slowness by Fritchman's chain: one good state and a row of bad ones that are passed in order."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.delays.base import Delay
from echelon.delays.gamma import Gamma
from echelon.delays.straggler import healthy_law, slowed_moments


@dataclass(frozen=True, kw_only=True)
class Fritchman(Delay):
    """A worker is slow for whole bursts of rounds, `slowdown` times slower than its `base` law.

    After each round a good worker turns bad with probability `enter`; a bad one moves on to the next of
    `states` bad states with probability `leave`, and from the last of them back to good. A burst thus lasts
    states/leave rounds on average, and the more states, the less its length varies. One bad state is the
    Gilbert-Elliott chain.

    >>> from echelon.delays import Deterministic
    >>> Fritchman(base=Deterministic(time=1.0), enter=0.1, leave=0.5, states=2, slowdown=3.0).share
    0.2857142857142857
    """

    base: Delay
    enter: float
    leave: float
    slowdown: float
    states: int = 3

    def __post_init__(self) -> None:
        checks.number("enter", checks.probability("enter", self.enter), above=0)
        checks.number("leave", checks.probability("leave", self.leave), above=0)
        checks.number("slowdown", self.slowdown, least=1)
        checks.whole("states", self.states, least=1)

    @property
    def share(self) -> float:
        """Long-run share of slow rounds."""
        burst = self.states / self.leave
        return burst / (burst + 1 / self.enter)

    @property
    def mean(self) -> float:
        """Mean over good and bad rounds."""
        return slowed_moments(self.base, self.share, self.slowdown)[0]

    @property
    def std(self) -> float:
        """Deviation over good and bad rounds."""
        return slowed_moments(self.base, self.share, self.slowdown)[1]

    independent_rounds = False  # a slow round makes the next one likely to be slow

    @classmethod
    def fit(
        cls,
        mean: float,
        std: float,
        *,
        enter: float = 0.05,
        leave: float = 0.5,
        slowdown: float = 5.0,
        states: int | None = None,
    ) -> Self:
        """Return the chain whose good tasks are gamma and whose overall moments are these."""
        # a first chain checks the parameters and knows its share of slow rounds, whatever its base
        chain = cls(base=Gamma(shape=1, scale=1), enter=enter, leave=leave, slowdown=slowdown)
        if states is not None:
            chain = replace(chain, states=states)
        return replace(chain, base=healthy_law(mean, std, chain.share, slowdown))

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return task times of independent workers that start in the long-run law."""
        rounds, tasks = size[-2:]
        seeds = int(np.prod(size[:-2], dtype=np.int64))
        return self.advance(self.begin(seeds, rng), (seeds, rounds, tasks), rng)[0].reshape(size)

    def begin(self, seeds: int, rng: Generator) -> IntArray:
        """Return the phase of each worker, 0 for good and 1…states for bad, in the long-run law."""
        bad = rng.random(seeds) < self.share
        return np.where(bad, rng.integers(1, self.states + 1, seeds), 0)

    def advance(self, state: IntArray, size: tuple[int, int, int], rng: Generator) -> tuple[FloatArray, IntArray]:
        """Return task times of the next rounds and the phases after them."""
        seeds, rounds, _ = size
        slow = np.empty((seeds, rounds), dtype=bool)
        after = state.copy()
        if rounds <= seeds:  # all workers step together, round by round
            chance = np.full(self.states + 1, self.leave)
            chance[0] = self.enter
            for number in range(rounds):
                slow[:, number] = after > 0
                after = (after + (rng.random(seeds) < chance[after])) % (self.states + 1)
        else:
            for i in range(seeds):
                slow[i], after[i] = self._walk(int(state[i]), rounds, rng)
        times = self.base.sample(size, rng)
        times *= np.where(slow, self.slowdown, 1.0)[..., None]
        return times, after

    def _walk(self, phase: int, rounds: int, rng: Generator) -> tuple[NDArray[np.bool_], int]:
        """Return which of the next rounds are slow and the phase after them, by drawing whole sojourns."""
        cycle = self.states + 1
        chance = np.full(cycle, self.leave)
        chance[0] = self.enter
        phases = np.empty(0, dtype=np.int64)
        while len(phases) <= rounds:
            # sojourns are geometric, hence without memory: a chunk may begin in the middle of one
            laps = 2 + int((rounds - len(phases)) / (1 / self.enter + self.states / self.leave))
            order = (phase + np.arange(laps * cycle)) % cycle
            # lay out no more of a long sojourn than these rounds can need
            lengths = np.minimum(rng.geometric(chance[order]), rounds + 1)
            phases = np.concatenate([phases, np.repeat(order, lengths)])
            phase = (phase + laps * cycle) % cycle
        return phases[:rounds] > 0, int(phases[rounds])
