"""The default against the best advice, on the clusters of `advice_live`, in virtual time.

A stream that is told nothing learns for LEARNT rounds. From then on its rounds are compared with those of the strategy
that advice, which knows the laws, finds best: on the same virtual cluster, with the same seed, so that every round
draws the same times.
"""

from typing import Any

import numpy as np

from bench.advice_live import Emulated, clusters
from bench.results import markdown_table
from echelon import LinearJob, Stream, SumJob
from echelon.arrays import FloatArray
from echelon.plan import Plan
from echelon.search import advise
from echelon.stream.observer import Observer, RoundSeen

LEARNT = 20  # rounds
SEEDS = range(2)
ROUNDS = 400  # that are compared, for each seed
EQUAL = 32  # workers


def report() -> str:
    rows, worst = [], 0.0
    for number, emulated in enumerate(clusters()):
        advice = advise(emulated.profile, work=emulated.work, seed=number)
        best = advice.best_for("LinearJob" if emulated.work == "linear" else "SumJob")
        plan = best.plan()
        advised = np.concatenate([_rounds(emulated, seed, plan=plan) for seed in SEEDS])
        default = np.concatenate([_rounds(emulated, seed) for seed in SEEDS])
        behind = float(default.mean() / advised.mean() - 1)
        off = 2 * float((default - advised * (1 + behind)).std()) / len(default) ** 0.5 / float(advised.mean())
        worst = max(worst, behind)
        rows.append(
            [
                f"{emulated.name}, {emulated.work}",
                best.name,
                f"{advised.mean():.3f}",
                f"{default.mean():.3f}",
                f"{behind:+.1%} ± {off:.1%}",
            ]
        )
    plain, by_default, coded = (_equal(**options) for options in ({"redundancy": 1.0}, {}, {"redundancy": 1.1}))
    head = ["cluster, work", "best advice", "its rounds", "by default", "behind by"]
    return (
        f"Rounds in virtual time, in the units of each cluster: {len(SEEDS)} runs of {ROUNDS} rounds each, after "
        f"{LEARNT} in which a stream that is told nothing learns. Advice knows the laws; both see the same draws. "
        f"Behind by {worst:+.1%} at most (wanted: 5 %); twice the deviation of the mean is given. {EQUAL} equal "
        f"workers take {by_default / plain:.2f} times as long by default as with `redundancy=1.0` (wanted: 1.02), and "
        f"{coded / plain:.2f} times with 1.1.\n\n{markdown_table(head, rows)}"
    )


class _Times(Observer):
    """Notes how long rounds take."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def round_over(self, seen: RoundSeen) -> None:
        self.seconds.append(seen.end - seen.start)


def _next(state: int, found: Any) -> int:
    return state + 1


def _rounds(emulated: Emulated, seed: int, *, plan: Plan | None = None) -> FloatArray:
    """Return the times of rounds after the first ones: by a plan, or by default."""
    parts = emulated.profile.workload.critical
    common: dict[str, Any] = {"update": _next, "state": 0, "iterations": LEARNT + ROUNDS, "plan": plan}
    job: SumJob | LinearJob
    if emulated.work == "linear":
        job = LinearJob(matrix=np.ones((parts, 8)), vector=lambda state: np.ones(8), parts=parts, **common)
    else:
        job = SumJob(partial=lambda state, chunk: np.ones(8), chunks=range(parts), **common)
    seen = _Times()
    with Stream("virtual", emulate=emulated.profile, seed=seed, observers=[seen], progress=False) as stream:
        stream.submit(job).result()
    return np.array(seen.seconds[LEARNT:])


def _equal(**options: float) -> float:
    """Return what a sum takes on equal workers."""
    job = SumJob(
        partial=lambda state, chunk: np.ones(8), chunks=range(2 * EQUAL), update=_next, state=0, iterations=ROUNDS
    )
    with Stream("virtual", workers=EQUAL, progress=False, **options) as stream:
        return stream.submit(job).delivery().delay
