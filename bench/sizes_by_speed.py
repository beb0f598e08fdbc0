"""Chunks as large as workers are quick: what a step takes beside the ideal, all samples over the sum of speeds."""

import time

import numpy as np

import echelon as ec
from bench.emulated import cluster, unequal
from bench.results import markdown_table

MEANS = (4.0, 1.0, 1.0, 1.0, 1.0, 1.0)  # one worker at a quarter of the speed of the others
PART_S = {"virtual": 1.0, "threads": 0.2, "processes": 0.2}  # what an equal chunk takes a quick worker
SAMPLES, BATCH, STEPS, WARM = 4200, 2100, 24, 6


def report() -> str:
    import torch  # not at the top: it loads slowly

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = [
            [kind, *(f"{_over_ideal(kind, part_s, sizes):.3f}" for sizes in ("equal", "speed"))]
            for kind, part_s in PART_S.items()
        ]
    finally:
        torch.set_num_threads(threads)
    return (
        f"Six workers, one of them at a quarter of the speed, the same time for each sample; batches of {BATCH}. The "
        f"median step from step {WARM + 1} to {STEPS}, over the ideal. Wanted with sizes by speed: 1.05 at most.\n\n"
        + markdown_table(["cluster", "equal chunks, no redundancy", "sizes by speed"], rows)
    )


def _over_ideal(kind: str, part_s: float, sizes: str) -> float:
    """Return the median of a step's time over the ideal, once the speeds were seen."""
    import torch
    from torch import nn

    from echelon.torch import CodedGradient

    generator = torch.Generator().manual_seed(1)
    inputs, model = torch.randn(SAMPLES, 16, generator=generator), nn.Linear(16, 1)
    profile = cluster(len(MEANS), unequal(MEANS, 0.0, link=0.0)).scaled(part_s)
    ideal, took = part_s * len(MEANS) / sum(1 / mean for mean in MEANS), []
    with (
        ec.Stream(kind, emulate=profile, redundancy=1.0) as stream,
        CodedGradient(
            model, nn.MSELoss(), (inputs, inputs[:, :1]), stream=stream, batch_size=BATCH, sizes=sizes
        ) as coded,
    ):
        for _ in range(STEPS):
            start = stream.now() if stream.virtual else time.perf_counter()
            model.zero_grad()
            coded.backward()
            took.append((stream.now() if stream.virtual else time.perf_counter()) - start)
    return float(np.median(took[WARM:]) / ideal)
