"""Times of the parts of a chain's rounds, many seeds at once: given for each round, or drawn by law."""

from collections.abc import Sequence

import numpy as np

from echelon.arrays import BoolArray, FloatArray, IntArray
from echelon.delays import Delay, Trace, begin_all
from echelon.delays.base import draws
from echelon.seeds import place_generator

_NUMBERS = 1 << 22  # times drawn at once


class Paces:
    """One time per worker and round, for all its parts."""

    def __init__(self, paces: FloatArray) -> None:
        self._paces = paces

    def of_round(self, t: int, counts: IntArray) -> FloatArray:
        """Return the times of a round's parts, shape (seeds, workers, 1): the same for each."""
        return self._paces[:, t, :, None]


class Draws:
    """Times of parts by law, drawn in chunks of rounds: the j-th of a worker is for the j-th part of its lane.

    What a round does not need is dropped, as in virtual time; a recorded trace goes on from part to part instead.

    parts: the most that a lane has.
    """

    def __init__(self, laws: Sequence[Delay], runs: int, rounds: int, parts: int, seed: int) -> None:
        self._laws, self._runs, self._rounds, self._parts = laws, runs, rounds, parts
        self._rngs = [place_generator(seed, place) for place in range(len(laws))]
        self._memories = begin_all(laws, runs, self._rngs)
        self._replayed = [place for place, law in enumerate(laws) if isinstance(law, Trace)]
        self._chunk = max(1, min(rounds, _NUMBERS // (runs * parts * len(laws))))
        self._drawn = np.empty((len(laws), runs, self._chunk, parts))

    def of_round(self, t: int, counts: IntArray) -> FloatArray:
        """Return the times of a round's parts, shape (seeds, workers, parts); counts: parts of each lane, by seed."""
        at = t % self._chunk
        if at == 0:
            self._draw(min(self._chunk, self._rounds - t))
        for place in self._replayed:
            self._replay(place, counts, self._drawn[place, :, at])
        return self._drawn[:, :, at].transpose(1, 0, 2)

    def _draw(self, rounds: int) -> None:
        size = (self._runs, rounds, self._parts)
        for place, (law, rng) in enumerate(zip(self._laws, self._rngs, strict=True)):
            if place not in self._replayed:
                self._drawn[place, :, :rounds], self._memories[place] = law.advance(self._memories[place], size, rng)

    def _replay(self, place: int, counts: IntArray, times: FloatArray) -> None:
        memory = self._memories[place]
        for count in np.unique(counts):
            some = np.flatnonzero(counts == count)
            found, memory[some] = self._laws[place].advance(memory[some], (len(some), 1, count), self._rngs[place])
            times[some, :count] = found[:, 0]


def lane_times(there: BoolArray, costs: FloatArray, times: FloatArray) -> FloatArray:
    """Return what the tasks of lanes take, shape (seeds, workers, tasks), one after another those that are there.

    there: which tasks lanes have, shape (seeds, tasks); the others take no time. costs: of the tasks, shape (tasks,).
    times: of the lanes' parts, shape (seeds, workers, parts), or (seeds, workers, 1) where all take the same.
    A task takes the sum of its parts' times, as in `echelon.delays.base.task_times`.

    >>> there, parts = np.array([[True, False, True]]), np.array([[[1.0, 2.0, 4.0, 8.0]]])
    >>> lane_times(there, np.array([1.0, 1.0, 2.5]), parts).tolist()
    [[[1.0, 0.0, 10.0]]]
    """
    if times.shape[2] == 1:
        return (there * costs)[:, None] * times
    each = draws(costs)
    ends = np.cumsum(there * each, axis=1)
    found = np.zeros((*times.shape[:2], len(costs)))
    for back in range(int(each.max())):  # the last parts of all tasks, those before the last, and so on
        share = there * (np.where(each > back, 1.0, 0.0) if back else costs - (each - 1))
        found += share[:, None] * np.take_along_axis(times, np.maximum(ends - 1 - back, 0)[:, None], axis=2)
    return found
