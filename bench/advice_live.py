"""Advice against what really happens: on emulated clusters, the best of every family and equal shares, all live.

A strategy runs enough rounds for their mean to be that of the long run within a sampling error of SHARP. Emulated
workers sleep, so several long runs go on at once, in pieces of LONGEST_S; short ones, which the start of others would
disturb, go on alone. The time of a worker's j-th task of a round is drawn from the seed of the cluster and the piece,
the worker and the round: strategies with equally many pieces see the same times.
"""

import sys
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np

from bench.emulated import RARELY, SLOW, cluster, equal, unequal
from bench.results import markdown_table
from echelon import LinearJob, Stream, SumJob
from echelon.clusters.pace import DRAWN, paces
from echelon.delays import task_laws
from echelon.papers.stream_workers import example2
from echelon.plan import Plan
from echelon.profile import Profile, Worker
from echelon.search import Outcome, advise
from echelon.search.rehearsal import Drawn
from echelon.search.strategies import BASELINE
from echelon.simulation import RoundSampler
from echelon.stream.observer import Observer, RoundSeen

SHARP = 0.015  # deviation of the mean of all rounds that a strategy runs, as a share of it
LEAST = 40  # rounds, at least
SHORT_S, LONGEST_S, AT_ONCE = 100.0, 400.0, 6
SHORT_BURSTS = {"enter": 0.1, "leave": 0.5, "slowdown": 6.0}  # means over long ones take hours to become sharp
TIME_S = 0.12  # mean time of an iteration under the best strategy, to which clusters are scaled


@dataclass(frozen=True)
class Emulated:
    """A cluster and its work."""

    name: str
    work: str
    profile: Profile


def clusters() -> list[Emulated]:
    five = example2().with_workload(arrivals=RARELY)
    slow, bursty = equal(10, "straggler", 1.3, **SLOW), equal(8, "gilbert_elliott", 2.1, **SHORT_BURSTS)
    paces = equal(12, "round_pace", 0.9)
    one_late = unequal([1, 1, 1, 1, 1, 20], 0.3)
    far = [*unequal([1, 1, 1], 0.5), *[Worker(f"far{p}", mean=1.0, std=0.5, link=6.0) for p in range(3)]]
    return [
        Emulated("Example 2", "gradient", five),
        Emulated("Example 2", "linear", five),
        Emulated("ten equal, each five times slower in 10 % of rounds", "gradient", cluster(40, slow)),
        Emulated("ten equal, each five times slower in 10 % of rounds", "linear", cluster(40, slow)),
        Emulated("eight in short bursts (Gilbert-Elliott)", "gradient", cluster(32, bursty)),
        Emulated("eight in short bursts (Gilbert-Elliott)", "linear", cluster(32, bursty)),
        Emulated("six steady, unequal", "gradient", cluster(36, unequal([1, 1.5, 2, 3, 4, 6], 0.05))),
        Emulated("four equal, exponential", "gradient", cluster(24, equal(4, "gamma", 1.0))),
        Emulated("twelve whose pace changes by the round", "linear", cluster(48, paces)),
        Emulated("twelve whose pace changes by the round", "gradient", cluster(48, paces)),
        Emulated("one twenty times slower", "gradient", cluster(30, one_late)),
        Emulated("one twenty times slower", "linear", cluster(30, one_late)),
        Emulated("three near, three far", "gradient", cluster(24, far)),
        Emulated("five with Pareto's tails", "linear", cluster(30, equal(5, "pareto", 0.9))),
    ]


def report() -> str:
    rows, regrets, worse, off, apart = [], list[float](), list[float](), list[float](), list[float]()
    for emulated, runs in _ran():
        best = min(run.live for run in runs)
        advised, plain = runs[0], next(run for run in runs if run.outcome.name == BASELINE)
        regrets.append(advised.live / best - 1)
        worse.append(advised.live / plain.live - 1)
        for run in runs:
            off.append(run.live / run.outcome.iteration - 1)
            apart.append(run.live / run.on_its_draws - 1)
            rows.append(
                [
                    f"{emulated.name}, {emulated.work}" if run is advised else "",
                    f"**{run.outcome.name}**" if run is advised else run.outcome.name,
                    str(run.rounds),
                    f"{1e3 * run.outcome.iteration:.1f}",
                    f"{1e3 * run.live:.1f}",
                    f"{off[-1]:+.1%}",
                    f"{apart[-1]:+.1%}",
                    f"{run.live / best - 1:.1%}",
                ]
            )
    head = ["cluster", "strategy (advised in bold)", "rounds", "predicted ms", "live ms", "off", "by draws", "regret"]
    return (
        f"Emulated workers. The best of each family is run, and regret is against the best of these (designs whose "
        "tasks are predicted part by part are left out: emulated workers draw one time a task). Each runs so many "
        f"rounds that the sampling error of their mean is {SHARP:.1%} (one deviation, by simulation), and {LEAST} at "
        f"least; {AT_ONCE} at once of those that take longer than {SHORT_S:.0f} s. What was measured is compared with "
        "what `advise` prints (off), and with the same prediction for the very times that its workers drew (by draws). "
        f"Largest regret of the advice: {max(regrets):.1%} (wanted: 5 %); against equal shares at worst "
        f"{max(worse):+.1%} (wanted: +1 %); predictions are off by {max(map(abs, off)):.1%} at most (wanted: 7 %), on "
        f"the draws of the run by {max(map(abs, apart)):.1%}.\n\n{markdown_table(head, rows)}"
    )


class _Run:
    """One strategy on one cluster, live, in pieces that may go on at once."""

    def __init__(self, profile: Profile, work: str, outcome: Outcome, seed: int) -> None:
        plan = outcome.plan()
        assert isinstance(plan, Plan)
        self.outcome, self.rounds = outcome, _rounds(profile, plan)
        self.long = self.rounds * outcome.iteration > SHORT_S
        pieces = 1 + int(self.rounds * outcome.iteration / LONGEST_S)
        self._sizes = [len(some) for some in np.array_split(np.arange(self.rounds), pieces)]
        self._pieces = [(profile, work, plan, size, 1000 * seed + k) for k, size in enumerate(self._sizes)]
        self._found: list[Future[float]] = []

    def start(self, pool: ProcessPoolExecutor) -> None:
        """Run all pieces as soon as there is room."""
        self._found = [pool.submit(_live, *piece) for piece in self._pieces]

    @property
    def live(self) -> float:
        """The mean time of an iteration; waits for it."""
        return float(np.average([one.result() for one in self._found], weights=self._sizes))

    @property
    def on_its_draws(self) -> float:
        """The expected mean for the times that its workers drew."""
        found = [_on_the_same_draws(profile, plan, size, seed) for profile, _, plan, size, seed in self._pieces]
        return float(np.average(found, weights=self._sizes))


def _ran() -> list[tuple[Emulated, list[_Run]]]:
    """Return all runs when they are over: computing on the master meanwhile would disturb them."""
    chosen = [(emulated, *_chosen(emulated, number)) for number, emulated in enumerate(clusters())]
    runs = [
        (emulated, [_Run(profile, emulated.work, one, number) for one in outcomes])
        for number, (emulated, profile, outcomes) in enumerate(chosen)
    ]
    for at_once in (AT_ONCE, 1):
        with ProcessPoolExecutor(at_once, mp_context=get_context("spawn")) as pool:
            now = [(emulated, run) for emulated, some in runs for run in some if run.long == (at_once > 1)]
            for _, run in now:
                run.start(pool)
            try:
                for emulated, run in now:
                    print(f"  {emulated.name}, {emulated.work}, {run.outcome.name}: {run.live:.4f} s", file=sys.stderr)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    return runs


def _rounds(profile: Profile, plan: Plan) -> int:
    """Return after how many rounds the deviation of their mean is SHARP."""
    histories, each = 80, 100  # of this many rounds: times may depend on those of earlier rounds
    sampler, rng = RoundSampler(plan, task_laws(profile), profile.speeds.link), np.random.default_rng(0)
    times = sampler.draw(sampler.begin(histories, rng), histories, each, rng)[0].times
    return max(LEAST, int(each * (times.mean(axis=1).std() / times.mean() / SHARP) ** 2))


def _chosen(emulated: Emulated, seed: int) -> tuple[Profile, list[Outcome]]:
    """Return the cluster at its time scale, and the advised strategy, the best of each family and equal shares."""
    factor = TIME_S / advise(emulated.profile, work=emulated.work, seed=seed).best.iteration
    scaled = emulated.profile.scaled(factor)
    advice = advise(scaled, work=emulated.work, seed=seed)
    job = "LinearJob" if emulated.work == "linear" else "SumJob"
    # emulated workers draw one time per task: they can't show tasks whose parts have times of their own
    runnable = [one for one in advice.ranked if one.strategy.job in (None, job) and not one.strategy.by_parts]
    plain = next(one for one in runnable if one.name == BASELINE)
    runnable = [one for one in runnable if one is plain or not _same(one, plain)]
    best = advice.best_for(job)
    assert not best.strategy.by_parts, best.name
    listed = [plain if _same(best, plain) else best]
    for family in ("uncoded", "pull", "copies", "coded"):
        of_family = [one for one in runnable if one.strategy.family == family]
        listed += [one for one in sorted(of_family, key=lambda one: one.interval[1])[:1] if one not in listed]
    return scaled, listed if plain in listed else [*listed, plain]


def _same(one: Outcome, plain: Outcome) -> bool:
    """Whether a strategy is equal shares by another name."""
    return one.strategy.family == "uncoded" and bool((one.plan().counts == plain.plan().counts).all())


def _next(state: int, found: Any) -> int:
    return state + 1


def light_job(work: str, parts: int, plan: Plan, rounds: int) -> SumJob | LinearJob:
    """Return a job of next to no work: emulated workers take the times that they draw."""
    common: dict[str, Any] = {"update": _next, "state": 0, "iterations": rounds, "plan": plan}
    if work == "linear":
        return LinearJob(matrix=np.ones((parts, 8)), vector=lambda state: np.ones(8), parts=parts, **common)
    return SumJob(partial=lambda state, chunk: np.ones(8), chunks=list(range(parts)), **common)


def _live(profile: Profile, work: str, plan: Plan, rounds: int, seed: int) -> float:
    """Return the mean time of an iteration, without the first one, which loads the work."""
    ends: list[float] = []
    job = light_job(work, profile.workload.critical, plan, rounds + 1)
    with Stream("processes", emulate=profile, seed=seed, progress=False) as stream:
        stream.watch(_Ends(ends))
        stream.submit(job).result()
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def _on_the_same_draws(profile: Profile, plan: Plan, rounds: int, seed: int) -> float:
    """Return the expected mean time of an iteration for the times that the live workers will draw."""
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
