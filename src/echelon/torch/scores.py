"""How slow each rank is, who waited for whom, and what other sizes would have taken: arithmetic on stamps alone.

Stamps are an array of shape (steps, ranks, 4): seconds since the end of the step before, on each rank's own clock, at
which its forward pass began, its first and its last bucket were ready, and the reduce was over. All ranks leave a
reduce together, so these durations can be compared, whatever their clocks say.
"""

from dataclasses import dataclass

import numpy as np

from echelon.arrays import FloatArray, IntArray

BEGUN, FIRST, LAST, REDUCED = range(4)  # columns of stamps

LATE = 1.1  # times as slow as the fastest: from here on a rank is late
HICCUP = 1.5  # times its own usual time, beside the others in that step
OFTEN = 0.05  # of the steps: hiccups in fewer are single ones
WINDOWS, LEAST = 10, 25  # how many stretches a run is cut into, of this many steps at least


@dataclass(frozen=True, slots=True)
class RankScore:
    """What is known of one rank.

    usual_s: from the end of a reduce until its last bucket is ready again, in the middle (median) step.
    score: that, over the fastest rank's: 1.3 is a rank that takes 30 % longer, whose speed is 1/1.3.
    lately: the same over the latest of up to ten stretches of the run, of 25 steps at least.
    own: its usual time in the latest stretch over that in its best: 1.3 is a rank that has become 30 % slower.
    hiccups: steps in which it took half as long again as it usually does, beside what the others did then.
    kind: "chronic" where `score` or `lately` is above 1.1; else, by its hiccups, "at times" in a twentieth of the steps
        or more, "once" in fewer; else "on time".
    waited_s: how long it waited for others, over the whole run.
    awaited_s: how long others waited for it, added up: a moment that one rank waits is shared by all that are not there
        yet. Over all ranks it is the same total.
    """

    rank: int
    usual_s: float
    score: float
    lately: float
    own: float
    hiccups: int
    kind: str
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


def of_others(values: FloatArray) -> FloatArray:
    """Return the median of all others in each row, for each entry; 1 where there are none.

    >>> of_others(np.array([[1.0, 2.0, 9.0]])).tolist()
    [[5.5, 5.0, 1.5]]
    """
    count = values.shape[1]
    if count == 1:
        return np.ones_like(values)
    order = np.argsort(values, axis=1, kind="stable")
    sorted_ = np.take_along_axis(values, order, axis=1)
    places = np.argsort(order, axis=1, kind="stable")
    low, high = (count - 2) // 2, (count - 1) // 2  # in the row without this entry
    pair = [np.take_along_axis(sorted_, at + (at >= places), axis=1) for at in (low, high)]
    found: FloatArray = (pair[0] + pair[1]) / 2
    return found


def scores(stamps: FloatArray, waited: FloatArray, awaited: FloatArray, names: list[int]) -> tuple[RankScore, ...]:
    """Return the scores of all ranks, in their order.

    stamps: of the steps that count. waited, awaited: seconds of each rank, over the whole run. names: their numbers.

    >>> own = np.array([[1.0, 1.3], [1.0, 1.3], [1.0, 1.3]])
    >>> stamps = np.stack([0 * own, own, own, own], axis=2)
    >>> [(one.score, one.kind) for one in scores(stamps, np.zeros(2), np.zeros(2), [0, 1])]
    [(1.0, 'on time'), (1.3, 'chronic')]
    """
    own = np.maximum(stamps[:, :, LAST], 1e-9)
    usual = np.median(own, axis=0)
    stretches = np.array_split(own, max(1, min(WINDOWS, len(own) // LEAST)))
    medians = np.stack([np.median(some, axis=0) for some in stretches])
    score, lately = usual / usual.min(), medians[-1] / medians[-1].min()
    beside = own / usual
    hiccups = (beside > HICCUP * of_others(beside)).sum(axis=0)
    return tuple(
        RankScore(
            rank=rank,
            usual_s=float(usual[i]),
            score=float(score[i]),
            lately=float(lately[i]),
            own=float(medians[-1, i] / medians[:, i].min()),
            hiccups=int(hiccups[i]),
            kind=_kind(max(score[i], lately[i]), hiccups[i] / len(own)),
            waited_s=float(waited[i]),
            awaited_s=float(awaited[i]),
        )
        for i, rank in enumerate(names)
    )


def _kind(score: float, hiccups: float) -> str:
    if score > LATE:
        return "chronic"
    if not hiccups:
        return "on time"
    return "once" if hiccups < OFTEN else "at times"


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
