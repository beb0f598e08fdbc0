"""How slow each rank is, who waited for whom, and what other sizes would have taken: arithmetic on stamps alone.

Stamps are an array of shape (steps, ranks, 4): seconds since the end of the step before, on each rank's own clock, at
which its forward pass began, its first and its last bucket were ready, and the reduce was over. All ranks leave a
reduce together, so these durations can be compared, whatever their clocks say.
"""

from dataclasses import asdict, dataclass

import numpy as np

from echelon.arrays import FloatArray, IntArray
from echelon.stream.scores import Score
from echelon.stream.scores import scores as scores_of

BEGUN, FIRST, LAST, REDUCED = range(4)  # columns of stamps


@dataclass(frozen=True, slots=True)
class RankScore(Score):
    """What is known of one rank: its score, where a pace is the time from the end of a reduce to its last bucket.

    waited_s: how long it waited for others, over the whole run.
    awaited_s: how long others waited for it, added up: a moment that one rank waits is shared by all that are not there
        yet. Over all ranks it is the same total.
    """

    rank: int
    waited_s: float
    awaited_s: float

    @property
    def late(self) -> bool:
        """Whether others wait for it again and again."""
        return self.kind in ("chronic", "at times")


def waiting(own: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how long each rank waited for others, and others for it, shape (steps, ranks) both.

    own: when each rank arrived, shape (steps, ranks). Between the k-th and the next arrival k ranks wait for the other
    n - k, which share it: a rank that comes alone, last, has it all.

    >>> waited, awaited = waiting(np.array([[1.0, 1.0, 4.0], [1.0, 2.0, 2.0]]))
    >>> waited.tolist(), awaited.tolist()
    ([[3.0, 3.0, 0.0], [1.0, 0.0, 0.0]], [[0.0, 0.0, 6.0], [0.0, 0.5, 0.5]])
    """
    steps, ranks = own.shape
    order = np.argsort(own, axis=1, kind="stable")
    arrivals = np.take_along_axis(own, order, axis=1)
    came = np.arange(1, ranks)
    shares = np.zeros((steps, ranks))
    shares[:, 1:] = np.cumsum(np.diff(arrivals, axis=1) * came / (ranks - came), axis=1)
    awaited = np.empty((steps, ranks))
    np.put_along_axis(awaited, order, shares, axis=1)
    return arrivals[:, -1:] - own, awaited


def scores(stamps: FloatArray, waited: FloatArray, awaited: FloatArray, names: list[int]) -> tuple[RankScore, ...]:
    """Return the scores of all ranks, in their order.

    stamps: of the steps that count. waited, awaited: seconds of each rank, over the whole run. names: their numbers.

    >>> own = np.array([[1.0, 1.3], [1.0, 1.3], [1.0, 1.3]])
    >>> stamps = np.stack([0 * own, own, own, own], axis=2)
    >>> [(one.score, one.kind) for one in scores(stamps, np.zeros(2), np.zeros(2), [0, 1])]
    [(1.0, 'on time'), (1.3, 'chronic')]
    """
    own = np.maximum(stamps[:, :, LAST], 1e-9)
    return tuple(
        RankScore(**asdict(score), rank=rank, waited_s=float(waited[i]), awaited_s=float(awaited[i]))
        for i, (rank, score) in enumerate(zip(names, scores_of(own), strict=True))
        if score is not None  # as each is: these steps have stamps of all ranks
    )


def by_speed(stamps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return what share of the samples each rank is to have, and when the last would then have arrived in each step.

    Shares are by speeds, the inverses of the usual times of the passes; what comes before a rank's forward pass stays
    as it was. Where nothing does, and times are the same in every step, a step takes n / (sum of 1/t) instead of max t.

    >>> own = np.array([[1.0, 1.0, 2.0]])
    >>> shares, times = by_speed(np.stack([0 * own, own, own, own], axis=2))
    >>> shares.tolist(), times.round(9).tolist()
    ([0.4, 0.4, 0.2], [1.2])
    """
    before = stamps[:, :, BEGUN]
    passes = np.maximum(stamps[:, :, LAST] - before, 1e-9)
    speeds = 1 / np.median(passes, axis=0)
    shares: FloatArray = speeds / speeds.sum()
    arrivals: FloatArray = (before + len(shares) * shares * passes).max(axis=1)
    return shares, arrivals


def complete(stamps: FloatArray) -> IntArray:
    """Return which steps all ranks stamped."""
    found: IntArray = np.flatnonzero(np.isfinite(stamps).all(axis=(1, 2)))
    return found
