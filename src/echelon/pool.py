"""More workers for a queue that can't keep up: which of a pool to add, or that none helps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from echelon.prediction import Prediction, predict
from echelon.profile import Profile, Worker
from echelon.schemes import any_k, split_rows


@dataclass(frozen=True, slots=True)
class Enlarged:
    """What came of adding workers: the profile after it, who was added, and whether that is enough.

    `useless` names the workers of the pool whose link alone takes longer than the whole iteration: Theorem 2
    would leave them idle (stream, Remark 2).
    """

    profile: Profile
    added: tuple[str, ...]
    stable: bool
    prediction: Prediction
    useless: tuple[str, ...]


def add_until_stable(
    profile: Profile, pool: Sequence[Worker], *, rule: str = "theorem2", purge: bool = True
) -> Enlarged:
    """Add workers of the pool, each time the one that shortens the service most, until E[Ts] < E[Ta].

    A worker with c + gamma c^2 >= theta is not considered (stream, Remark 2), and one that does not shorten
    the service is not added.

    >>> from echelon.profile import Arrivals, Job
    >>> job = Job(critical=4, redundancy=1.5, iterations=1, arrivals=Arrivals.poisson(0.4))
    >>> slow = Profile(job, [Worker("a", mean=1, std=1)])
    >>> add_until_stable(slow, [Worker("far", mean=1, std=1, link=99), Worker("near", mean=1, std=1)]).added
    ('near',)
    """
    waiting = list(pool)
    Profile(profile.job, (*profile.workers, *waiting), profile.source)  # names must differ
    added: list[str] = []
    prediction, theta = _outlook(profile, rule, purge)
    while not prediction.stable:
        useful = [worker for worker in waiting if worker.link + profile.job.gamma * worker.link**2 < theta]
        trials = [replace(profile, workers=(*profile.workers, worker)) for worker in useful]
        outlooks = [_outlook(trial, rule, purge) for trial in trials]
        best = min(range(len(trials)), key=lambda i: outlooks[i][0].service_mean, default=None)
        if best is None or outlooks[best][0].service_mean >= prediction.service_mean:
            break
        profile, (prediction, theta) = trials[best], outlooks[best]
        added.append(useful[best].name)
        waiting.remove(useful[best])
    useless = tuple(w.name for w in waiting if w.link + profile.job.gamma * w.link**2 >= theta)
    return Enlarged(profile, tuple(added), prediction.stable, prediction, useless)


def _outlook(profile: Profile, rule: str, purge: bool) -> tuple[Prediction, float]:
    theta = split_rows(profile, "theorem2").theta
    assert theta is not None
    split = split_rows(profile, rule, purge=purge)
    return predict(any_k(split.counts, profile.job.critical), profile, purge=purge), theta
