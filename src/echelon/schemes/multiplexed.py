"""Multiplexed gradients over rounds: own chunks are tried again, and a little coding covers who is still behind."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from echelon.arrays import BoolArray, FloatArray
from echelon.codes import Code, cyclic, uncoded
from echelon.schemes.gradient_chain import GradientChain, Mini, Underway
from echelon.seeds import place_generator


@dataclass(frozen=True, kw_only=True)
class Multiplexed(GradientChain):
    """See `m_sgc`. Unit 0 is what workers have of their own; unit 1 + g is coded group g."""

    @property
    def delay(self) -> int:
        """T = W - 2 + B."""
        return self.window - 2 + self.length

    @property
    def coded(self) -> bool:
        """Whether there are coded groups: with lambda = n there are none, and all is tried again by its owner."""
        return self.workers_at_once < self.workers

    @cached_property
    def codes(self) -> tuple[Code, ...]:
        """None for the own chunks, of which all are needed; any n - lambda rows of a group."""
        own = uncoded(parts=self.workers * (self.window - 1))
        if not self.coded:
            return (own,)
        rng = place_generator(self.seed, 0)
        return own, cyclic(rows=self.workers, load=self.workers_at_once + 1, rng=rng)

    @property
    def units(self) -> int:
        """The own chunks, and B groups."""
        return 1 + self.length * self.coded

    @property
    def share(self) -> float:
        """What one mini-task costs: an own chunk, or lambda + 1 chunks of a group."""
        n, b, tries = self.workers, self.length, self.window - 1
        if not self.coded:
            return 1 / (n * tries)
        some = self.workers_at_once + 1
        return some / (n * (b + tries * some))

    @property
    def load(self) -> float:
        """W - 1 + B mini-tasks."""
        return (self.window - 1 + self.length) * self.share

    @cached_property
    def shares(self) -> FloatArray:
        """How large each chunk is: n (W - 1) own ones, then B n smaller ones."""
        own = np.full(self.workers * (self.window - 1), self.share)
        if not self.coded:
            return own
        return np.append(own, np.full(self.workers * self.length, self.share / (self.workers_at_once + 1)))

    def first_chunk(self, unit: int) -> int:
        """Return the number of a unit's first chunk."""
        return 0 if unit == 0 else self.workers * (self.window - 2 + unit)

    def units_at(self, age: int) -> tuple[int, ...]:
        """Return the own chunks, and the group whose turn it is, or will be first."""
        return (0, 1 + max(0, age - (self.window - 1))) if self.coded else (0,)

    def due_at(self, age: int) -> tuple[int, ...]:
        """Return the group whose turn it is: it is recovered within its round; and in the last one all."""
        group = (age - self.window + 2,) if self.coded and age >= self.window - 1 else ()
        return (0, *group) if age == self.delay else group

    def minis(self, going: Sequence[Underway], safe: BoolArray) -> list[list[Mini]]:
        """Return one mini-task of each gradient for each worker, fewer where nothing is left."""
        return [
            [mini for place in range(self.workers) if (mini := self._mini(gradient, place)) is not None]
            for gradient in going
        ]

    def _mini(self, gradient: Underway, place: int) -> Mini | None:
        tries = self.window - 1
        own = range(place * tries, (place + 1) * tries)
        if gradient.age < tries:
            return Mini(place, 0, own[gradient.age])
        failed = [row for row in own if row not in gradient.came[0]]
        if failed:
            return Mini(place, 0, failed[0])
        return Mini(place, 1 + gradient.age - tries, place) if self.coded else None


def m_sgc(
    workers: int,
    *,
    workers_at_once: int,
    length: int,
    window: int,
    tolerance: float = 0.0,
    waiting: str = "due",
    seed: int = 1,
) -> Multiplexed:
    """Return M-SGC: least work per round where workers are slow in bursts; needs W - 1 + B models or more, in turn.

    A gradient has W - 1 + B rounds. In the first W - 1 each worker tries chunks of its own, which nobody else has; in
    the B others it repeats those that failed, or else takes part in a coded group, of which any n - lambda workers are
    enough. The load of a round is (lambda + 1)(W - 1 + B) / (n (B + (W - 1)(lambda + 1))), little more than 1/n.

    In any W rounds at most lambda = `workers_at_once` workers may straggle, each within B = `length` rounds. A round in
    which they would not conform waits for some.

    >>> scheme = m_sgc(4, workers_at_once=1, length=1, window=2)
    >>> scheme.delay, scheme.parts, round(scheme.load, 4), scheme.shares.round(4).tolist()
    (1, 8, 0.3333, [0.1667, 0.1667, 0.1667, 0.1667, 0.0833, 0.0833, 0.0833, 0.0833])
    """
    return Multiplexed(
        workers=workers,
        workers_at_once=workers_at_once,
        length=length,
        window=window,
        tolerance=tolerance,
        waiting=waiting,
        seed=seed,
    )
