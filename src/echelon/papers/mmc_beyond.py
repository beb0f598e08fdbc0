"""Clustering in the multi-message paper, the search over designs that it leaves open, and workers of unequal speed.

The paper says in words what clustering and the hybrid do and prints no number: the kinds of workers are ours. The
search and the unequal workers go beyond it, and their rows in the table of claims say so.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from echelon import plots
from echelon.arrays import FloatArray
from echelon.delays import RoundPace, ShiftedExponential
from echelon.papers.claims import BEYOND, Claim, told, verdict, write_csv
from echelon.papers.counting import counted
from echelon.schemes import CodedPlan, gradient_coding, multi_message
from echelon.search.multi_message import optimise_multi_message
from echelon.simulation import SimulatedRounds, simulate_rounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORKERS, LOAD = 40, 10
MODEL = RoundPace(base=ShiftedExponential(shift=0.01, rate=10.0))  # mmc, (5): alpha is the shift, mu the rate
CHECK_ROUNDS = 30_000
SEARCH_ORDERS = 4
CLUSTERS = (1, 2, 4)
DESIGNS: dict[str, Callable[[int], CodedPlan]] = {
    "GC": lambda clusters: gradient_coding(workers=WORKERS, load=LOAD, clusters=clusters),
    "order 6": lambda clusters: multi_message(workers=WORKERS, load=LOAD, clusters=clusters, order=6),
    "order 1": lambda clusters: multi_message(workers=WORKERS, load=LOAD, clusters=clusters, order=1),
    "orders [6, 8, 10]": lambda clusters: multi_message(
        workers=WORKERS, load=LOAD, clusters=clusters, orders=[6, 8, 10]
    ),
}


def draw_bars(axis: "Axes", groups: Sequence[str], values: dict[str, list[float]]) -> None:
    """Draw bars side by side, one colour per name, for each group."""
    width = 0.8 / len(values)
    for i, (name, heights) in enumerate(values.items()):
        axis.bar(np.arange(len(groups)) + (i - (len(values) - 1) / 2) * width, heights, width=width, label=name)
    axis.set_xticks(range(len(groups)), list(groups), fontsize=8)


def speeds(workers: int, size: int, seed: int) -> dict[str, list[RoundPace]]:
    """Return kinds of workers: the pace of each follows model (5), slower or faster by a factor of its own.

    alike: the paper's. steady: the same mean, a tenth of the spread. half slow: half of them, drawn by `seed`, take 3
    times as long; slow half together: the last half, which is whole clusters. few fast: one of every `size`, drawn by
    `seed`, takes a tenth.
    """
    rng = np.random.default_rng(seed)
    slow, together, fast = np.ones(workers), np.ones(workers), np.ones(workers)
    slow[rng.choice(workers, workers // 2, replace=False)] = 3.0
    together[workers - workers // 2 :] = 3.0
    firsts = np.arange(0, workers, size)
    fast[firsts + rng.integers(size, size=len(firsts))] = 0.1
    return {
        "alike": [MODEL] * workers,
        "steady": [RoundPace(base=ShiftedExponential(shift=0.1, rate=100.0))] * workers,
        "half slow": _paces(slow),
        "slow half together": _paces(together),
        "few fast": _paces(fast),
    }


def _paces(factors: FloatArray) -> list[RoundPace]:
    return [RoundPace(base=ShiftedExponential(shift=0.01 * f, rate=10.0 / f)) for f in factors.tolist()]


def clustering(folder: Path, seed: int) -> list[Claim]:
    """Compare 1, 2 and 4 clusters (section 3.3); all plans see the same paces in the same round."""
    kinds = speeds(WORKERS, LOAD, seed)
    plans = {(design, clusters): make(clusters) for design, make in DESIGNS.items() for clusters in CLUSTERS}
    seen = {
        (kind, *key): simulate_rounds(counted(plan), laws, rounds=CHECK_ROUNDS, seed=seed)
        for kind, laws in kinds.items()
        for key, plan in plans.items()
    }
    columns = ["speeds", "design", "clusters", "mean", "error", "load", "load_with_stop"]
    rows = [[*key, result.mean, result.error, result.load, result.load_with_stop] for key, result in seen.items()]
    write_csv(folder / "clustering.csv", columns, rows)
    drawn, axes = plots.figure(len(DESIGNS), height=2.4)
    for axis, design in zip(axes, DESIGNS, strict=True):
        values = {f"{p} clusters": [seen[kind, design, p].mean for kind in kinds] for p in CLUSTERS}
        draw_bars(axis, list(kinds), values)
        axis.set_title(design, loc="left", fontsize=10)
        axis.set_ylabel("mean time (s)")
    axes[0].legend(frameon=False, fontsize=8)
    plots.save(drawn, folder / "clustering.png")

    # of the workers one cluster may be one short of its threshold while all others are complete
    worst = [WORKERS - WORKERS // p + plans["GC", p].slots[0].threshold for p in CLUSTERS]
    means = [seen["alike", "GC", p].mean for p in CLUSTERS]
    later = sum(
        int((seen[kind, "GC", p].times > seen[kind, "GC", 1].times).sum()) for kind in kinds for p in CLUSTERS[1:]
    )
    harmed = _separated(seen, worse=True)
    helped = _separated(seen, worse=False)
    return [
        Claim(
            "Section 3.3",
            "clustering keeps the threshold of GC, and lowers its average time",
            "K - r + 1 = 31 workers",
            f"1, 2, 4 clusters: {', '.join(map(str, worst))} workers; {', '.join(f'{mean:.3f}' for mean in means)} s",
            verdict(set(worst) == {WORKERS - LOAD + 1} and later == 0 and means[0] > means[1] > means[2]),
            f"clusters are later in {later} of {CHECK_ROUNDS} rounds for each of {len(kinds)} kinds of workers",
        ),
        Claim(
            "Section 3.3",
            "with several messages clustering may also be a disadvantage; the best depends on the workers",
            "in words",
            f"slower with clusters: {'; '.join(harmed) or 'never'}",
            verdict(any(not case.startswith("GC") for case in harmed) and bool(helped)),
            f"intervals of the means lie apart in these cases, and the other way round in {len(helped)} others: the "
            "disadvantage shows where slow workers crowd one cluster, not in the paper's setting",
        ),
    ]


def _separated(seen: dict[tuple[str, str, int], SimulatedRounds], *, worse: bool) -> list[str]:
    """Return the cases in which clusters are worse, or better, than none by more than the intervals."""
    cases = []
    for (kind, design, p), result in seen.items():
        whole = seen[kind, design, 1].interval
        if result.interval.low > whole.high if worse else result.interval.high < whole.low:
            cases.append(f"{design} in {p}, {kind} ({whole.mean:.3f} to {result.mean:.3f})")
    return cases


def orders_and_search(folder: Path, seed: int, *, seen: dict[str, SimulatedRounds], rounds: int) -> list[Claim]:
    """Trade load for time: every order of the correlated design in 4 clusters, and the best of all designs."""
    orders = range(1, LOAD + 1)
    plans = [multi_message(workers=WORKERS, load=LOAD, clusters=4, order=order) for order in orders]
    swept = [simulate_rounds(counted(plan), MODEL, rounds=rounds, seed=seed) for plan in plans]
    columns = ["mean", "error", "load", "load_with_stop"]
    rows = [
        [order, LOAD - order + 1, plan.slots[0].threshold, *figures(result)]
        for order, plan, result in zip(orders, plans, swept, strict=True)
    ]
    write_csv(folder / "orders.csv", ["order", "messages", "threshold", *columns], rows)
    found = optimise_multi_message(WORKERS, LOAD, MODEL, max_messages=WORKERS, max_orders=SEARCH_ORDERS, seed=seed)
    chosen = [[str(design), "chosen by", *figures(result)] for design, result in found.finalists]
    fresh = [str(found.design), "winner on fresh draws", *figures(found.score)]
    write_csv(folder / "search.csv", ["design", "figures", *columns], [fresh, *chosen])
    drawn, (axis,) = plots.figure(height=4.5)
    finalists = [result for _, result in found.finalists]
    axis.plot([r.load for r in finalists], [r.mean for r in finalists], ".", color="tab:gray", label="finalists")
    label = "4 clusters, orders 1 to 10"
    axis.plot([r.load for r in swept], [r.mean for r in swept], "-o", markersize=3, color="tab:green", label=label)
    axis.plot(found.score.load, found.score.mean, "*", color="tab:red", markersize=12, label=f"winner: {found.design}")
    for name, result in seen.items():
        axis.plot(result.load, result.mean, "s", color="tab:blue", markersize=4)
        if name != "hybrid 1":  # lies on GC-MMC-1
            place = (4, -11) if name in ("LCC", "GC-MMC-1") else (4, 5)
            axis.annotate(name, (result.load, result.mean), xytext=place, textcoords="offset points", fontsize=8)
    axis.axvline(WORKERS, color="black", linestyle=":", linewidth=1, label="one message per worker")
    axis.set_yscale("log")
    axis.set_xlabel("communication load (messages)")
    axis.set_ylabel("average completion time (s)")
    axis.legend(frameon=False, fontsize=8)
    plots.save(drawn, folder / "search.png")
    lcc = seen["LCC"].interval
    quicker = [order for order, result in zip(orders, swept, strict=True) if result.interval.high < lcc.low]
    first = quicker == list(range(1, len(quicker) + 1)) and bool(quicker)
    falling = all(few.load < many.load and few.mean > many.mean for many, few in pairwise(swept))
    return [
        Claim(
            "Section 4.1",
            "GC-MMC can outperform LCC if the number of messages is increased, at the expense of the load",
            "in words",
            f"orders {', '.join(map(str, quicker))} in 4 clusters are faster; order 1 takes {swept[0].mean:.4f} with a "
            f"load of {swept[0].load:.1f}, LCC {lcc.mean:.4f} with {seen['LCC'].load:.1f}",
            verdict(first and falling),
            "every lower order is faster and sends more" if falling else "time and load do not move together",
        ),
        Claim(
            "Section 3.2",
            "which orders are best is left as future work; here with at most a message a worker",
            "none",
            f"{found.design}: {told(found.score.interval, 4)}, {found.score.load / WORKERS:.2f} messages a worker",
            BEYOND,
            f"best of {found.tried} designs, scored on fresh draws; LCC takes {lcc.mean:.4f}: its time at a message a "
            "worker is within reach, with other orders than the paper's",
        ),
    ]


def figures(result: SimulatedRounds) -> list[float]:
    """Return what tables show about simulated rounds."""
    return [result.mean, result.error, result.load, result.load_with_stop]
