"""The split that a profile asks for, by the name of its rule; the search on the exact delay is one of them."""

from collections.abc import Sequence

import numpy as np

from echelon import checks
from echelon.codes import Code
from echelon.delays import Delay, task_laws
from echelon.errors import ArgumentError, NoClosedForm
from echelon.profile import Profile, Speeds
from echelon.schemes.coded_plan import LEAST
from echelon.splits import SPLITS, Split, best

RULES = (*SPLITS, "best")


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
    job = profile.workload
    tasks = job.tasks if tasks is None else checks.whole("tasks", tasks, least=1)
    if tasks < job.critical:
        raise ArgumentError(f"tasks: {tasks} is not allowed; must be at least critical, {job.critical}")
    if rule != "best":
        return SPLITS[rule](profile.speeds, tasks, job.gamma, first=first)
    if first != 1:
        raise ArgumentError(f"split: 'best' is not allowed with first {first!r}; use theorem2 for such lanes")
    laws = task_laws(profile) if laws is None else laws
    if not all(law.closed for law in laws):
        raise NoClosedForm("split: 'best' needs task laws with a closed form; use theorem2 for these workers")
    return _best(profile, laws, SPLITS["theorem2"](profile.speeds, tasks, job.gamma), purge)


def split_code(code: Code, speeds: Speeds, rule: str = "theorem2", gamma: float = 1.0) -> Split:
    """Return how many rows of a code each worker gets, where lanes are consecutive rows (`coded_rows`).

    The first row of a lane costs all parts that it combines, a further one those that the row before it does not
    share, on average over the code: one for a cyclic code.

    >>> from echelon.codes import fractional_repetition
    >>> split_code(fractional_repetition(rows=12, load=3), Speeds([1.0, 3.0], [0.1, 0.3], [0.0, 0.0])).counts.tolist()
    [10, 2]
    """
    alone, after = code.mean_costs
    further = max(LEAST, after)
    rows = Speeds(further * speeds.mean, further**0.5 * speeds.std, speeds.link)
    split = SPLITS[checks.one_of("split", rule, SPLITS)]
    return split(rows, code.rows, gamma, first=max(1.0, alone / further))


def _best(profile: Profile, laws: Sequence[Delay], start: Split, purge: bool) -> Split:
    from echelon.theory import SplitScore, queue_delay, service_moments  # streams have no need of it

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
