"""Advice against what really happens: on emulated clusters, the best of every family and equal shares, all live.

What a worker takes for its j-th task of a round is drawn from the cluster's seed, the worker and the round: strategies
see the same times, as many rounds of them as each is given.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.emulated import BURSTS, RARELY, SLOW, cluster, equal, unequal
from bench.results import markdown_table
from echelon import LinearJob, Stream, SumJob
from echelon.advice import Outcome, advise
from echelon.advice.rehearsal import Drawn
from echelon.advice.strategies import BASELINE
from echelon.clusters.pace import DRAWN, paces
from echelon.papers.stream_workers import example2
from echelon.plan import Plan
from echelon.profile import Profile, Worker
from echelon.simulation import RoundSampler
from echelon.stream.observer import Observer, RoundSeen

ITERATIONS, LEAST, SECONDS = 80, 15, 9.0  # as many as fit into so many seconds, but so many at least
TIME_S = 0.12  # mean time of an iteration under the best strategy, to which clusters are scaled


@dataclass(frozen=True)
class Emulated:
    """A cluster and the work that it is for."""

    name: str
    work: str
    profile: Profile


def _clusters() -> list[Emulated]:
    five = example2().with_job(arrivals=RARELY)
    slow, bursty = equal(10, "straggler", 1.3, **SLOW), equal(8, "gilbert_elliott", 2.1, **BURSTS)
    paces = equal(12, "round_pace", 0.9)
    one_late = unequal([1, 1, 1, 1, 1, 20], 0.3)
    far = [*unequal([1, 1, 1], 0.5), *[Worker(f"far{p}", mean=1.0, std=0.5, link=6.0) for p in range(3)]]
    return [
        Emulated("Example 2", "gradient", five),
        Emulated("Example 2", "linear", five),
        Emulated("ten equal, each five times slower in 10 % of rounds", "gradient", cluster(40, slow)),
        Emulated("ten equal, each five times slower in 10 % of rounds", "linear", cluster(40, slow)),
        Emulated("eight in bursts (Gilbert-Elliott)", "gradient", cluster(32, bursty)),
        Emulated("eight in bursts (Gilbert-Elliott)", "linear", cluster(32, bursty)),
        Emulated("six steady, unequal", "gradient", cluster(36, unequal([1, 1.5, 2, 3, 4, 6], 0.0))),
        Emulated("four equal, exponential", "gradient", cluster(24, equal(4, "gamma", 1.0))),
        Emulated("twelve whose pace changes by the round", "linear", cluster(48, paces)),
        Emulated("twelve whose pace changes by the round", "gradient", cluster(48, paces)),
        Emulated("one twenty times slower", "gradient", cluster(30, one_late)),
        Emulated("one twenty times slower", "linear", cluster(30, one_late)),
        Emulated("three near, three far", "gradient", cluster(24, far)),
        Emulated("five with Pareto's tails", "linear", cluster(30, equal(5, "pareto", 0.9))),
    ]


def report() -> str:
    rows, regrets, worse, off = [], [], [], []
    for number, emulated in enumerate(_clusters()):
        scaled, outcomes = _chosen(emulated, number)
        measured = {outcome.name: _live(scaled, emulated.work, outcome, number) for outcome in outcomes}
        expected = {outcome.name: _on_the_same_draws(scaled, outcome, number) for outcome in outcomes}
        best = min(measured, key=lambda name: measured[name])
        advised, equal = outcomes[0].name, measured[BASELINE]
        regrets.append(measured[advised] / measured[best] - 1)
        worse.append(measured[advised] / equal - 1)
        for outcome in outcomes:
            gap = measured[outcome.name] / expected[outcome.name] - 1
            off.append(abs(gap))
            rows.append(
                [
                    f"{emulated.name}, {emulated.work}" if outcome is outcomes[0] else "",
                    f"**{outcome.name}**" if outcome.name == advised else outcome.name,
                    f"{1e3 * outcome.iteration:.1f}",
                    f"{1e3 * expected[outcome.name]:.1f}",
                    f"{1e3 * measured[outcome.name]:.1f}",
                    f"{gap:+.1%}",
                    f"{measured[outcome.name] / measured[best] - 1:.1%}",
                ]
            )
    head = ["cluster", "strategy (advised in bold)", "predicted ms", "of these rounds", "live ms", "off", "regret"]
    table = markdown_table(head, rows)
    return (
        f"Emulated workers, {LEAST} to {ITERATIONS} iterations each: slow strategies run fewer rounds, the first of "
        "the same draws. The best of each family is run, and regret is against the best of these (designs whose tasks "
        "are predicted part by part are left out: emulated workers draw one time a task). What is predicted is "
        "the mean in the long run; these rounds are a sample of it, so what was measured is compared with the same "
        f"prediction for their own draws. Largest regret of the advice: {max(regrets):.1%} (wanted: 5 %); against "
        f"equal shares at worst {max(worse):+.1%} (wanted: +1 %); predictions are off by {max(off):.1%} at most "
        f"(wanted: 7 %).\n\n{table}"
    )


def _chosen(emulated: Emulated, seed: int) -> tuple[Profile, list[Outcome]]:
    """Return the cluster at its time scale, and the advised strategy, the best of each family and equal shares."""
    factor = TIME_S / advise(emulated.profile, work=emulated.work, seed=seed).best.iteration
    scaled = emulated.profile.scaled(factor)
    advice = advise(scaled, work=emulated.work, seed=seed)
    job = "LinearJob" if emulated.work == "linear" else "SumJob"
    # emulated workers draw one time a task: they can't show what a task takes whose parts have times of their own
    runnable = [one for one in advice.ranked if one.strategy.job in (None, job) and not one.strategy.by_parts]
    listed = [advice.best_for(job)]
    assert listed[0] in runnable
    for family in ("uncoded", "pull", "copies", "coded"):
        of_family = [one for one in runnable if one.strategy.family == family]
        listed += [one for one in sorted(of_family, key=lambda one: one.iteration)[:1] if one not in listed]
    equal = next(one for one in advice.ranked if one.name == BASELINE)
    return scaled, listed if equal in listed else [*listed, equal]


def _next(state: int, found: Any) -> int:
    return state + 1


def _live(profile: Profile, work: str, outcome: Outcome, seed: int) -> float:
    """Return the mean time of an iteration, the first left out: it loads the work."""
    parts, plan = profile.job.critical, outcome.plan()
    ends: list[float] = []
    iterations = _iterations(outcome)
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


def _iterations(outcome: Outcome) -> int:
    return max(LEAST, min(ITERATIONS, int(SECONDS / outcome.iteration)))


def _on_the_same_draws(profile: Profile, outcome: Outcome, seed: int) -> float:
    """Return the mean time of an iteration that is expected of the times that the live workers will draw."""
    plan, rounds = outcome.plan(), _iterations(outcome)
    assert isinstance(plan, Plan)
    laws = []
    for pace in paces(None, profile, seed):
        assert pace is not None
        drawn = []
        for _ in range(rounds + 1):
            pace.begin(0.0, 1)
            drawn.append(np.broadcast_to(pace._times, DRAWN))
        laws.append(Drawn(np.array(drawn[1:])[None], kept=False))
    sampler, rng = RoundSampler(plan, laws, profile.speeds.link), np.random.default_rng(0)
    return float(sampler.draw(sampler.begin(1, rng), 1, rounds, rng)[0].times.mean())


class _Ends(Observer):
    """Notes when rounds end."""

    def __init__(self, ends: list[float]) -> None:
        self._ends = ends

    def round_over(self, seen: RoundSeen) -> None:
        self._ends.append(seen.end)
