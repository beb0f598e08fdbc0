"""Emulated heterogeneity: a worker takes the times that a delay law draws, so that one machine stands for many."""

import os
from dataclasses import dataclass
from typing import Any

from numpy.random import Generator

from echelon import checks
from echelon.delays import Delay, Trace, begin_all, task_laws
from echelon.delays.base import DRAWN, MISSED, parts_of
from echelon.errors import ArgumentError
from echelon.profile import Profile
from echelon.seeds import place_generator


@dataclass(slots=True)
class Pace:
    """When the messages of a lane are due: link + T_1 + … + T_j after the round began (stream, note 1).

    A task of several parts takes the sum of their times. One that is given out later is due no earlier than the link
    and its own time after that; where calls cost something, it is another call.

    memory: what the law remembers before the first round; by default it begins on its own, beside no other worker.

    >>> from echelon.delays import Deterministic
    >>> from echelon.seeds import place_generator
    >>> pace = Pace(Deterministic(time=2.0), 0.5, place_generator(1, 0))
    >>> pace.begin(round=1, start=100.0, parts=4)
    >>> pace.due(1.0, given=100.0), pace.due(3.0, given=100.0), pace.due(1.0, given=120.0)
    ((102.5, 2.0), (108.5, 6.0), (122.5, 2.0))
    """

    law: Delay
    link: float
    rng: Generator
    memory: Any = None
    _before: Any = None
    _times: Any = None
    _at: int = 0
    _base: float = 0.0  # start of its work without a pause, link included
    _spent: float = 0.0
    _given: float = 0.0
    _round: int = 0

    def begin(self, *, round: int, start: float, parts: int) -> None:
        """Draw the times of a lane that began at `start`, and of tasks that may be added to it.

        So a round's times do not depend on how many parts the lane has, up to 128, nor on when they come, and bursts go
        on through rounds in which this worker had no lane. A recorded trace goes on from task to task: only what is
        used of it is drawn.
        """
        replayed = isinstance(self.law, Trace)
        if self.memory is None:
            self.memory = self.law.begin(1, self.rng)
        missed, self._round = round - self._round - 1, round
        while missed > 0 and not replayed:
            _, self.memory = self.law.advance(self.memory, (1, min(missed, MISSED), DRAWN), self.rng)
            missed -= MISSED
        self._base, self._spent, self._at, self._given = start + self.link, 0.0, 0, start
        self._draw(parts if replayed else DRAWN * -(-parts // DRAWN))

    def _draw(self, parts: int) -> None:
        self._before = self.memory
        drawn, self.memory = self.law.advance(self.memory, (1, 1, parts), self.rng)
        self._times = drawn[0, 0]

    def _draw_more(self) -> None:
        """Draw another part of the same round, for a lane that grew since it began."""
        if self.law.together is None:
            self._draw(1)
            self._at = 0
        else:  # the round goes on as it was recorded
            drawn, _ = self.law.advance(self._before, (1, 1, 2 * len(self._times)), self.rng)
            self._times = drawn[0, 0]

    def cut(self, now: float) -> None:
        """Give up the current task: the next one begins now."""
        self._base, self._spent = now + self.link, 0.0

    def due(self, cost: float, *, given: float, slower: float = 1.0) -> tuple[float, float]:
        """Return when the next message is due, of a task that was given out at `given`, and how long it takes.

        slower: how many times longer it takes than was drawn.
        """
        if given + self.link > self._base + self._spent:
            self._base, self._spent = given + self.link, 0.0
        if self.law.per_call and given > self._given:
            self._at, self._given = 0, given
        time = slower * self._takes(cost)
        return self.spend(time), time

    def _takes(self, cost: float) -> float:
        """Return the time of a task of this cost: that of its parts, one after another."""
        whole = parts_of(cost) - 1
        return sum(self._next() for _ in range(whole)) + (cost - whole) * self._next()

    def _next(self) -> float:
        """Return the time of the next part."""
        if self._at >= len(self._times):
            if self.law.one_pace:
                self._at = 0
            else:
                self._draw_more()
        self._at += 1
        return float(self._times[self._at - 1])

    def spend(self, seconds: float) -> float:
        """Return when the current message is due if it takes this much longer."""
        self._spent += seconds
        return self._base + self._spent


def paces(workers: int | None, emulate: Profile | None, seed: int) -> list[Pace | None]:
    """Return one pace per worker: of a profile's laws and links; or None, by default one per processor."""
    if emulate is None:
        workers = os.cpu_count() if workers is None else workers
        return [None] * checks.whole("workers", workers, least=1, most=10**4)
    checks.instance("emulate", emulate, Profile)
    laws, links = task_laws(emulate), emulate.speeds.link.tolist()
    if workers not in (None, len(laws)):
        raise ArgumentError(f"workers: {workers} is not allowed; must be {len(laws)}, the number of emulated workers")
    rngs = [place_generator(seed, place) for place in range(len(laws))]
    memories = begin_all(laws, 1, rngs)
    return [Pace(*one) for one in zip(laws, links, rngs, memories, strict=True)]
