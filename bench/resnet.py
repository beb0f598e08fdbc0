"""ResNet-18 with BatchNorm on pictures that are shifted and mirrored, one worker slow and two killed."""

import resource
from copy import deepcopy

import numpy as np

import echelon as ec
from bench.emulated import cluster, unequal
from bench.results import markdown_table

MEANS = (4.0, 1.0, 1.0, 1.0, 1.0, 1.0)
PART_S, REDUNDANCY = 0.05, 1.5
WIDTH, PIXELS, SAMPLES, BATCH, STEPS, KILLS = 16, 32, 50_000, 48, 10, (3, 6)
RATE, SEED = 0.02, 2


def report() -> str:
    import torch  # not at the top: it loads slowly

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _trained()
    finally:
        torch.set_num_threads(threads)


def _trained() -> str:
    import torch
    from torch import nn

    from echelon.torch import CodedGradient
    from tests.torch.networks import Pictures, one_after_another, read_by_chunk, resnet18

    loss, data, model = nn.CrossEntropyLoss(), Pictures(SAMPLES, PIXELS), resnet18(WIDTH)
    other, losses, peaks = deepcopy(model), {"coded": [], "plain": []}, [0.0]
    optimizers = [torch.optim.SGD(one.parameters(), lr=RATE, momentum=0.9) for one in (model, other)]
    profile = cluster(len(MEANS), unequal(MEANS, 0.0, link=0.0)).scaled(PART_S)
    before = _peak_mb()
    with (
        ec.Stream("processes", emulate=profile, redundancy=REDUNDANCY) as stream,
        CodedGradient(model, loss, data, stream=stream, batch_size=BATCH, seed=SEED) as coded,
    ):
        for step in range(STEPS):
            if step in KILLS:
                stream._cluster.kill(max(stream._cluster.pids()))
            optimizers[0].zero_grad()
            losses["coded"].append(float(coded.backward()))
            optimizers[0].step()
            peaks += [_peak_of(pid) for pid in stream._cluster.pids().values()]
        master = _peak_mb()
        for step in range(STEPS):
            optimizers[1].zero_grad()
            losses["plain"].append(one_after_another(other, loss, read_by_chunk(data, coded, step, SEED)))
            optimizers[1].step()
    apart = np.abs(np.array(losses["coded"]) / np.array(losses["plain"]) - 1).max()
    stacked = SAMPLES * data[0][0].nbytes / 1e6
    weights = sum(weight.numel() for weight in model.parameters())
    return (
        f"ResNet-18 with {WIDTH} channels at first, {weights} weights in float64, made pictures of {PIXELS} x {PIXELS} "
        f"pixels, shifted and mirrored by chance, {SAMPLES} of them, {stacked:.0f} MB if they were stacked; batches of "
        f"{BATCH}, six worker processes, one at a quarter of the speed, redundancy {REDUNDANCY}, a worker killed "
        f"before steps {KILLS[0] + 1} and {KILLS[1] + 1}. Losses beside those of a plain loop over the same chunks, "
        "one after another. Wanted: 1e-5 at most.\n\n"
        + markdown_table(
            ["steps", "first loss", "last loss", "differ by at most", "master (peak MB, before)", "a worker (peak MB)"],
            [
                [
                    str(STEPS),
                    f"{losses['coded'][0]:.4f}",
                    f"{losses['coded'][-1]:.4f}",
                    f"{apart:.1e}",
                    f"{master:.0f}, {before:.0f}",
                    f"{max(peaks):.0f}",
                ]
            ],
        )
    )


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _peak_of(pid: int) -> float:
    """Return the most memory that a process has had, in MB; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as lines:
            return next((float(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM")), 0.0)
    except OSError:
        return 0.0
