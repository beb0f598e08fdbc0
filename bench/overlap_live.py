"""Idle workers that begin the next job: what it saves live, next to what the simulator says.

A batch of jobs is submitted at once; the delay of a job is from then to its delivery.
"""

from typing import Any

import numpy as np

from bench.emulated import SLOW, cluster, equal, unequal
from bench.results import markdown_table
from echelon import Stream, SumJob
from echelon.codes import uncoded
from echelon.delays import task_laws
from echelon.profile import Profile
from echelon.schemes import CodedPlan, coded_rows
from echelon.seeds import place_generator
from echelon.simulation.overlapped import Overlapped
from echelon.splits import largest_remainder

JOBS, REPEATS, SEEDS = 10, 2, 400
TIME_S = 0.12  # mean time of a batch's iteration, about
ITERATIONS = (1, 3, 10)


def _clusters() -> dict[str, Profile]:
    return {
        "four equal, exponential": cluster(24, equal(4, "gamma", 1.0)),
        "ten equal, each five times slower in 10 % of rounds": cluster(40, equal(10, "straggler", 1.3, **SLOW)),
        "six unequal": cluster(36, unequal([1, 1.5, 2, 3, 4, 6], 0.5)),
    }


def report() -> str:
    rows, off = [], []
    for number, (name, workers) in enumerate(_clusters().items()):
        plan = coded_rows(uncoded(parts=workers.workload.critical), _by_speed(workers))
        profile = workers.scaled(TIME_S / _predicted(workers, plan, 1, jobs=1)[0])
        for iterations in ITERATIONS:
            before, after = _predicted(profile, plan, iterations, jobs=JOBS)
            live = [
                np.mean([_live(profile, plan, iterations, 10 * number + i, overlap=overlap) for i in range(REPEATS)])
                for overlap in (False, True)
            ]
            off += [abs(live[0] / before - 1), abs(live[1] / after - 1)]
            rows.append(
                [
                    name if iterations == ITERATIONS[0] else "",
                    str(iterations),
                    f"{before:.2f}",
                    f"{live[0]:.2f}",
                    f"{after:.2f}",
                    f"{live[1]:.2f}",
                    f"{1 - after / before:.0%}",
                    f"{1 - live[1] / live[0]:.0%}",
                ]
            )
    table = markdown_table(
        ["cluster, uncoded by speed", "iterations", "alone, predicted s", "live s", "overlapped, predicted s", "live s",
         "saved, predicted", "live"],
        rows,
    )  # fmt: skip
    return (
        f"Mean delay of {JOBS} jobs that are submitted at once, over {REPEATS} runs (predictions: {SEEDS}), when "
        "workers for whom a round has nothing more begin the next job, and when they do not. Predictions are off "
        f"by {max(off):.0%} at most.\n\n{table}"
    )


def _by_speed(profile: Profile) -> Any:
    mean, parts = profile.speeds.mean, profile.workload.critical
    return largest_remainder(parts / mean / (1 / mean).sum(), parts)


def _predicted(profile: Profile, plan: CodedPlan, iterations: int, *, jobs: int) -> tuple[float, float]:
    """Return the mean delay without overlap, and with it."""
    rounds = Overlapped(plan, task_laws(profile), profile.speeds.link)
    found = [
        rounds.departures(np.zeros((SEEDS, jobs)), iterations, place_generator(1, 0), overlap=overlap).mean()
        for overlap in (False, True)
    ]
    return float(found[0]), float(found[1])


def _live(profile: Profile, plan: CodedPlan, iterations: int, seed: int, *, overlap: bool) -> float:
    """Return the mean delay of jobs that are all submitted before the first begins."""
    job = SumJob(
        partial=_part,
        update=_step,
        state=0,
        chunks=list(range(profile.workload.critical)),
        iterations=iterations,
        plan=plan,
    )
    with (
        Stream("processes", emulate=profile, seed=seed, overlap=overlap, progress=False) as stream,
        stream.keep(job) as kept,
    ):
        kept.run(0)  # loads the work
        handles = [kept.submit(0) for _ in range(JOBS)]
        return float(np.mean([handle.delivery().delay for handle in handles]))


def _part(state: int, chunk: int) -> Any:
    return np.ones(8)


def _step(state: int, total: Any) -> int:
    return state + 1
