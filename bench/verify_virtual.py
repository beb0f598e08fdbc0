"""Results checked before each step: bit flips of one of eight workers in virtual time, and what a check costs."""

import logging
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import echelon as ec
from bench.results import markdown_table
from echelon.arrays import NumberArray
from echelon.clusters import VirtualCluster
from echelon.clusters.faults import Faults
from examples import digits

ROUNDS = 5000  # of each run
PLACES, LIAR, CHANCE = 8, 3, 0.01
PARTS = 16
WRONG = 1e-8  # relative to the terms of a result: from here on it counts as wrong
WAYS = {
    "nothing": (None, 1.2),
    "rows to spare": ("spare", 1.2),
    "nothing, uncoded": (None, 1.0),
    "a vote": ("vote", 1.0),
}
LIVE_WORKERS, LIVE_TURNS = 3, 10


def report() -> str:
    logging.getLogger("echelon.stream").setLevel(logging.ERROR)
    try:
        flips = [_flips(kind, way) for kind in ("sums", "products") for way in WAYS if "uncoded" not in way]
        costs = _costs()
    finally:
        logging.getLogger("echelon.stream").setLevel(logging.NOTSET)
    table = markdown_table(
        ["job", "checked by", "rounds", "bits flipped", "wrong results delivered", "largest error", "named: the liar",
         "named: others", "times replaced"], flips,
    )  # fmt: skip
    return (
        f"One of {PLACES} workers in virtual time flips one bit in {100 * CHANCE:.0f} % of its rows (so does each of "
        f"its successors). A result is wrong if it is off by more than {WRONG:g} of its terms. Bits that change less "
        f"than rounding may are not seen, and do no harm.\n\n{table}\n\n{costs}"
    )


@dataclass(frozen=True)
class CountedFaults(Faults):
    """Faults that count the bits they flip."""

    flipped: list[int] = field(default_factory=list)

    def sent(self, place: int, segments: list[NumberArray]) -> list[NumberArray]:
        sent = super().sent(place, segments)
        if sent is not segments:
            self.flipped.append(place)
        return sent


class Named(ec.Observer):
    """Who was named, and who replaced, by place."""

    def __init__(self) -> None:
        self.places: list[int | None] = []
        self.lost: list[int] = []

    def wrong_result(self, time_s: float, worker: int, place: int | None, round: int, slot: int, row: int) -> None:
        self.places.append(place)

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        self.lost.append(place)


def _profile() -> ec.Profile:
    workload = ec.Workload(critical=PARTS, redundancy=1.2, iterations=10, arrivals=ec.Arrivals.poisson(0.01))
    return ec.Profile(workload, [ec.Worker(f"w{i}", mean=0.1, std=0.1) for i in range(PLACES)])


def _flips(kind: str, way: str) -> list[str]:
    """Return what a run with a liar did."""
    verify, redundancy = WAYS[way]
    errors: list[float] = []
    job = (_sums if kind == "sums" else _products)(errors)
    faults, named = CountedFaults(np.random.default_rng(5), wrong={LIAR: CHANCE}), Named()
    where = VirtualCluster(emulate=_profile(), faults=faults)
    with ec.Stream(
        where, redundancy=redundancy, split="uniform", verify=verify, observers=[named], progress=False
    ) as stream:
        stream.submit(job).result()
    liar = sum(place == LIAR for place in named.places)
    return [
        kind, way, f"{len(errors)}", f"{len(faults.flipped)}", f"{sum(not error <= WRONG for error in errors)}",
        f"{max(errors, key=lambda error: error if error == error else np.inf):.0e}", f"{liar}",
        f"{len(named.places) - liar}", f"{len(named.lost)}",
    ]  # fmt: skip


def _sums(errors: list[float]) -> ec.SumJob:
    chunks = list(np.random.default_rng(3).standard_normal((PARTS, 6, 20)))
    total, terms = sum(chunk.sum(axis=0) for chunk in chunks), sum(np.abs(chunk).sum() for chunk in chunks)

    def update(k: int, found: np.ndarray) -> int:
        errors.append(float(np.abs(found / (k + 1) - total).max() / terms))
        return k + 1

    return ec.SumJob(
        partial=lambda k, chunk: chunk.sum(axis=0) * (k + 1), update=update, state=0, chunks=chunks, iterations=ROUNDS
    )


def _products(errors: list[float]) -> ec.LinearJob:
    matrix = np.random.default_rng(3).standard_normal((120, 30))
    norm = np.abs(matrix).sum(axis=1).max()

    def vector(k: int) -> np.ndarray:
        return np.random.default_rng(k).standard_normal(30)

    def update(k: int, found: np.ndarray) -> int:
        errors.append(float(np.abs(found - matrix @ vector(k)).max() / (norm * np.abs(vector(k)).max())))
        return k + 1

    return ec.LinearJob(matrix=matrix, vector=vector, update=update, state=0, parts=PARTS, iterations=ROUNDS)


def _costs() -> str:
    """Return what checking costs the job of examples/digits.py, without any liar."""
    live = _live()
    rows = []
    for way in WAYS:
        verify, redundancy = WAYS[way]
        with ec.Stream("virtual", emulate=_profile(), redundancy=redundancy, verify=verify) as stream:
            done = [stream.submit(job).delivery() for job in digits.jobs()]
        steps = sum(one.iterations for one in done)
        messages, virtual = sum(one.messages for one in done) / steps, stream.now() / steps
        rows.append([way, f"{redundancy:g}", f"{messages:.1f}", f"{virtual:.2f}", f"{1e3 * live[way]:.2f}"])
    columns = ["checked by", "redundancy", "rows received", "virtual time (s)", f"{LIVE_WORKERS} processes (ms)"]
    return (
        f"What a check costs the digits job (a matrix in {digits.PARTS} blocks), per iteration: on {PLACES} alike "
        "workers in virtual time, whose parts take 0.1 s with as large a deviation, and on processes of one machine "
        f"with two cores, the median of {LIVE_TURNS} sweeps in turns.\n\n" + markdown_table(columns, rows)
    )


def _live() -> dict[str, float]:
    """Return the time of an iteration on processes, by way."""
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    streams: dict[str, Any] = {
        way: ec.Stream(workers=LIVE_WORKERS, redundancy=redundancy, verify=verify, progress=False)
        for way, (verify, redundancy) in WAYS.items()
    }
    try:
        for _ in range(LIVE_TURNS):
            for way, stream in streams.items():
                start = time.perf_counter()
                steps = [stream.submit(job).delivery().iterations for job in digits.jobs()]
                times[way].append((time.perf_counter() - start) / sum(steps))
    finally:
        for stream in streams.values():
            stream.close()
    return {way: float(np.median(taken)) for way, taken in times.items()}


if __name__ == "__main__":
    print(report())
