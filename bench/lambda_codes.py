"""Codes on recorded workers: thirty rounds of a CNN on 256 Lambda workers, as they would have gone with each code.

Every number comes from the evaluators of `echelon`: rounds drawn under the law `recorded`, and the master in virtual
time. A round of a code takes what was recorded without data, and 1.127 s times the share of the data that a worker has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import echelon as ec
from bench.results import markdown_table
from echelon.clusters import VirtualCluster
from echelon.codes import balanced, cyclic, fractional_repetition, graph, uncoded
from echelon.delays import RecordedTimes
from echelon.files import read_times
from echelon.jobs import HollowJob
from echelon.plan import Plan, Slot, Task
from echelon.schemes import CodedPlan, coded_rows
from echelon.simulation import RoundSampler

TABLE = Path(__file__).parents[1] / "examples" / "lambda" / "lambda.npz"
WORKERS, ROUNDS = 256, 30
LOADS = range(1, 101)  # parts per worker of cyclic codes
VIRTUAL = ("uncoded", "fractional repetition, 8 copies, groups apart", "graph, 8 copies")


@dataclass(frozen=True)
class Tried:
    """A code: what makes its plan, the parts that make up the data, and the share of it that each worker has."""

    plan: Callable[[], CodedPlan]
    parts: int
    share: float


def _tried(code: Callable[[], ec.codes.Code], parts: int, load: int) -> Tried:
    return Tried(lambda: coded_rows(code(), [1] * WORKERS), parts, load / WORKERS)


def _rng() -> np.random.Generator:
    return np.random.default_rng(1)


def _repetition(load: int, *, apart: bool) -> Tried:
    return _tried(lambda: fractional_repetition(rows=WORKERS, load=load, apart=apart), WORKERS, load)


def _graph(load: int) -> Tried:
    parts = 2 * WORKERS // load
    return _tried(lambda: graph(parts=parts, load=load, rng=_rng()), parts, load)


def _balanced(load: int, parts: int) -> Tried:
    return _tried(lambda: balanced(rows=WORKERS, parts=parts, load=load, rng=_rng()), parts, load)


@cache
def table() -> RecordedTimes:
    return read_times(TABLE, "cnn")


@cache
def tried() -> dict[str, Tried]:
    """Return every code by its name."""
    load = best_cyclic()
    return {
        "uncoded": _tried(lambda: uncoded(parts=WORKERS), WORKERS, 1),
        f"cyclic, any {WORKERS - load + 1} rows": _tried(
            lambda: cyclic(rows=WORKERS, load=load, rng=_rng()), WORKERS, load
        ),
        "fractional repetition, 4 copies": _repetition(4, apart=False),
        "fractional repetition, 4 copies, groups apart": _repetition(4, apart=True),
        "fractional repetition, 8 copies": _repetition(8, apart=False),
        "fractional repetition, 8 copies, groups apart": _repetition(8, apart=True),
        "graph, 4 copies": _graph(4),
        "graph, 8 copies": _graph(8),
        "balanced, 4 copies of 64 parts": _balanced(4, 64),
        "balanced, 8 copies of 64 parts": _balanced(8, 64),
    }


def best_cyclic() -> int:
    """Return how many parts per worker are best where any WORKERS - parts + 1 rows are needed, and not fewer."""
    return min(LOADS, key=lambda load: sampled(_counting(load), WORKERS))


def _counting(load: int) -> Plan:
    lanes = [[Task(slot=0, row=p, cost=float(load))] for p in range(WORKERS)]
    return Plan([Slot(rows=WORKERS, threshold=WORKERS - load + 1)], lanes)


def sampled(plan: Plan, parts: int) -> float:
    """Return what all recorded rounds take together; where they begin makes no difference, since they wrap around."""
    sampler = RoundSampler(plan, table().laws(parts=parts), np.zeros(WORKERS))
    times = sampler.draw(sampler.begin(1, _rng()), 1, ROUNDS, _rng())[0].times
    return float(times.sum())


def in_virtual_time(one: Tried) -> float:
    """Return what the master takes for a job of as many rounds."""
    workload = ec.Workload(critical=1, redundancy=1.0, iterations=ROUNDS, arrivals=ec.Arrivals.poisson(0.01))
    profile = ec.Profile(workload, table().profiled(parts=one.parts))
    with ec.Stream(VirtualCluster(emulate=profile), patience_s=1e9, progress=False) as stream:
        return float(stream.submit(HollowJob(one.plan(), iterations=ROUNDS)).delivery().delay)


def median() -> float:
    """Return what the rounds would take if each took as long as its median worker, uncoded."""
    return float(np.median(table().at(0) + table().slope / WORKERS, axis=1).sum())


def report() -> str:
    rows, first = [], None
    for name, one in tried().items():
        plan = one.plan()
        took = sampled(plan, one.parts)
        first = took if first is None else first
        driven = f"{in_virtual_time(one):.2f}" if name in VIRTUAL else ""
        rows.append(
            [name, f"{one.share:.1%}", f"{plan.slots[0].threshold}", f"{took:.2f}", driven, f"{took / first:.3f}"]
        )
    columns = ["code", "data per worker", "rows promised to do", "seconds", "in virtual time", "of uncoded"]
    return (
        f"{ROUNDS} rounds on {WORKERS} workers, as recorded on AWS Lambda (`examples/lambda`): each worker takes what "
        f"it took without data in that round, and {table().slope:.3f} s times its share of the data. A round ends with "
        f"the first rows that give the sum. The median worker's rounds add up to {median():.2f} s.\n\n"
        + markdown_table(columns, rows)
    )


if __name__ == "__main__":
    print(report())
