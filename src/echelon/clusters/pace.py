"""Emulated heterogeneity: a worker takes the times that a delay law draws, so that one machine stands for many."""

from dataclasses import dataclass
from typing import Any

from numpy.random import Generator

from echelon import checks
from echelon.delays import Delay, Trace, task_laws
from echelon.errors import ArgumentError
from echelon.profile import Profile
from echelon.seeds import place_generator

DRAWN = 128  # tasks whose times are drawn together


@dataclass(slots=True)
class Pace:
    """When the messages of a lane are due: link + T_1 + … + T_j after the round began (stream, note 1).

    >>> from echelon.delays import Deterministic
    >>> from echelon.seeds import place_generator
    >>> pace = Pace(Deterministic(time=2.0), 0.5, place_generator(1, 0))
    >>> pace.begin(100.0, 2)
    >>> pace.due(1.0), pace.due(3.0)
    ((102.5, 2.0), (108.5, 6.0))
    """

    law: Delay
    link: float
    rng: Generator
    _memory: Any = None
    _times: Any = None
    _at: int = 0
    _due: float = 0.0

    def begin(self, start: float, tasks: int) -> None:
        """Draw the times of a lane that began at `start`, and of tasks that may be added to it.

        So which times a round takes does not depend on how many tasks the lane has, up to 128, nor on when they come. A
        recorded trace goes on from task to task, and is not drawn ahead.
        """
        if self._memory is None:
            self._memory = self.law.begin(1, self.rng)
        self._due, self._at = start + self.link, 0
        self._draw(tasks if isinstance(self.law, Trace) else DRAWN * -(-tasks // DRAWN))

    def _draw(self, tasks: int) -> None:
        drawn, self._memory = self.law.advance(self._memory, (1, 1, tasks), self.rng)
        self._times = drawn[0, 0]

    def resume(self, start: float) -> None:
        """Go on with a lane that was done, for tasks that were given out at `start`: their link is paid again."""
        self._due = max(self._due, start + self.link)

    def cut(self, now: float) -> None:
        """Give up the task at hand: the next one begins now."""
        self._due = now + self.link

    def due(self, cost: float) -> tuple[float, float]:
        """Return when the next message is due, and how long its task takes."""
        if self._at >= len(self._times):  # the lane grew since it began
            if not self.law.one_pace:
                self._draw(1)
            self._at = 0
        time = float(self._times[self._at]) * cost
        self._at += 1
        self._due += time
        return self._due, time


def paces(workers: int | None, emulate: Profile | None, seed: int) -> list[Pace | None]:
    """Return the pace of every worker: none, or that of a profile's laws and links."""
    if emulate is None:
        return [None] * checks.whole("workers", workers, least=1, most=10**4)
    laws, links = task_laws(emulate), emulate.speeds.link.tolist()
    if workers not in (None, len(laws)):
        raise ArgumentError(f"workers: {workers} is not allowed; must be {len(laws)}, as many as are emulated")
    return [
        Pace(law, link, place_generator(seed, place)) for place, (law, link) in enumerate(zip(laws, links, strict=True))
    ]
