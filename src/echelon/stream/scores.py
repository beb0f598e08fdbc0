"""How slow workers are beside the fastest and beside themselves, and whether always: arithmetic on paces."""

from dataclasses import dataclass

import numpy as np

from echelon.arrays import FloatArray

LATE = 1.1  # times as slow as the fastest: from here on a worker is late
HICCUP = 1.5  # times its own usual time, beside the others in that round
OFTEN = 0.05  # of the rounds: hiccups in fewer are single ones
WINDOWS, LEAST = 10, 25  # how many stretches a run is cut into, of this many rounds at least


@dataclass(frozen=True, slots=True)
class Score:
    """What is known of one worker's pace.

    usual_s: its pace in the middle (median) round.
    score: that, over the fastest worker's: 1.3 is a worker that takes 30 % longer.
    lately: the same over the latest of up to ten stretches, of 25 rounds at least.
    own: its usual pace in the latest stretch over that in its best: 1.3 is a worker that has become 30 % slower.
    hiccups: rounds in which it took half as long again as it usually does, beside what the others did then.
    kind: "chronic" where `score` or `lately` is above 1.1; else, by its hiccups, "at times" in a twentieth of the
        rounds or more, "once" in fewer; else "on time".
    """

    usual_s: float
    score: float
    lately: float
    own: float
    hiccups: int
    kind: str


def of_others(values: FloatArray) -> FloatArray:
    """Return the median of all others in each row, for each entry; 1 where there are none. nan is nobody's value.

    >>> of_others(np.array([[1.0, 2.0, 9.0], [np.nan, 2.0, 4.0]]))[:, 1:].tolist()
    [[5.0, 1.5], [4.0, 2.0]]
    """
    count = (~np.isnan(values)).sum(axis=1, keepdims=True)
    order = np.argsort(values, axis=1, kind="stable")
    sorted_ = np.take_along_axis(values, order, axis=1)
    places = np.argsort(order, axis=1, kind="stable")
    pair = []
    for middle in ((count - 2) // 2, (count - 1) // 2):  # in the row without this entry
        at = np.clip(middle + (middle >= places), 0, values.shape[1] - 1)
        pair.append(np.take_along_axis(sorted_, at, axis=1))
    found: FloatArray = np.where(count > 1, (pair[0] + pair[1]) / 2, 1.0)
    return found


def scores(paces: FloatArray) -> list[Score | None]:
    """Return the score of each worker; None for one of which nothing was seen.

    paces: seconds per part, shape (rounds, workers); nan where a worker finished nothing.

    >>> found = scores(np.array([[1.0, 1.3, np.nan]] * 3))
    >>> [one and (one.score, one.kind) for one in found]
    [(1.0, 'on time'), (1.3, 'chronic'), None]
    """
    seen = ~np.isnan(paces).all(axis=0)
    found: list[Score | None] = [None] * paces.shape[1]
    if not seen.any():
        return found
    kept = np.maximum(paces[:, seen], 1e-12)
    usual = np.nanmedian(kept, axis=0)
    medians = np.stack([_medians(some) for some in np.array_split(kept, max(1, min(WINDOWS, len(kept) // LEAST)))])
    last = np.where(np.isnan(medians[-1]), usual, medians[-1])
    score, lately, own = usual / usual.min(), last / last.min(), last / np.nanmin(medians, axis=0)
    beside = kept / usual
    hiccups = (beside > HICCUP * of_others(beside)).sum(axis=0)
    rounds = (~np.isnan(kept)).sum(axis=0)
    for i, worker in enumerate(np.flatnonzero(seen).tolist()):
        kind = _kind(max(score[i], lately[i]), hiccups[i] / rounds[i])
        found[worker] = Score(float(usual[i]), float(score[i]), float(lately[i]), float(own[i]), int(hiccups[i]), kind)
    return found


def _kind(score: float, hiccups: float) -> str:
    """Return what a worker is by its score, and the share of rounds in which it was slower than it usually is."""
    if score > LATE:
        return "chronic"
    if not hiccups:
        return "on time"
    return "once" if hiccups < OFTEN else "at times"


def _medians(paces: FloatArray) -> FloatArray:
    """Return the median of each column; nan where nothing was seen."""
    found = np.full(paces.shape[1], np.nan)
    seen = ~np.isnan(paces).all(axis=0)
    found[seen] = np.nanmedian(paces[:, seen], axis=0)
    return found
