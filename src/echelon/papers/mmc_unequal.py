"""Beyond the mmc paper: unequal workers, and which family of designs is fastest on them at equal messages."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from echelon import plots
from echelon.delays import Delay, RoundPace, Straggler, task_laws
from echelon.papers.claims import BEYOND, Claim, write_csv
from echelon.papers.counting import counted
from echelon.papers.mmc_beyond import figures
from echelon.profile import Arrivals, Profile, Worker, Workload
from echelon.schemes import CodedPlan, fractional_repetition, multi_message, sliding_window
from echelon.schemes import uncoded_multi_message as uncoded
from echelon.simulation import SimulatedRounds, simulate_rounds

SCREEN_ROUNDS, SCORE_ROUNDS = 4_000, 30_000
# Unequal workers: the whole data takes the fastest 1 s and the slowest 4 s; std / mean, and the share of slow rounds.
WHOLE = 1 / np.linspace(1.0, 0.25, 12)
VARIATIONS = {"as in (5)": (10 / 11, 0.0), "steady": (0.1, 0.0), "rare stragglers": (0.1, 0.05)}
SLOWDOWN = 10.0
MOST_COPIES = 4  # of the data, over all workers
LIMITS = (12, 24, 48)  # messages


@dataclass(frozen=True, slots=True)
class Candidate:
    """A design for the unequal workers; it cuts the data into `plan.parts` chunks."""

    family: str
    name: str
    plan: CodedPlan

    @property
    def copies(self) -> float:
        """How many times the data is held, all workers together."""
        return float(sum(costs.sum() for costs in self.plan.costs)) / self.plan.parts


def unequal_profile(critical: int, chunks: int, spread: float) -> Profile:
    """Return the unequal workers where a task is one of this many chunks: the whole data always costs WHOLE."""
    workers = [
        Worker(f"w{i + 1}", mean=time / chunks, std=spread * time / chunks, law="round_pace")
        for i, time in enumerate(WHOLE.tolist())
    ]
    job = Workload(critical=critical, redundancy=chunks / critical, iterations=1, arrivals=Arrivals.poisson(0.001))
    return Profile(job, workers)


def unequal_laws(chunks: int, spread: float, slow_share: float) -> list[Delay]:
    """Return the paces of the unequal workers, per chunk; in some rounds a worker takes SLOWDOWN times as long."""
    laws = task_laws(unequal_profile(chunks, chunks, spread))
    if slow_share == 0:
        return laws
    paces = [law.base for law in laws if isinstance(law, RoundPace)]
    return [RoundPace(base=Straggler(base=pace, probability=slow_share, slowdown=SLOWDOWN)) for pace in paces]


def candidates(spread: float) -> Iterator[Candidate]:
    """Give every design that is tried: windows over several numbers of chunks, and multi-message designs."""
    for critical in LIMITS:
        for chunks in (critical, critical + 1, critical + 2, critical + 3, critical * 5 // 4, critical * 3 // 2):
            profile = unequal_profile(critical, chunks, spread)
            code = "no code" if chunks == critical else "windows"
            for rule, lanes in (("theorem2", "lanes by speed"), ("uniform", "equal lanes")):
                yield Candidate(f"{code}, {lanes}", f"{critical} of {chunks}", sliding_window(profile, rule))
    workers = len(WHOLE)
    for load in range(2, MOST_COPIES + 1):
        yield Candidate("fractional repetition", f"load {load}", fractional_repetition(workers=workers, load=load))
        for clusters in (p for p in range(1, workers // load + 1) if workers % p == 0):
            where = f"load {load}, {clusters} clusters"
            make = partial(multi_message, workers=workers, load=load, clusters=clusters)
            yield Candidate("uncoded MMC", where, uncoded(workers=workers, load=load, clusters=clusters))
            if workers > load * clusters:
                yield Candidate("gradient coding", where, make(order=load))
            for order in range(2, load):
                yield Candidate("correlated MMC", f"{where}, order {order}", make(order=order))
            for count in range(2, load + 1):
                for orders in combinations(range(1, load + 1), count):
                    name = f"{where}, orders {list(orders)}"
                    yield Candidate("uncorrelated MMC", name, make(orders=orders))
                    if workers == load * clusters and orders[-1] == load:
                        yield Candidate("hybrid MMC", name, make(orders=orders, hybrid=True))


def unequal(folder: Path, seed: int) -> list[Claim]:
    """Compare families of designs on unequal workers: the same data and messages, at most MOST_COPIES copies."""
    rows: list[list[object]] = []
    claims: list[Claim] = []
    colours: dict[str, str] = {}
    drawn, axes = plots.figure(len(VARIATIONS), height=3.2)
    for axis, (variation, (spread, slow_share)) in zip(axes, VARIATIONS.items(), strict=True):
        best = _best_of_families(spread, slow_share, seed)
        rows += [
            [variation, limit, family, one.name, one.copies, *figures(result)]
            for (family, limit), (one, result) in best.items()
        ]
        for family in sorted({family for family, _ in best}):
            results = [best[family, limit][1] for limit in LIMITS if (family, limit) in best]
            colour = colours.setdefault(family, f"C{len(colours)}")
            axis.plot([r.load for r in results], [r.mean for r in results], "-o", color=colour, label=family)
        axis.set_title(f"12 workers, speeds 1 to 4; {variation}", loc="left", fontsize=10)
        axis.set_ylabel("mean time (s)")
        claims.append(_winners(variation, best))
    axes[-1].set_xlabel("communication load (messages)")
    axes[0].legend(frameon=False, fontsize=7, ncols=2)
    plots.save(drawn, folder / "unequal.png")
    columns = ["variation", "most_messages", "family", "design", "copies", "mean", "error", "load", "load_with_stop"]
    write_csv(folder / "unequal.csv", columns, rows)
    return claims


Best = dict[tuple[str, int], tuple[Candidate, SimulatedRounds]]


def _best_of_families(spread: float, slow_share: float, seed: int) -> Best:
    """Return the best design of each family and limit, chosen on few rounds and scored on fresh ones."""

    def score(one: Candidate, rounds: int, start: int) -> SimulatedRounds:
        return simulate_rounds(
            counted(one.plan), unequal_laws(one.plan.parts, spread, slow_share), rounds=rounds, seed=start
        )

    tried = [one for one in candidates(spread) if one.copies <= MOST_COPIES + 1e-9]
    screened = [(one, score(one, SCREEN_ROUNDS, seed)) for one in tried]
    chosen: dict[tuple[str, int], Candidate] = {}
    for one, result in sorted(screened, key=lambda pair: pair[1].mean):
        for limit in LIMITS:
            if result.load <= limit:
                chosen.setdefault((one.family, limit), one)
    scored = {one: score(one, SCORE_ROUNDS, seed + 1) for one in set(chosen.values())}
    return {key: (one, scored[one]) for key, one in sorted(chosen.items())}


def _winners(variation: str, best: Best) -> Claim:
    lines, windows = [], []
    for limit in LIMITS:
        pairs = [pair for (_, most), pair in best.items() if most == limit]
        (one, first), (other, second), *_ = sorted(pairs, key=lambda pair: pair[1].mean)
        lines.append(f"{limit}: {one.family}, {one.name} ({first.mean:.3f}; next {other.family}, {second.mean:.3f})")
        windows.append(f"{best['windows, lanes by speed', limit][1].mean:.3f}")
    return Claim(
        "Beyond: 12 workers with speeds 1 to 4",
        f"which family is fastest with at most 12, 24, 48 messages; times {variation}",
        "none",
        "; ".join(lines),
        BEYOND,
        f"at most {MOST_COPIES} copies of the data; coded windows with lanes by speed take {', '.join(windows)}",
    )
