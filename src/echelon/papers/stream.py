"""The paper on streams of iterative jobs: Example 2 here, Figs. 2 to 4 and 5 to 7 with Table II beside it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from echelon import plots
from echelon.arrays import FloatArray
from echelon.papers import stream_five, stream_hundred
from echelon.papers.claims import Claim, run_steps, told, verdict, write_csv
from echelon.papers.stream_workers import example2
from echelon.prediction import predict_jobs
from echelon.schemes import any_k
from echelon.search.splits import split_rows
from echelon.simulation import Interval, SimulatedJobs, simulate_jobs
from echelon.theory import paper_bound, queued_bound

SEEDS = 200
JOBS = 1000


def reproduce(folder: Path, *, seed: int = 1, progress: Callable[[int, int], None] | None = None) -> list[Claim]:
    """Write PNG and CSV files for every figure and table into `folder`; return the claims with verdicts."""
    steps = (
        _example2,
        stream_five.figure2,
        stream_five.figure3,
        stream_five.figure4,
        stream_hundred.figure5,
        stream_hundred.figures6_7,
        stream_hundred.table2,
    )
    return run_steps(folder, seed, steps, progress)


def _example2(folder: Path, seed: int) -> list[Claim]:
    profile = example2()
    job = profile.workload
    exact: dict[str, float] = {}
    seen: dict[str, SimulatedJobs] = {}
    rows: list[list[object]] = []
    for rule in ("theorem2", "uniform"):
        split = split_rows(profile, rule)
        plan = any_k(split.counts, job.critical)
        exact[rule] = predict_jobs(plan, profile).delay
        seen[rule] = simulate_jobs(plan, profile, jobs=JOBS, seeds=SEEDS, seed=seed)
        delay = seen[rule].delay
        rows.append([rule, " ".join(map(str, split.counts)), exact[rule], delay.mean, delay.low, delay.high])
    write_csv(folder / "example2.csv", ["split", "rows", "exact", "simulated", "low", "high"], rows)
    bound = paper_bound(profile.speeds, job.critical, job.iterations)
    queued = queued_bound(job.arrivals, bound)
    single = {rule: result.delays.mean(axis=1) for rule, result in seen.items()}
    _draw_example2(folder, single, exact, bound, queued)
    ratio = exact["uniform"] / exact["theorem2"]
    return [
        _single_run("optimal split", 47.93, exact["theorem2"], seen["theorem2"].delay, single["theorem2"]),
        _single_run("uniform split", 129.96, exact["uniform"], seen["uniform"].delay, single["uniform"]),
        Claim(
            "Example 2",
            "lower bound (9) on the delay",
            "42.04",
            f"{bound:.2f} by (9); {queued:.2f} with its queue",
            verdict(abs(bound - 42.04) < 0.01 * 42.04),
            "(9) has no queue in it and gives the first number; the printed one is near the second, an M/D/1 queue "
            "whose service takes the bound",
        ),
        Claim(
            "Section I",
            "delay falls by a factor of more than two and a half against the uniform split",
            "more than 2.5",
            f"{ratio:.2f} (exact)",
            verdict(ratio > 2.5),
            "ratio of the exact mean delays of Example 2",
        ),
    ]


def _single_run(what: str, published: float, exact: float, mean: Interval, runs: FloatArray) -> Claim:
    low, high = np.percentile(runs, [0.5, 99.5])
    return Claim(
        "Example 2",
        f"mean delay over 1000 jobs, {what}",
        f"{published}",
        f"{told(mean)}; exact {exact:.2f}",
        verdict(bool(low <= published <= high)),
        f"the published number is one run; 99 % of our single runs lie in [{low:.1f}, {high:.1f}]",
    )


def _draw_example2(
    folder: Path, single: dict[str, FloatArray], exact: dict[str, float], bound: float, queued: float
) -> None:
    drawn, (axis,) = plots.figure()
    published = {"theorem2": 47.93, "uniform": 129.96}
    for place, rule in enumerate(single):
        across = place + np.linspace(-0.2, 0.2, len(single[rule]))
        label = None if place else "our single runs of 1000 jobs"
        axis.plot(across, np.sort(single[rule]), ".", color="tab:gray", markersize=3, label=label)
        axis.plot(place, exact[rule], "o", color="tab:blue", label=None if place else "exact mean")
        axis.plot(place, published[rule], "x", color="tab:red", label=None if place else "published, one run")
    axis.axhline(queued, color="black", linestyle="--", linewidth=1, label="bound (9) with its queue")
    axis.axhline(bound, color="black", linestyle=":", linewidth=1, label="bound (9)")
    axis.set_xticks(range(len(single)), list(single))
    axis.set_xlim(-0.5, len(single) - 0.5)
    axis.set_ylabel("mean delay of a job (s)")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, fontsize=8)
    plots.save(drawn, folder / "example2.png")
