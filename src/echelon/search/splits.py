"""The split that a profile asks for, by the name of its rule; one of them is a search on the exact delay.

The search is for when a few per cent of delay are worth a second.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray, IntArray
from echelon.delays import Delay, per_worker, task_laws
from echelon.errors import ArgumentError, NoClosedForm
from echelon.profile import Profile
from echelon.splits import SPLITS, Split
from echelon.theory import SplitScore, queue_delay, service_moments

RULES = (*SPLITS, "best")
_RECEIVERS = 8  # places for the added row that are tried before giving up


class Score(Protocol):
    """What the search asks of its objective; smaller is better."""

    def value(self, counts: IntArray) -> float:
        """Return the true score of one split."""

    def values_after(self, counts: IntArray, change: int) -> FloatArray:
        """Return, for each worker, about the score once its count has changed by +1 or -1 (inf: not allowed)."""


def best(start: Split, score: Score) -> Split:
    """Improve a split, one row at a time, until no exchange helps; never worse than `start`.

    A step adds a row where that helps most and takes one away where that hurts least, so it asks for 2 P
    scores and not for P^2; before giving up it tries the eight best places for the added row. Scores of
    neighbours only rank them: what a step gains is measured by `value` before it is taken.
    """
    counts, value = start.counts, score.value(start.counts)
    while True:
        for step in _steps(counts, score):
            reached = score.value(step)
            # a gain below rounding noise could make the search go round in circles
            if reached < value * (1 - 1e-10):
                counts, value = step, reached
                break
        else:
            return Split(counts, start.real, start.theta)


def _steps(counts: IntArray, score: Score) -> Iterator[IntArray]:
    """Yield exchanges of one row, the most promising first: for each of the best receivers its two best givers."""
    for receiver in np.argsort(score.values_after(counts, +1), kind="stable")[:_RECEIVERS]:
        grown = counts.copy()
        grown[receiver] += 1
        ranked = np.argsort(score.values_after(grown, -1), kind="stable")
        for giver in ranked[(ranked != receiver) & (counts[ranked] > 0)][:2]:
            step = grown.copy()
            step[giver] -= 1
            yield step


def split_rows(
    profile: Profile,
    rule: str = "theorem2",
    *,
    tasks: int | None = None,
    purge: bool = True,
    laws: Sequence[Delay] | None = None,
    first: float = 1.0,
) -> Split:
    """Return how many rows each worker of the profile gets, K*Omega in all unless `tasks` says otherwise.

    ``best`` starts from Theorem 2 and exchanges rows while that lowers the mean delay, from the exact moments of
    an iteration by the formula that fits the arrivals (the mean iteration while the queue is unstable); it needs
    task laws with closed sums. `first` is the cost of a lane's first task, where the others cost 1 (a gradient code);
    ``best`` knows tasks of cost 1 only.

    >>> from echelon.profile import Arrivals, Workload, Worker
    >>> job = Workload(critical=4, redundancy=1.5, iterations=2, arrivals=Arrivals.poisson(0.01))
    >>> split_rows(Profile(job, [Worker("a", mean=1, std=1), Worker("b", mean=2, std=2)])).counts.tolist()
    [4, 2]
    """
    checks.one_of("split", rule, RULES)
    job = checks.instance("profile", profile, Profile).workload
    checks.flag("purge", purge)
    tasks = job.tasks if tasks is None else checks.whole("tasks", tasks, least=1)
    if tasks < job.critical:
        raise ArgumentError(f"tasks: {tasks} is not allowed; must be at least critical, {job.critical}")
    if rule != "best":
        return SPLITS[rule](profile.speeds, tasks, job.gamma, first=first)
    if first != 1:
        raise ArgumentError(f"split: 'best' is not allowed with first {first!r}; use theorem2 for such lanes")
    laws = task_laws(profile) if laws is None else per_worker(laws, len(profile.workers))
    if not all(law.closed for law in laws):
        raise NoClosedForm("split: 'best' needs task laws with a closed form; use theorem2 for these workers")
    return _best(profile, laws, SPLITS["theorem2"](profile.speeds, tasks, job.gamma), purge)


def _best(profile: Profile, laws: Sequence[Delay], start: Split, purge: bool) -> Split:
    job = profile.workload
    links = profile.speeds.link

    def delay(mean: float, second: float) -> float:
        return queue_delay(job.arrivals, *service_moments(mean, second, job.iterations)).mean

    critical = job.critical if purge else start.tasks
    score = SplitScore(laws, links, start.counts, critical, delay)
    if np.isfinite(score.value(start.counts)):
        return best(start, score)
    # every delay is infinite: make iterations short first, and see whether that is enough
    start = best(start, SplitScore(laws, links, start.counts, critical, lambda mean, second: mean))
    score = SplitScore(laws, links, start.counts, critical, delay)
    return best(start, score) if np.isfinite(score.value(start.counts)) else start
