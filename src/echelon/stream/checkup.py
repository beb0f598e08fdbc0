"""Which workers are slow, far or changing, from the record of a run in which every task was finished."""

from dataclasses import dataclass

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.errors import ArgumentError
from echelon.stream.record import Record
from echelon.stream.recorded import links

SLOW = 1.5  # times as long as the fastest
FAR, FAR_S = 3.0, 1e-3  # times the median link of the others, and by how many seconds more at least
FLAPPING = 1.5  # slowest stretch over quickest
STRETCHES = 10  # of the run, as many rounds each
SURE = 4.0  # standard errors by which two stretches must differ


@dataclass(frozen=True, slots=True)
class CheckedWorker:
    """A worker as it was measured.

    mean, std: of its seconds per part. score: its mean over that of the fastest worker.
    link: by how much its first results are late, in seconds.
    spread: its mean in its slowest stretch of the run over that in its quickest.
    losses: how often it was lost. faults: of "slow", "far" and "flapping", what it is.
    """

    name: str
    mean: float
    std: float
    score: float
    link: float
    spread: float
    losses: int
    faults: tuple[str, ...]


def checkup(record: Record) -> tuple[CheckedWorker, ...]:
    """Return what is to be said of each worker, in the order of places; the first round, which warms up, is left out.

    slow: a part takes it more than 1.5 times as long as the fastest worker.
    far: its link is more than three times the median of the others', and longer by a millisecond at least.
    flapping: it was lost; or its slowest tenth of the run took, by part, more than 1.5 times as long as its quickest,
        and so much longer that chance alone does not explain it (four standard errors).

    A worker that finished nothing is slow, with a mean that is not a number.
    """
    checks.instance("record", record, Record)
    rounds = record.rounds[1:] or record.rounds
    if not rounds:
        raise ArgumentError("record: no round is in it; nothing is known of the workers")
    paces: list[list[float]] = [[] for _ in record.names]
    at: list[list[int]] = [[] for _ in record.names]
    for number, seen in enumerate(rounds):
        for place, _, _, _, seconds, cost in seen.messages:
            paces[place].append(seconds / cost)
            at[place].append(number)
    means = np.array([np.mean(some) if some else np.nan for some in paces])
    link = links(record)
    found = []
    for place, name in enumerate(record.names):
        some = np.array(paces[place])
        losses = sum(where == place for _, where in record.losses)
        score = float(means[place] / np.nanmin(means)) if np.nanmin(means) > 0 else 1.0
        spread, sure = _spread(some, np.array(at[place], dtype=np.int64), len(rounds))
        others = np.delete(link, place)
        usual = float(np.nanmedian(others)) if (~np.isnan(others)).any() else np.nan
        faults = {
            "slow": not score <= SLOW,
            "far": link[place] > FAR * usual and link[place] > usual + FAR_S,
            "flapping": losses > 0 or (spread > FLAPPING and sure),
        }
        std = float(some.std()) if len(some) else np.nan
        told = tuple(fault for fault, found_so in faults.items() if found_so)
        found.append(CheckedWorker(name, float(means[place]), std, score, float(link[place]), spread, losses, told))
    return tuple(found)


def _spread(paces: FloatArray, at: IntArray, rounds: int) -> tuple[float, bool]:
    """Return the mean in the slowest stretch over that in the quickest, and whether it is more than chance.

    Tasks of one round may be slow together, so each round counts as one measurement.
    """
    known, group, sizes = np.unique(at, return_inverse=True, return_counts=True)
    of_rounds, stretch = np.bincount(group, paces) / sizes, known * STRETCHES // rounds
    groups = [some for one in np.unique(stretch) if len(some := of_rounds[stretch == one]) > 1]
    if len(groups) < 2:
        return 1.0, False
    means = np.array([group.mean() for group in groups])
    errors = np.array([group.std(ddof=1) / len(group) ** 0.5 for group in groups])
    low, high = int(means.argmin()), int(means.argmax())
    spread = float(means[high] / means[low]) if means[low] > 0 else 1.0
    return spread, bool(means[high] - means[low] > SURE * np.hypot(errors[low], errors[high]))
