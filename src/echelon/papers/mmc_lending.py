"""Beyond the mmc paper: workers of clusters that are done, lent to clusters that lag; in virtual time."""

from pathlib import Path

import numpy as np

from echelon.arrays import FloatArray
from echelon.papers.claims import BEYOND, Claim, write_csv
from echelon.papers.mmc_beyond import LOAD, MODEL, WORKERS
from echelon.schemes import CodedPlan, fractional_repetition, multi_message
from echelon.simulation import VirtualCluster

ROUNDS = 1000


def lending(folder: Path, seed: int) -> list[Claim]:
    """Compare rounds with and without lending on the same paces, for clusters that differ by chance under model (5)."""
    plans = {
        "GC-MMC-1": multi_message(workers=WORKERS, load=LOAD, clusters=4, order=6),
        "GC-MMC-2": multi_message(workers=WORKERS, load=LOAD, clusters=4, orders=[6, 8, 10]),
        "FR": fractional_repetition(workers=WORKERS, load=LOAD),
    }
    paces = MODEL.sample((ROUNDS + 1, WORKERS, 1), np.random.default_rng(seed))[..., 0]
    rows: list[list[object]] = []
    told = []
    later = 0
    for name, plan in plans.items():
        alone, helped = (rounds(plan, paces, lend=lend) for lend in (False, True))
        later += int((helped > alone + 1e-9).sum())
        gain, error = 1 - helped.mean() / alone.mean(), (alone - helped).std() / ROUNDS**0.5 / alone.mean()
        rows.append([name, alone.mean(), helped.mean(), gain, error])
        told.append(f"{name} {alone.mean():.3f} to {helped.mean():.3f} (-{100 * gain:.0f} %)")
    write_csv(folder / "lending.csv", ["scheme", "alone", "lent", "gain", "gain_error"], rows)
    return [
        Claim(
            "Section 3.3",
            "a message of one cluster is of no use to another; here idle workers help clusters that lag",
            "none",
            "; ".join(told),
            BEYOND,
            f"{ROUNDS} rounds each in virtual time, with the same paces; later than without in {later} of "
            f"{len(plans) * ROUNDS}",
        )
    ]


def rounds(plan: CodedPlan, paces: FloatArray, *, lend: bool) -> FloatArray:
    """Return how long rounds take, by the master that runs live; paces have shape (rounds + 1, workers)."""
    cluster = VirtualCluster(
        lambda job, workers: plan,
        lambda place, number: float(paces[number, place]),
        [0.0] * paces.shape[1],
        codes=plan.codes,
        lend=lend,
        watch=False,
    )
    seen = cluster.run([0.0], [len(paces) - 1]).rounds
    return np.array([end - start for _, _, start, end in seen])
