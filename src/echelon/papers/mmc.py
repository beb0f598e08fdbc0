"""The paper on gradient coding with multi-message communication: Fig. 1, the worked examples and the hybrids here.

Clustering and the search over designs are in `mmc_beyond`, unequal workers in `mmc_unequal`, idle workers that help
others in `mmc_lending`. Beside the paper's five schemes stand
fractional repetition and the hybrids of both designs, which it does not draw.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np

from echelon import plots
from echelon.codes import Code, SpanTracker
from echelon.papers import mmc_beyond, mmc_lending, mmc_unequal
from echelon.papers.claims import Claim, run_steps, told, verdict, write_csv
from echelon.papers.counting import counted
from echelon.papers.mmc_beyond import LOAD, MODEL, WORKERS
from echelon.prediction import predict_rounds
from echelon.schemes import (
    CodedPlan,
    fractional_repetition,
    gradient_coding,
    lagrange,
    multi_message,
    uncoded_multi_message,
)
from echelon.simulation import SimulatedRounds, simulate_rounds
from echelon.theory import exact

ROUNDS = 100_000
MOST_SUBSETS = 1000  # of rows that are tried one by one; where there are more, this many seeded ones


def reproduce(folder: Path, *, seed: int = 1, progress: Callable[[int, int], None] | None = None) -> list[Claim]:
    """Write PNG and CSV files for every figure, example and search into `folder`; return the claims with verdicts."""
    plans = schemes()
    seen = {name: simulate_rounds(counted(plan), MODEL, rounds=ROUNDS, seed=seed) for name, plan in plans.items()}
    steps: tuple[Callable[[Path, int], list[Claim]], ...] = (
        partial(_figure1, plans=plans, seen=seen),
        _examples,
        mmc_beyond.clustering,
        _hybrids,
        partial(mmc_beyond.orders_and_search, seen=seen, rounds=ROUNDS),
        mmc_unequal.unequal,
        mmc_lending.lending,
    )
    return run_steps(folder, seed, steps, progress)


def schemes() -> dict[str, CodedPlan]:
    """Return the plans of Fig. 1 by the paper's names, then those that it leaves out."""
    clustered = partial(multi_message, workers=WORKERS, load=LOAD, clusters=4)
    return {
        "GC": gradient_coding(workers=WORKERS, load=LOAD),
        "LCC": lagrange(workers=WORKERS, load=LOAD),
        "UC-MMC": uncoded_multi_message(workers=WORKERS, load=LOAD),
        "GC-MMC-1": clustered(order=6),
        "GC-MMC-2": clustered(orders=[6, 8, 10]),
        "FR": fractional_repetition(workers=WORKERS, load=LOAD),
        "hybrid 1": clustered(order=6, hybrid=True),
        "hybrid 2": clustered(orders=[6, 8, 10], hybrid=True),
    }


def _exact(plan: CodedPlan) -> float | None:
    """Return the mean completion time under model (5), where it is known without sampling."""
    return predict_rounds(plan, MODEL).mean if exact.can(plan, [MODEL] * len(plan.lanes)) else None


def _figure1(folder: Path, seed: int, *, plans: dict[str, CodedPlan], seen: dict[str, SimulatedRounds]) -> list[Claim]:
    exact = {name: _exact(plan) for name, plan in plans.items()}
    rows = [
        [name, result.mean, result.error, exact[name], result.load, result.load_error, result.load_with_stop]
        for name, result in seen.items()
    ]
    columns = ["scheme", "mean", "error", "exact", "load", "load_error", "load_with_stop"]
    write_csv(folder / "figure1.csv", columns, rows)
    drawn, (above, below) = plots.figure(2)
    mmc_beyond.draw_bars(above, list(seen), {"simulated": [result.mean for result in seen.values()]})
    mmc_beyond.draw_bars(
        below,
        list(seen),
        {
            "all messages": [result.load for result in seen.values()],
            "finished clusters told to stop": [result.load_with_stop for result in seen.values()],
        },
    )
    above.set_title("Fig. 1 (a); the three on the right are not in the paper", loc="left", fontsize=10)
    below.set_title("Fig. 1 (b)", loc="left", fontsize=10)
    above.set_ylabel("average completion time (s)")
    below.set_ylabel("communication load (messages)")
    below.legend(frameon=False, fontsize=8)
    plots.save(drawn, folder / "figure1.png")
    best = {name: result.mean if exact[name] is None else float(exact[name] or 0) for name, result in seen.items()}
    single = simulate_rounds(multi_message(workers=WORKERS, load=LOAD, order=1), MODEL, rounds=ROUNDS, seed=seed)
    return [*_time_claims(seen, best), _special_case(seen["UC-MMC"], single), _improvement(seen, best)]


def _time_claims(seen: dict[str, SimulatedRounds], best: dict[str, float]) -> list[Claim]:
    lcc, first, second, hybrid = (best[name] for name in ("LCC", "GC-MMC-1", "GC-MMC-2", "hybrid 2"))
    load, stopped = (value / WORKERS for value in (seen["GC-MMC-2"].load, seen["GC-MMC-2"].load_with_stop))
    return [
        Claim(
            "Fig. 1 (a)",
            "GC-MMC-1 performs as well as LCC in completion time",
            "picture",
            f"{told(seen['GC-MMC-1'].interval, 4)} against {lcc:.4f} (exact)",
            verdict(seen["GC-MMC-1"].interval.low <= lcc),
            f"it is {1 - first / lcc:.0%} faster, and receives {seen['GC-MMC-1'].load / seen['LCC'].load:.1f} times "
            "as many messages",
        ),
        Claim(
            "Fig. 1 (a)",
            "GC-MMC-2 achieves the same performance as LCC",
            "picture",
            f"{second:.4f} against {lcc:.4f} (both exact)",
            verdict(abs(second / lcc - 1) < 0.05),
            f"{second / lcc - 1:.0%} slower; its hybrid of section 3.4 takes {hybrid:.4f} (exact), "
            f"{hybrid / lcc - 1:.1%} more than LCC, and {seen['hybrid 2'].load / WORKERS:.2f} messages a worker",
        ),
        Claim(
            "Fig. 1 (b)",
            "GC-MMC-2 sends a single message per worker on average",
            "1",
            f"{load:.2f}; {stopped:.2f} where finished clusters are told to stop",
            verdict(round(load) == 1),
            f"to the nearest whole number; {load - 1:.0%} more than one unless clusters are told to stop",
        ),
    ]


def _special_case(uncoded: SimulatedRounds, single: SimulatedRounds) -> Claim:
    equal = int((uncoded.times == single.times).sum())
    return Claim(
        "Section 4.1",
        "UC-MMC is the correlated design with order m = 1",
        "same scheme",
        f"same time in {equal} of {len(single.times)} rounds; loads {uncoded.load:.2f} and {single.load:.2f}",
        verdict(equal == len(single.times) and uncoded.load == single.load),
        "the two plans on the same paces, round by round",
    )


def _improvement(seen: dict[str, SimulatedRounds], best: dict[str, float]) -> Claim:
    gain, alone = best["GC"] / best["GC-MMC-1"], best["GC"] / best["FR"]
    return Claim(
        "Abstract",
        "several messages and clustering together improve the completion time of GC significantly",
        "picture",
        f"GC {best['GC']:.4f} (exact), GC-MMC-1 {best['GC-MMC-1']:.4f}: {gain:.1f} times faster; load "
        f"{seen['GC'].load:.1f} and {seen['GC-MMC-1'].load:.1f}",
        verdict(gain > 2),
        f"clusters of ten alone, with one message a worker, are fractional repetition, which the figure leaves out: "
        f"{best['FR']:.4f} (exact), {alone:.1f} times faster than GC, with a load of {seen['FR'].load:.1f}",
    )


@dataclass(frozen=True, slots=True)
class _Example:
    """A code with the threshold that the paper prints, none where it prints none, and what its formula gives."""

    name: str
    code: Code
    printed: int | None
    derived: int


def _worked() -> list[_Example]:
    # threshold = most zeros in a column + 1: K - m + 1, and K l - sum of the orders + 1 (mmc, notes 1 and 2)
    def code(workers: int, load: int, *, order: int | None = None, orders: list[int] | None = None) -> Code:
        return multi_message(workers=workers, load=load, order=order, orders=orders).codes[0]

    return [
        _Example("K = 6, r = 3: gradient coding", code(6, 3, order=3), 4, 6 - 3 + 1),
        _Example("K = 6, r = 3: order 2", code(6, 3, order=2), 5, 6 - 2 + 1),
        _Example("K = 6, r = 3: orders [3, 2]", code(6, 3, orders=[3, 2]), 8, 12 - 5 + 1),
        _Example("K = 5, r = 5: orders [5, 3]", code(5, 5, orders=[5, 3]), 3, 10 - 8 + 1),
        _Example("K = 10, r = 10: order 6, a cluster of GC-MMC-1", code(10, 10, order=6), None, 10 - 6 + 1),
        _Example("K = 10, r = 10: orders [6, 8, 10], of GC-MMC-2", code(10, 10, orders=[6, 8, 10]), None, 30 - 24 + 1),
        _Example("K = 40, r = 10: gradient coding", code(40, 10, order=10), 31, 40 - 10 + 1),
    ]


def decodable(code: Code, size: int, seed: int) -> tuple[int, int]:
    """Return how many of the sets of `size` rows span the target, and how many were tried: all, or seeded ones."""
    if comb(code.rows, size) <= MOST_SUBSETS:
        tried = list(combinations(range(code.rows), size))
    else:
        rng = np.random.default_rng(seed)
        tried = [tuple(rng.choice(code.rows, size, replace=False).tolist()) for _ in range(MOST_SUBSETS)]
    return sum(_spans(code, rows) for rows in tried), len(tried)


def _spans(code: Code, rows: tuple[int, ...]) -> bool:
    tracker = SpanTracker(code)
    return [tracker.add(row) for row in rows][-1]


def _examples(folder: Path, seed: int) -> list[Claim]:
    """Check every threshold on the rows themselves, by what they span, not by how many they are."""
    rows: list[list[object]] = []
    agree = True
    for example in _worked():
        enough, tried = decodable(example.code, example.code.threshold, seed)
        lucky, fewer = decodable(example.code, example.code.threshold - 1, seed)
        agree &= example.code.threshold == example.derived == (example.printed or example.derived) and enough == tried
        counts = [enough, tried, lucky, fewer]
        rows.append([example.name, example.printed, example.derived, example.code.threshold, *counts])
    # LCC: a gradient of degree 2 in ceil(K / r) blocks (mmc, note 5)
    threshold = lagrange(workers=WORKERS, load=LOAD).slots[0].threshold
    rows.append(["K = 40, r = 10: LCC", None, 2 * -(-WORKERS // LOAD) - 1, threshold, None, None, None, None])
    columns = ["example", "printed", "derived", "code", "decoded", "tried", "decoded_one_less", "tried_one_less"]
    write_csv(folder / "thresholds.csv", columns, rows)
    printed = [str(row[1]) for row in rows if row[1] is not None]
    plan = multi_message(workers=6, load=3, order=2)
    triples = list(combinations(range(6), 3))
    done = [_spans(plan.codes[0], tuple(task.row for p in triple for task in plan.lanes[p])) for triple in triples]
    named = done[triples.index((0, 1, 3))]
    _, two, many, *_ = rows
    return [
        Claim(
            "Sections 2 and 3",
            "thresholds of the worked examples: " + "; ".join(str(row[0]) for row in rows if row[1] is not None),
            ", ".join(printed),
            ", ".join(str(row[3]) for row in rows if row[1] is not None),
            verdict(agree),
            f"from the codes; every set of so many rows was found to decode, {many[4]} of {many[5]} for [3, 2] (where "
            f"there are more than {MOST_SUBSETS} sets, {MOST_SUBSETS} seeded ones)",
        ),
        Claim(
            "Example 1",
            "any K - m - 1 = 5 coded gradients are enough for K = 6, m = 2",
            "K - m - 1 = 5",
            f"K - m - 1 = 3; K - m + 1 = 5: {two[4]} of {two[5]} sets of five decode, {two[6]} of {two[7]} of four",
            verdict(plan.slots[0].threshold == 6 - 2 - 1),
            "a misprint: the number 5 is right, the formula is K - m + 1",
        ),
        Claim(
            "Example 1",
            "with orders [3, 2] the master needs at least 8 coded gradients",
            "8",
            f"{many[4]} of {many[5]} sets of eight decode, and {many[6]} of {many[7]} sets of seven",
            verdict(many[6] == 0),
            "eight are always enough, and rarely needed: the rows combine six gradients only, so six independent ones "
            "give all of them; times here are counted by thresholds, as in the paper",
        ),
        Claim(
            "Example 1",
            "three workers can be enough with order 2, such as workers 1, 2 and 4; GC needs four",
            "3",
            f"{sum(done)} of {len(done)} sets of three workers decode, {'' if named else 'not '}that one",
            verdict(named),
            "can, not will: two messages each from three workers are five different rows in these cases only",
        ),
    ]


def _hybrids(folder: Path, seed: int) -> list[Claim]:
    """Compare a multi-message design, fractional repetition and their hybrid (section 3.4), round by round."""
    settings: dict[str, tuple[int, int, Callable[..., CodedPlan]]] = {
        "K = 5, orders [5, 3]": (5, 1, partial(multi_message, orders=[5, 3])),
        "K = 40, orders [6, 8, 10]": (WORKERS, 4, partial(multi_message, orders=[6, 8, 10])),
        "K = 40, order 6": (WORKERS, 4, partial(multi_message, order=6)),
    }
    rows: list[list[object]] = []
    means: dict[tuple[str, str], tuple[float, float, float]] = {}
    later = rounds = same = 0
    drawn, axes = plots.figure(len(settings), height=2.6)
    for axis, (setting, (workers, clusters, make)) in zip(axes, settings.items(), strict=True):
        load = workers // clusters
        arguments = {"workers": workers, "load": load, "clusters": clusters}
        plans = [make(**arguments), fractional_repetition(workers=workers, load=load), make(**arguments, hybrid=True)]
        kinds = mmc_beyond.speeds(workers, load, seed)
        for kind, laws in kinds.items():
            many, one, both = (
                simulate_rounds(counted(plan), laws, rounds=mmc_beyond.CHECK_ROUNDS, seed=seed) for plan in plans
            )
            over = int((both.times > np.minimum(many.times, one.times)).sum())
            later, rounds = later + over, rounds + mmc_beyond.CHECK_ROUNDS
            same += setting.endswith("order 6") and bool((both.times == many.times).all())
            means[setting, kind] = (many.mean, one.mean, both.mean)
            each = [value for result in (many, one, both) for value in (result.mean, result.error, result.load)]
            rows.append([setting, kind, *each, float((many.times < one.times).mean()), over])
        values = {name: [means[setting, kind][i] for kind in kinds] for i, name in enumerate(("MMC", "FR", "hybrid"))}
        mmc_beyond.draw_bars(axis, list(kinds), values)
        axis.set_title(setting, loc="left", fontsize=10)
        axis.set_ylabel("mean time (s)")
    axes[0].legend(frameon=False, fontsize=8)
    plots.save(drawn, folder / "hybrid.png")
    columns = [f"{name}_{what}" for name in ("mmc", "fr", "hybrid") for what in ("mean", "error", "load")]
    header = ["setting", "speeds", *columns, "rounds_mmc_first", "rounds_hybrid_later"]
    write_csv(folder / "hybrid.csv", header, rows)
    return _hybrid_claims(list(settings), means, later, rounds, same)


def _hybrid_claims(
    settings: list[str], means: dict[tuple[str, str], tuple[float, float, float]], later: int, rounds: int, same: int
) -> list[Claim]:
    five, uncorrelated, correlated = settings

    def pair(setting: str, kind: str) -> str:
        return f"{setting}: MMC {means[setting, kind][0]:.3f}, FR {means[setting, kind][1]:.3f}"

    steady = [means[setting, "steady"] for setting in settings]
    fast = [means[setting, "few fast"] for setting in (five, uncorrelated)]
    return [
        Claim(
            "Section 3.4",
            "where speeds are similar, several messages are better than fractional repetition",
            "in words",
            "; ".join(pair(setting, "steady") for setting in settings),
            verdict(all(many < one for many, one, _ in steady)),
            f"paces that differ by a tenth; those of model (5) differ too much: {pair(uncorrelated, 'alike')}",
        ),
        Claim(
            "Section 3.4",
            "where one worker is much faster, fractional repetition is better",
            "in words",
            "; ".join(pair(setting, "few fast") for setting in (five, uncorrelated)),
            verdict(all(one < many for many, one, _ in fast)),
            f"one worker of each cluster ten times as fast; not so for a correlated design that holds its whole "
            f"cluster: a worker that is through has sent enough alone ({pair(correlated, 'few fast')})",
        ),
        Claim(
            "Section 3.4",
            "the hybrid takes the better of both",
            "in words",
            f"later than either in {later} of {rounds} rounds",
            verdict(later == 0),
            f"same paces for all three, workers alike and unequal; for order 6 the hybrid changes nothing in {same} of "
            "5 kinds of workers, since all r - m + 1 messages of one worker are its cluster's threshold",
        ),
    ]
