"""A record of rounds that was made of all workers at once, replayed so that what they shared stays shared."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.random import Generator

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.delays.base import Delay
from echelon.reprs import short_repr


@dataclass(frozen=True)
class Recorded(Delay):
    """One worker's column of a table of rounds x workers; all columns are replayed from the same round on.

    Prefer it to `Trace` where a record says what whole rounds took: rounds in which several workers are slow together,
    workers that are slow for some rounds in a row, and neighbours that are slow at the same time come as they came.
    Workers whose records have the same number of rounds count as recorded together (`together`): every evaluator draws
    the round at which they begin once for all of them (`begin_all`), and goes on from round to round, wrapping around.

    times: what each round took, in seconds; one number per round.
    part: seconds that each part takes. Round t then takes ``times[t] + C * part`` for a lane of C parts: what was
        recorded is the cost of a call, which its first part carries, and only `part` grows with the work. Work that is
        handed out later in a round is another call, and carries the cost again. Without `part`, ``times[t]`` is the
        pace of round t: every part takes that long, and C parts take ``C * times[t]``.

    A task takes the sum of its parts' times as under every law, so that of a first task of less than one part the cost
    of the round is scaled, too: let parts be so small that tasks have whole costs. `mean` and `std` are of a round of
    one part. `RecordedTimes.laws` makes such laws of a table that was recorded at several loads.

    >>> law = Recorded(times=[0.5, 0.7], part=0.1)
    >>> law.advance(np.array([1]), (1, 3, 2), np.random.default_rng(1))[0].round(9).tolist()
    [[[0.8, 0.1], [0.6, 0.1], [0.8, 0.1]]]
    """

    times: tuple[float, ...]
    part: float | None = None

    __repr__ = short_repr

    def __init__(self, *, times: Sequence[float], part: float | None = None) -> None:
        object.__setattr__(self, "part", None if part is None else checks.number("part", part, least=0))
        kept = checks.record("times", times)
        object.__setattr__(self, "times", kept)
        object.__setattr__(self, "_record", np.array(kept))

    @property
    def mean(self) -> float:
        """Mean time of a round of one part."""
        return float(np.mean(self.times)) + (self.part or 0.0)

    @property
    def std(self) -> float:
        """Deviation of the rounds."""
        return float(np.std(self.times))

    independent_rounds = False  # a round is followed by the one that followed it

    @property
    def one_pace(self) -> bool:
        """Whether the record is of paces, and not of what a round costs."""
        return self.part is None

    @property
    def per_call(self) -> bool:
        """Whether the record is of what calls cost."""
        return self.part is not None

    @property
    def cycle(self) -> int:
        """The number of rounds."""
        return len(self.times)

    @property
    def together(self) -> Hashable:
        """The number of rounds: records of as many are replayed side by side."""
        return "recorded", len(self.times)

    @classmethod
    def fit(cls, mean: float, std: float, *, times: Sequence[float] = (), part: float | None = None) -> Self:
        """Return the record, with all its times stretched to this mean; its relative spread stays as recorded."""
        own = cls(times=times, part=part)
        factor = mean / own.mean
        return cls(times=[time * factor for time in own.times], part=None if own.part is None else own.part * factor)

    def sample(self, size: tuple[int, ...], rng: Generator) -> FloatArray:
        """Return stretches of the record, each from its own random round on."""
        rounds, tasks = size[-2:]
        seeds = int(np.prod(size[:-2], dtype=np.int64))
        return self.advance(self.begin(seeds, rng), (seeds, rounds, tasks), rng)[0].reshape(size)

    def begin(self, seeds: int, rng: Generator) -> IntArray:
        """Return the round at which each run begins; workers that were recorded together share it (`begin_all`)."""
        return rng.integers(0, len(self.times), seeds)

    def advance(self, state: IntArray, size: tuple[int, int, int], rng: Generator) -> tuple[FloatArray, IntArray]:
        """Return the parts' times of the next rounds, and the round after them."""
        _, rounds, parts = size
        record: FloatArray = self._record  # type: ignore[attr-defined]
        seen = record[(state[:, None] + np.arange(rounds)) % len(record)]
        if self.part is None:
            times = np.repeat(seen[..., None], parts, axis=2)
        else:
            times = np.full(size, self.part)
            times[..., :1] += seen[..., None]
        return times, (state + rounds) % len(record)
