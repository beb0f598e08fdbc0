"""Times of the tasks of a chain's rounds, many seeds at once: given for each round, or drawn by law."""

from collections.abc import Sequence

import numpy as np

from echelon.arrays import FloatArray, IntArray
from echelon.delays import Delay, Trace
from echelon.seeds import place_generator

_NUMBERS = 1 << 22  # times drawn at once


class Paces:
    """One time per worker and round, for all its tasks."""

    def __init__(self, paces: FloatArray) -> None:
        self._paces = paces

    def of_round(self, t: int, counts: IntArray) -> FloatArray:
        """Return the times of a round, shape (seeds, workers, 1)."""
        return self._paces[:, t, :, None]


class Draws:
    """Times of tasks by law, drawn in chunks of rounds: the j-th of a worker is for the j-th task of its lane.

    What a round does not need is dropped, as in virtual time; a recorded trace goes on from task to task instead.
    """

    def __init__(self, laws: Sequence[Delay], runs: int, rounds: int, tasks: int, seed: int) -> None:
        self._laws, self._runs, self._rounds, self._tasks = laws, runs, rounds, tasks
        self._rngs = [place_generator(seed, place) for place in range(len(laws))]
        self._memories = [law.begin(runs, rng) for law, rng in zip(laws, self._rngs, strict=True)]
        self._replayed = [place for place, law in enumerate(laws) if isinstance(law, Trace)]
        self._chunk = max(1, min(rounds, _NUMBERS // (runs * tasks * len(laws))))
        self._drawn = np.empty((len(laws), runs, self._chunk, tasks))

    def of_round(self, t: int, counts: IntArray) -> FloatArray:
        """Return the times of a round, shape (seeds, workers, tasks); counts: tasks of each lane, by seed."""
        at = t % self._chunk
        if at == 0:
            self._draw(min(self._chunk, self._rounds - t))
        for place in self._replayed:
            self._replay(place, counts, self._drawn[place, :, at])
        return self._drawn[:, :, at].transpose(1, 0, 2)

    def _draw(self, rounds: int) -> None:
        size = (self._runs, rounds, self._tasks)
        for place, (law, rng) in enumerate(zip(self._laws, self._rngs, strict=True)):
            if place not in self._replayed:
                self._drawn[place, :, :rounds], self._memories[place] = law.advance(self._memories[place], size, rng)

    def _replay(self, place: int, counts: IntArray, times: FloatArray) -> None:
        memory = self._memories[place]
        for count in np.unique(counts):
            some = np.flatnonzero(counts == count)
            found, memory[some] = self._laws[place].advance(memory[some], (len(some), 1, count), self._rngs[place])
            times[some, :count] = found[:, 0]
