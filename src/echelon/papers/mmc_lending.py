"""Beyond the mmc paper: workers of finished clusters, lent to clusters that lag; in virtual time."""

from pathlib import Path

import numpy as np

from echelon.arrays import FloatArray
from echelon.clusters import VirtualCluster
from echelon.clusters.pace import Pace
from echelon.jobs import HollowJob
from echelon.papers.claims import BEYOND, Claim, write_csv
from echelon.papers.mmc_beyond import LOAD, MODEL, WORKERS
from echelon.schemes import CodedPlan, fractional_repetition, multi_message
from echelon.seeds import place_generator
from echelon.stream import Observer, RoundSeen, Stream

ROUNDS = 1000


def lending(folder: Path, seed: int) -> list[Claim]:
    """Compare rounds with and without lending on the same paces, for clusters that differ by chance under model (5)."""
    plans = {
        "GC-MMC-1": multi_message(workers=WORKERS, load=LOAD, clusters=4, order=6),
        "GC-MMC-2": multi_message(workers=WORKERS, load=LOAD, clusters=4, orders=[6, 8, 10]),
        "FR": fractional_repetition(workers=WORKERS, load=LOAD),
    }
    rows: list[list[object]] = []
    told = []
    later = 0
    for name, plan in plans.items():
        alone, helped = (rounds(plan, seed, lend=lend) for lend in (False, True))
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


def rounds(plan: CodedPlan, seed: int, *, lend: bool) -> FloatArray:
    """Return how long rounds take, by the master that runs live; the paces come from the seed."""
    seen = Durations()
    paces = [Pace(MODEL, 0.0, place_generator(seed, place)) for place in range(WORKERS)]
    with Stream(VirtualCluster(paces=paces), adapt=False, progress=False, observers=[seen]) as stream:
        stream.submit(HollowJob(plan, iterations=ROUNDS, lend=lend)).result()
    return np.array(seen.times)


class Durations(Observer):
    """Notes how long every round took."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def round_over(self, seen: RoundSeen) -> None:
        """Take in a round."""
        self.times.append(seen.end - seen.start)
