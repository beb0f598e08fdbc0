"""More workers for a queue that can't keep up: which of a pool to add, or that none helps."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from echelon import checks
from echelon.delays import task_laws
from echelon.errors import ArgumentError
from echelon.prediction import PredictedJobs, predict_jobs
from echelon.profile import Profile, Worker
from echelon.reprs import short_repr
from echelon.schemes import any_k
from echelon.search.splits import split_rows


@dataclass(frozen=True, slots=True)
class Enlarged:
    """What came of adding workers: the profile after it, who was added, and whether that is enough.

    `useless` names the workers of the pool whose link alone takes longer than the whole iteration: Theorem 2
    would leave them idle (stream, Remark 2).
    """

    profile: Profile
    added: tuple[str, ...]
    stable: bool
    prediction: PredictedJobs
    useless: tuple[str, ...]

    __repr__ = short_repr


def add_until_stable(
    profile: Profile,
    pool: Sequence[Worker],
    *,
    rule: str = "theorem2",
    tasks: int | None = None,
    purge: bool = True,
) -> Enlarged:
    """Add workers of the pool, each time the one that shortens the service most, until E[Ts] < E[Ta].

    Under Theorem 2 a worker with c + gamma c^2 >= theta is not considered (stream, Remark 2), and under no rule is
    one added that does not shorten the service. Workers that help only together are not found.

    >>> from echelon.profile import Arrivals, Workload
    >>> job = Workload(critical=4, redundancy=1.5, iterations=1, arrivals=Arrivals.poisson(0.4))
    >>> slow = Profile(job, [Worker("a", mean=1, std=1)])
    >>> add_until_stable(slow, [Worker("far", mean=1, std=1, link=99), Worker("near", mean=1, std=1)]).added
    ('near',)
    """
    checks.instance("profile", profile, Profile)
    waiting = [checks.instance("pool", worker, Worker) for worker in checks.items("pool", pool)]
    checks.flag("purge", purge)
    for name, times in Counter([*profile.names, *(worker.name for worker in waiting)]).items():
        if times > 1:
            raise ArgumentError(f"pool: {name!r} names {times} workers of the profile and the pool; names must differ")
    added: list[str] = []

    def outlook(some: Profile) -> tuple[PredictedJobs, float]:
        laws = task_laws(some)
        theta = split_rows(some, "theorem2", tasks=tasks).theta
        assert theta is not None
        split = split_rows(some, rule, tasks=tasks, purge=purge, laws=laws)
        return predict_jobs(any_k(split.counts, some.workload.critical), some, purge=purge, laws=laws), theta

    prediction, theta = outlook(profile)
    while not prediction.stable:
        useful = [worker for worker in waiting if rule != "theorem2" or _level(profile, worker) < theta]
        trials = [replace(profile, workers=(*profile.workers, worker)) for worker in useful]
        outlooks = [outlook(trial) for trial in trials]
        best = min(range(len(trials)), key=lambda i: outlooks[i][0].service_mean, default=None)
        if best is None or outlooks[best][0].service_mean >= prediction.service_mean:
            break
        profile, (prediction, theta) = trials[best], outlooks[best]
        added.append(useful[best].name)
        waiting.remove(useful[best])
    useless = tuple(worker.name for worker in waiting if _level(profile, worker) >= theta)
    return Enlarged(profile, tuple(added), prediction.stable, prediction, useless)


def _level(profile: Profile, worker: Worker) -> float:
    return worker.link + profile.workload.gamma * worker.link**2
