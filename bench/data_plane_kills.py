"""Training while workers are killed: those whose row was chosen and not read yet, those that add up, and any others.

`python -m bench.data_plane_kills processes --kills 200` (or `ray`; `--device cuda` on a GPU) trains through a stream,
beside a plain loop on the same mini-batches; it fails if a loss differs, or if something is left behind. A training
with 40 kills goes before, so that what is kept once is not counted.
"""

import argparse
import gc
import os
import signal
import sys
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

import echelon as ec
from bench.results import markdown_table
from echelon.clusters import CLUSTERS, Sum
from echelon.stream.observer import Observer

WIDTH, SAMPLES, BATCH = 300, 512, 64
TOLERANCE = 1e-5
REDUNDANCY, WARMED = 1.5, 40  # kills before anything is counted


class Killer(Observer):
    """Kills workers, each time in another situation, and only while more than half of them are there."""

    def __init__(self, cluster: Any, seed: int) -> None:
        self.cluster, self.rng = cluster, np.random.default_rng(seed)
        self.kills = {"row chosen": 0, "adding up": 0, "any time": 0}
        self.up: set[int] = set()

    def worker_up(self, time_s: float, worker: int, place: int) -> None:
        self.up.add(worker)

    def worker_down(self, time_s: float, worker: int, place: int, reason: str) -> None:
        self.up.discard(worker)

    def kill(self, worker: int, how: str) -> None:
        pid = self.cluster.pids().get(worker)
        if pid and len(self.up) > self.cluster.workers // 2:
            self.up.discard(worker)
            self.kills[how] += 1
            os.kill(pid, signal.SIGKILL)

    def one_of(self, workers: set[int], how: str, chance: float) -> None:
        """Kill one of some workers, now and then."""
        if workers and self.rng.random() < chance:
            self.kill(int(self.rng.choice(sorted(workers))), how)

    def opened(self, seen: Any) -> None:
        self.one_of(self.up, "any time", 0.25)


def disturb(cluster: Any, killer: Killer) -> None:
    """Have the killer look in when rows were chosen and are about to be read, and while they are added up elsewhere."""
    add, combine = cluster.add, cluster.combine

    def added(round: int, sums: list[Sum]) -> None:
        killer.one_of(_holders(sums) & killer.up, "row chosen", 0.5)
        add(round, sums)
        killer.one_of(killer.up, "adding up", 0.5)

    def combined(weights: Any, messages: Any) -> Any:
        killer.one_of(_holders([Sum(weights, messages)]) & killer.up, "row chosen", 0.5)
        return combine(weights, messages)

    cluster.add, cluster.combine = added, combined


def _holders(sums: list[Sum]) -> set[int]:
    """Return the workers whose rows enter some sums."""
    return {
        message.worker
        for one in sums
        for weight, message in zip(one.weights.tolist(), one.messages, strict=True)
        if weight
    }


def run(kind: str, kills: int, workers: int = 4, device: str = "cpu", seed: int = 1) -> str:
    """Train twice: what libraries, engines and drivers keep once workers have computed, and died, is theirs."""
    import torch

    torch.set_num_threads(1)
    _, _, off_first = train(kind, WARMED, workers, device, seed)
    before, began = left(device), time.monotonic()
    steps, killed, off = train(kind, kills, workers, device, seed)
    after = left(device)
    row = [
        kind, str(workers), device, str(steps), *map(str, killed.values()), f"{off:.0e}",
        ", ".join(f"{name} {after[name] - before[name]:+d}" for name in before), f"{time.monotonic() - began:.0f} s",
    ]  # fmt: skip
    assert max(off, off_first) < TOLERANCE, (off_first, row)
    assert all(after[name] <= before[name] for name in before), row
    columns = ["cluster", "workers", "device", "steps", *(f"killed: {how}" for how in killed), "losses differ by"]
    return markdown_table([*columns, "left", ""], [row])


def train(kind: str, kills: int, workers: int, device: str, seed: int) -> tuple[int, dict[str, int], float]:
    """Train until so many workers were killed; return the steps, the kills, and how far off the losses were."""
    import torch
    from torch import nn

    from echelon.torch import CodedGradient

    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh(), nn.Linear(2 * WIDTH, WIDTH)).double().to(device)
    plain, loss = deepcopy(model), nn.MSELoss()
    inputs, targets = torch.randn(SAMPLES, WIDTH).double(), torch.randn(SAMPLES, WIDTH).double()
    here = inputs.to(device), targets.to(device)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9) for one in (model, plain)]
    cluster: Any = CLUSTERS[kind](workers)
    killer, off, steps = Killer(cluster, seed), 0.0, 0
    disturb(cluster, killer)
    with (
        ec.Stream(cluster, redundancy=REDUNDANCY, observers=[killer]) as stream,
        CodedGradient(model, loss, (inputs, targets), stream=stream, batch_size=BATCH, device=device) as coded,
    ):
        while sum(killer.kills.values()) < kills:
            numbers = torch.from_numpy(coded.batch(steps)).to(device)
            for optimizer in optimizers:
                optimizer.zero_grad()
            found = float(coded.backward())
            wanted = loss(plain(here[0][numbers]), here[1][numbers])
            wanted.backward()
            for optimizer in optimizers:
                optimizer.step()
            off, steps = max(off, abs(found / float(wanted.detach()) - 1)), steps + 1
            if steps % 100 == 0:
                print(f"{steps} steps, {killer.kills}, off by {off:.0e}", file=sys.stderr, flush=True)
    return steps, killer.kills, off


def left(device: str) -> dict[str, int]:
    """Return what a process has of what must not grow: descriptors, shared memory, memory of a GPU in MB."""
    gc.collect()
    shared = [path for path in Path("/dev/shm").iterdir() if "torch" in path.name or "echelon" in path.name]
    memfds = sum("memfd" in (path.readlink().name if path.is_symlink() else "") for path in _descriptors())
    found = {"descriptors": len(_descriptors()) - _sockets(), "memories": memfds, "in /dev/shm": len(shared)}
    if device != "cpu":
        import torch

        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        found["MB of the GPU"] = -(torch.cuda.mem_get_info()[0] >> 20)
        found["MB that torch holds"] = torch.cuda.memory_reserved() >> 20
    return found


def _descriptors() -> list[Path]:
    return [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]


def _sockets() -> int:
    """Return how many descriptors engines keep open by themselves: Ray's own client has sockets and pipes."""
    kinds = ("socket:", "pipe:", "anon_inode:")
    return sum(str(path.readlink()).startswith(kinds) for path in _descriptors()) if "ray" in sys.modules else 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.data_plane_kills", description=__doc__)
    parser.add_argument("cluster", choices=["processes", "ray"])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(run(given.cluster, given.kills, given.workers, given.device, given.seed))


if __name__ == "__main__":
    main()
