"""Advice against what really happens: on emulated clusters, the best of every family and equal shares, all live.

What a worker takes for its j-th task of a round is drawn from the cluster's seed, the worker and the round: strategies
see the same times, as many rounds of them as each is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.results import markdown_table
from echelon import LinearJob, Stream, SumJob
from echelon.advice import Outcome, advise
from echelon.advice.strategies import BASELINE
from echelon.papers.stream_workers import example2
from echelon.profile import Arrivals, Job, Profile, Worker
from echelon.stream.observer import Observer, RoundSeen

ITERATIONS, LEAST, SECONDS = 120, 25, 14.0  # as many as fit into so many seconds, but so many at least
TIME_S = 0.12  # mean time of an iteration under the best strategy, to which clusters are scaled
SLOW = {"probability": 0.1, "slowdown": 5.0}
BURSTS = {"enter": 0.02, "leave": 0.1, "slowdown": 6.0}


@dataclass(frozen=True)
class Emulated:
    """A cluster and the work that it is for."""

    name: str
    work: str
    profile: Profile


def _profile(critical: int, workers: Sequence[Worker]) -> Profile:
    job = Job(critical=critical, redundancy=1.0, iterations=50, arrivals=Arrivals.poisson(1e-6))
    return Profile(job, workers)


def _equal(count: int, law: str, spread: float, link: float = 0.05, **parameters: float) -> list[Worker]:
    return [
        Worker(f"w{p}", mean=1.0, std=spread, link=link, law=law, parameters=parameters) for p in range(count)
    ]  # fmt: skip


def _unequal(means: Sequence[float], spread: float, link: float = 0.05, law: str = "gamma") -> list[Worker]:
    return [Worker(f"w{p}", mean=mean, std=spread * mean, link=link, law=law) for p, mean in enumerate(means)]


def _clusters() -> list[Emulated]:
    five = example2().with_job(arrivals=Arrivals.poisson(1e-6))
    slow, bursty = _equal(10, "straggler", 1.3, **SLOW), _equal(8, "gilbert_elliott", 2.1, **BURSTS)
    paces = _equal(12, "round_pace", 0.9)
    one_late = _unequal([1, 1, 1, 1, 1, 20], 0.3)
    far = [*_unequal([1, 1, 1], 0.5), *[Worker(f"far{p}", mean=1.0, std=0.5, link=6.0) for p in range(3)]]
    return [
        Emulated("Example 2", "gradient", five),
        Emulated("Example 2", "linear", five),
        Emulated("ten equal, each five times slower in 10 % of rounds", "gradient", _profile(40, slow)),
        Emulated("ten equal, each five times slower in 10 % of rounds", "linear", _profile(40, slow)),
        Emulated("eight in bursts (Gilbert-Elliott)", "gradient", _profile(32, bursty)),
        Emulated("eight in bursts (Gilbert-Elliott)", "linear", _profile(32, bursty)),
        Emulated("six steady, unequal", "gradient", _profile(36, _unequal([1, 1.5, 2, 3, 4, 6], 0.0))),
        Emulated("four equal, exponential", "gradient", _profile(24, _equal(4, "gamma", 1.0))),
        Emulated("twelve whose pace changes by the round", "linear", _profile(48, paces)),
        Emulated("twelve whose pace changes by the round", "gradient", _profile(48, paces)),
        Emulated("one twenty times slower", "gradient", _profile(30, one_late)),
        Emulated("one twenty times slower", "linear", _profile(30, one_late)),
        Emulated("three near, three far", "gradient", _profile(24, far)),
        Emulated("five with Pareto's tails", "linear", _profile(30, _equal(5, "pareto", 0.9))),
    ]


def report() -> str:
    rows, regrets, worse, off = [], [], [], []
    for number, cluster in enumerate(_clusters()):
        scaled, outcomes = _chosen(cluster, number)
        measured = {outcome.name: _live(scaled, cluster.work, outcome, number) for outcome in outcomes}
        best = min(measured, key=lambda name: measured[name])
        advised, equal = outcomes[0].name, measured[BASELINE]
        regrets.append(measured[advised] / measured[best] - 1)
        worse.append(measured[advised] / equal - 1)
        for outcome in outcomes:
            gap = measured[outcome.name] / outcome.iteration - 1
            off.append(abs(gap))
            rows.append(
                [
                    f"{cluster.name}, {cluster.work}" if outcome is outcomes[0] else "",
                    f"**{outcome.name}**" if outcome.name == advised else outcome.name,
                    f"{1e3 * outcome.iteration:.1f}",
                    f"{1e3 * measured[outcome.name]:.1f}",
                    f"{gap:+.1%}",
                    f"{measured[outcome.name] / measured[best] - 1:.1%}",
                ]
            )
    table = markdown_table(["cluster", "strategy (advised in bold)", "predicted ms", "live ms", "off", "regret"], rows)
    return (
        f"Emulated workers, {LEAST} to {ITERATIONS} iterations each: slow strategies run fewer rounds, the first of "
        "the same draws. The best of each family is run, and regret is against the best of these. Largest regret of "
        f"the advice: {max(regrets):.1%} (wanted: 5 %); against equal shares at worst {max(worse):+.1%} (wanted: "
        f"+1 %); predictions are off by {max(off):.1%} at most (wanted: 7 %).\n\n{table}"
    )


def _chosen(cluster: Emulated, seed: int) -> tuple[Profile, list[Outcome]]:
    """Return the cluster at its time scale, and the advised strategy, the best of each family and equal shares."""
    factor = TIME_S / advise(cluster.profile, work=cluster.work, seed=seed).best.iteration
    scaled = cluster.profile.scaled(factor)
    advice = advise(scaled, work=cluster.work, seed=seed)
    listed = [advice.best]
    for family in ("uncoded", "pull", "copies", "coded"):
        of_family = [one for one in advice.ranked if one.strategy.family == family]
        listed += [one for one in sorted(of_family, key=lambda one: one.iteration)[:1] if one not in listed]
    equal = next(one for one in advice.ranked if one.name == BASELINE)
    return scaled, listed if equal in listed else [*listed, equal]


def _next(state: int, found: Any) -> int:
    return state + 1


def _live(profile: Profile, work: str, outcome: Outcome, seed: int) -> float:
    """Return the mean time of an iteration, the first left out: it loads the work."""
    parts, plan = profile.job.critical, outcome.plan()
    ends: list[float] = []
    iterations = max(LEAST, min(ITERATIONS, int(SECONDS / outcome.iteration)))
    common: dict[str, Any] = {"update": _next, "state": 0, "iterations": iterations + 1, "plan": plan}
    job: SumJob | LinearJob
    if work == "linear":
        job = LinearJob(matrix=np.ones((parts, 8)), vector=lambda state: np.ones(8), parts=parts, **common)
    else:
        job = SumJob(partial=lambda state, chunk: np.ones(8), chunks=list(range(parts)), **common)
    with Stream("processes", emulate=profile, seed=seed, progress=False) as stream:
        stream._driver.watch(_Ends(ends))
        stream.submit(job).result()
    return (ends[-1] - ends[0]) / (len(ends) - 1)


class _Ends(Observer):
    """Notes when rounds end."""

    def __init__(self, ends: list[float]) -> None:
        self._ends = ends

    def round_over(self, seen: RoundSeen) -> None:
        self._ends.append(seen.end)
