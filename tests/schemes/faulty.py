"""Workers in virtual time to whom things happen, the same in every run: crashes, hangs, messages late and lost."""

import numpy as np

import echelon as ec
from echelon.clusters import VirtualCluster
from echelon.clusters.faults import Crash, Faults, Hang, Partition

PATIENCE_S = 6.0
SEED = 11


def incidents(workers, seed):
    """Return what befalls some of the workers early in a run, at times that a seed says: half of them, at least one."""
    rng = np.random.default_rng(seed)
    hit = rng.permutation(workers)[: max(1, workers // 2)].tolist()
    return [(float(time), place) for time, place in zip(rng.uniform(0.5, 6.0, len(hit)), hit, strict=True)]


FAULTS = {
    "nothing": lambda workers: None,
    "crashes": lambda workers: Faults(
        np.random.default_rng(SEED),
        start=0.5,
        incidents=tuple(Crash(time, place, notice=0.5, restart=3.0) for time, place in incidents(workers, 1)),
    ),
    "hangs": lambda workers: Faults(
        np.random.default_rng(SEED),
        incidents=tuple(Hang(time, place, length=20.0) for time, place in incidents(workers, 2)),
    ),
    "late and repeated messages": lambda workers: Faults(np.random.default_rng(SEED), repeat=0.2, delay=0.3, late=2.0),
    "lost messages": lambda workers: Faults(np.random.default_rng(SEED), lose=0.15),
    "silence": lambda workers: Faults(
        np.random.default_rng(SEED),
        incidents=tuple(Partition(time, place, length=10.0, reported=False) for time, place in incidents(workers, 3)),
    ),
    "all of it": lambda workers: Faults(
        np.random.default_rng(SEED), lose=0.05, repeat=0.1, delay=0.2, late=1.0, start=0.5,
        incidents=(
            *(Crash(time, place, notice=0.5, restart=3.0) for time, place in incidents(workers, 4)),
            *(Hang(time, place, length=10.0) for time, place in incidents(workers, 5)),
        ),
    ),
}  # fmt: skip


def cluster(workers, faults):
    """Return workers in virtual time of which every third is slow, with faults."""
    job = ec.Workload(critical=1, redundancy=1.0, iterations=1, arrivals=ec.Arrivals.poisson(0.01))
    means = [0.3 * (1 + 2 * (place % 3 == 2)) for place in range(workers)]
    profile = ec.Profile(
        job, [ec.Worker(f"w{p}", mean=mean, std=mean, link=0.05) for p, mean in enumerate(means)]
    )  # fmt: skip
    return VirtualCluster(emulate=profile, seed=SEED, faults=FAULTS[faults](workers))
