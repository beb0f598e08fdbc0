"""What watched ranks do for `bench.watched`, and workers that are as slow as they."""

import pickle
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

import echelon as ec
from bench.timing import best_of
from echelon.arrays import FloatArray
from echelon.clusters import seat
from echelon.search import Advice
from echelon.torch import CodedGradient, watch
from echelon.torch.watch_report import Report

RANKS, SLOW, TRUTH = 4, 2, 1.3
SHARE, SAMPLES = 64, 1024  # samples of a rank's step, and of all data
SAMPLE_S = 5e-3  # that a sample waits in a forward pass
STEPS = 30
BATCHES, TURNS = (512, 2048), 600  # where nothing waits
LONGEST_S = 300.0


class Slowed(nn.Module):
    """Waits as long as a worker would compute on these samples; it leaves the processors to the others."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        here = dist.get_rank() if dist.is_initialized() else seat.mine()
        time.sleep(len(inputs) * SAMPLE_S * (TRUTH if here == SLOW else 1.0))
        return inputs


def _model(*first: nn.Module, width: int = 64) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        *first, nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )


def _data(samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    chance = torch.Generator().manual_seed(1)
    return torch.randn(samples, 64, generator=chance), torch.randint(10, (samples,), generator=chance)


def live(outcome: Any) -> float:
    """Return the median time of a step of `CodedGradient` under this strategy, the model's own optimiser included."""
    model, loss, times = _model(Slowed()), nn.CrossEntropyLoss(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with (
        ec.Stream("processes", workers=RANKS, redundancy=1.0) as stream,
        CodedGradient(
            model, loss, _data(SAMPLES), stream=stream, batch_size=RANKS * SHARE, plan=outcome.plan()
        ) as coded,
    ):
        for _ in range(STEPS + 2):
            began = time.perf_counter()
            optimizer.zero_grad()
            coded.backward()
            optimizer.step()
            times.append(time.perf_counter() - began)
    return float(np.median(times[2:]))


def scored() -> tuple[Report, Advice | None]:
    model = DistributedDataParallel(_model(Slowed()))
    watcher = watch(model)
    step = _stepping(model, SHARE)
    for _ in range(STEPS):
        step()
    watcher.gather()
    return watcher.report(advice=False), watcher.advise() if dist.get_rank() == 0 else None


def overhead() -> tuple[dict[int, dict[str, FloatArray]], float]:
    """Time steps with and without a watcher, in turns, for each size of a batch; and the calls of a watcher alone.

    Of each step the seconds by the clock and those that its process computed, shape (turns, 2).
    """
    models = {
        name: DistributedDataParallel(_model(width=512)) for name in ("plain", "again", "torch's hook", "watched")
    }
    models["torch's hook"].register_comm_hook(None, allreduce_hook)
    watch(models["watched"])
    return {batch: _in_turns(models, batch) for batch in BATCHES}, _calls()


def _in_turns(models: dict[str, Any], batch: int) -> dict[str, FloatArray]:
    steps = {name: _stepping(model, batch) for name, model in models.items()}
    seconds: dict[str, list[list[float]]] = {name: [] for name in steps}
    rng = np.random.default_rng(1)  # on all ranks the same
    for turn in range(TURNS + 10):
        for name in rng.permutation(list(steps)).tolist():
            began, computed = time.perf_counter(), time.process_time()
            steps[name]()
            if turn >= 10:
                seconds[name].append([time.perf_counter() - began, time.process_time() - computed])
    return {name: np.array(times) for name, times in seconds.items()}


def _calls() -> float:
    """Return the microseconds that a step's marks take: one forward pass and two buckets whose reduce takes no time."""

    class Bucket:
        def __init__(self, last: bool) -> None:
            self._last = last

        def is_last(self) -> bool:
            return self._last

    def done(state: Any, bucket: Any) -> torch.futures.Future[Any]:
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(None)
        return future

    model = DistributedDataParallel(nn.Linear(2, 2))
    watcher = watch(model, hook=done)
    buckets = Bucket(False), Bucket(True)

    def steps(calls: list[Callable[[Any], Any]]) -> None:
        for _ in range(1000):
            for call in calls:
                call(None)

    through = [lambda _: watcher._begun(model, ()), *(lambda _, one=one: watcher.ready(one) for one in buckets)]
    alone = [
        lambda _: None,
        *(lambda _, one=one: done(None, one).then(lambda future: future.value()) for one in buckets),
    ]
    seconds = best_of({"through": partial(steps, through), "alone": partial(steps, alone)}, 5)
    return 1e3 * (seconds["through"] - seconds["alone"])


def _stepping(model: nn.Module, batch: int) -> Callable[[], None]:
    """Return a function that takes a step of a training."""
    inputs, targets = _data(batch)
    optimizer, loss = torch.optim.SGD(model.parameters(), lr=0.01), nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        loss(model(inputs), targets).backward()
        optimizer.step()

    return step


def _rank(number: int, ranks: int, folder: Path, action: Callable[[], Any]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder / 'store'}", rank=number, world_size=ranks,
        timeout=timedelta(seconds=LONGEST_S),
    )  # fmt: skip
    found = action()
    dist.barrier()
    (folder / str(number)).write_bytes(pickle.dumps(found))
    dist.destroy_process_group()


def on_ranks(ranks: int, action: Callable[[], Any]) -> list[Any]:
    """Return what each of several processes found."""
    context = get_context("spawn")
    with TemporaryDirectory() as name:
        folder = Path(name)
        processes = [context.Process(target=_rank, args=(number, ranks, folder, action)) for number in range(ranks)]
        try:
            for process in processes:
                process.start()
            for process in processes:
                process.join(LONGEST_S)
            return [pickle.loads((folder / str(number)).read_bytes()) for number in range(ranks)]
        finally:
            for process in processes:
                if process.is_alive():
                    process.kill()
                process.join()
