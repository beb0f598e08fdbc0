"""The data plane: training steps beside torch's own, and sums beside a copy; every ratio from one run, in turns.

Needs torch, NumPy and SciPy alone. `python -m bench.data_plane --help` lists parts for a machine with many cores or a
GPU; `python -m bench` runs what two cores can.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import echelon as ec
from bench.results import markdown_table

BATCH, STEPS, BLOCKS = 64, 4, 5  # samples per worker, steps of a block, blocks of each contender
LAYERS = 6
WIDTHS = {2048: "25 M", 4096: "100 M"}
ROWS, ROW_BYTES = 20, 400 * 10**6
TOKENS = 256
TRANSFORMERS = ((384, 6, 4096), (768, 10, 8192))  # width, layers, words


def processors() -> int:
    return len(os.sched_getaffinity(0))


def report() -> str:
    """Return what is measured on any machine: two workers, and sums that fit its memory."""
    from bench import data_plane_ray

    return "\n\n".join((training([2], 2048), adding(ROW_BYTES // 4, "float32"), data_plane_ray.report()))


# training on processors: DDP over Gloo


def mlp(width: int) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(1)
    layers: list[Any] = []
    for _ in range(LAYERS):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def samples(width: int, count: int) -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(2)
    return torch.randn(count, width, generator=generator), torch.randn(count, width, generator=generator)


def sgd(model: Any) -> Any:
    import torch

    return torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)


def _ddp_rank(rank: int, workers: int, width: int, threads: int, meeting: str, link: Any) -> None:
    """Train one replica by DDP, a block of steps whenever the other side says so."""
    import torch
    from torch import distributed, nn
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(threads)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=workers)
    model = DistributedDataParallel(mlp(width), gradient_as_bucket_view=True)
    optimizer, loss = sgd(model), nn.MSELoss()
    inputs, targets = (some[rank * BATCH : (rank + 1) * BATCH] for some in samples(width, workers * BATCH))
    link.send("ready")
    while (steps := link.recv()) is not None:
        for _ in range(steps):
            optimizer.zero_grad()
            value = loss(model(inputs), targets)
            value.backward()
            optimizer.step()
        link.send(float(value.detach()))
    distributed.destroy_process_group()


def ddp(workers: int, width: int, threads: int, stack: ExitStack) -> Callable[[int], float]:
    """Return a function that runs some steps on all ranks, and returns the mean of their last losses."""
    spawn, folder = get_context("spawn"), stack.enter_context(tempfile.TemporaryDirectory())
    links = []
    for rank in range(workers):
        ours, theirs = spawn.Pipe()
        where = str(Path(folder) / "meeting")
        process = spawn.Process(target=_ddp_rank, args=(rank, workers, width, threads, where, theirs), daemon=True)
        process.start()
        stack.callback(process.join)
        links.append(ours)
    stack.callback(lambda: [link.send(None) for link in links])
    assert all(link.recv() == "ready" for link in links)

    def run(steps: int) -> float:
        for link in links:
            link.send(steps)
        return float(np.mean([link.recv() for link in links]))

    return run


def coded(workers: int, width: int, threads: int, stack: ExitStack) -> Callable[[int], float]:
    """Return a function that runs some steps through a stream, and returns the last loss."""
    from torch import nn

    from echelon.clusters import ProcessCluster
    from echelon.torch import CodedGradient

    model = mlp(width)
    optimizer = sgd(model)
    stream = stack.enter_context(ec.Stream(ProcessCluster(workers, threads=threads)))
    data = samples(width, workers * BATCH)
    gradient = stack.enter_context(CodedGradient(model, nn.MSELoss(), data, stream=stream))

    return _steps(gradient, optimizer)


def training(counts: Sequence[int], width: int, blocks: int = BLOCKS) -> str:
    """Time steps of DDP over Gloo and of `CodedGradient`, in turns."""
    rows = []
    for workers in counts:
        threads = max(1, processors() // workers)
        with ExitStack() as stack:
            runs = {"DDP": ddp(workers, width, threads, stack), "echelon": coded(workers, width, threads, stack)}
            took, losses = in_turns(runs, STEPS, blocks)
        rows.append([
            str(workers), str(threads), *(f"{1e3 * took[name]:.0f}" for name in runs),
            f"{took['echelon'] / took['DDP']:.2f}", f"{abs(losses['echelon'] / losses['DDP'] - 1):.0e}",
        ])  # fmt: skip
        print(rows[-1], file=sys.stderr, flush=True)
    columns = ["workers", "threads each", "DDP (ms a step)", "echelon (ms a step)", "ratio", "losses differ by"]
    return (
        f"Training without stragglers: {LAYERS} dense layers of {width}, {WIDTHS[width]} weights, float32, {BATCH} "
        f"samples per worker, SGD with momentum. DDP over Gloo against `CodedGradient` on worker processes, "
        f"{processors()} processors, blocks of {STEPS} steps in turns, the median of {blocks}.\n\n"
        + markdown_table(columns, rows)
    )


def in_turns(
    runs: dict[str, Callable[[int], float]], steps: int, blocks: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return seconds per step of each contender, the median of its blocks, and its last value."""
    took: dict[str, list[float]] = {name: [] for name in runs}
    values = {}
    for run in runs.values():
        run(2)  # caches, pages, plans
    for _ in range(blocks):
        for name, run in runs.items():
            began = time.perf_counter()
            values[name] = run(steps)
            took[name].append((time.perf_counter() - began) / steps)
    return {name: float(np.median(some)) for name, some in took.items()}, values


# sums


def adding(count: int, dtype: str, rows: int = ROWS) -> str:
    """Add rows as a round does, beside a copy by as many threads as there are processors."""
    from echelon import trees
    from echelon.clusters import Message
    from echelon.clusters.adding import Adding

    rng = np.random.default_rng(1)
    first = rng.standard_normal(count, np.float32).astype(dtype)
    arrays = [first, *(first * (1 + i / 7) for i in range(1, rows))]
    form = trees.flatten(first)[0]
    messages = [
        Message(0, 1, 0, i, 0.0, form, [array], None, (float(np.abs(array[:1000]).max()),))
        for i, array in enumerate(arrays)
    ]
    adder = Adding()
    kinds = {"plain": np.ones(rows), "weighted": rng.standard_normal(rows)}
    target, threads = np.empty_like(first), processors()
    cuts = [count * i // threads for i in range(threads + 1)]

    def copy(i: int) -> None:
        target[cuts[i] : cuts[i + 1]] = arrays[-1][cuts[i] : cuts[i + 1]]

    table = []
    with ThreadPoolExecutor(threads) as pool:
        for kind, weights in kinds.items():
            copies, sums = [], []
            for _ in range(4):
                began = time.perf_counter()
                list(pool.map(copy, range(threads)))
                copies.append(2 * first.nbytes / (time.perf_counter() - began))
                began = time.perf_counter()
                total = adder.combine(weights, messages)
                sums.append((rows + 1) * first.nbytes / (time.perf_counter() - began))
            some = slice(0, count, max(1, count // 1000))
            wanted = sum(weight * array[some].astype(float) for weight, array in zip(weights, arrays, strict=True))
            off = np.abs(total.segments[0][some] - wanted).max() / np.abs(wanted).max()
            quick, bare = np.median(sums[1:]), np.median(copies[1:])
            table.append(
                [kind, str(threads), f"{bare / 1e9:.0f}", f"{quick / 1e9:.0f}", f"{quick / bare:.2f}", f"{off:.0e}"]
            )
    columns = ["sum", "threads", "copy (GB/s)", "sum (GB/s)", "ratio", "off by"]
    return (
        f"A sum of {rows} rows of {first.nbytes / 1e6:.0f} MB, {dtype}, as the master adds them, beside a copy of one "
        "row; bytes read and written per second, medians of three.\n\n" + markdown_table(columns, table)
    )


# a GPU


def transformer(width: int, layers: int, words: int) -> Any:
    import torch
    from torch import nn

    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(TOKENS, width)
            one = nn.TransformerEncoderLayer(
                width, width // 64, 4 * width, dropout=0.0, batch_first=True, norm_first=True, activation="gelu"
            )
            self.layers = nn.TransformerEncoder(one, layers, enable_nested_tensor=False)
            self.out = nn.Linear(width, words, bias=False)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(TOKENS), persistent=False)

        def forward(self, text: Any) -> Any:
            at = torch.arange(text.shape[1], device=text.device)
            return self.out(self.layers(self.words(text) + self.places(at), mask=self.mask, is_causal=True))

    torch.manual_seed(1)
    return Language()


def next_word(outputs: Any, targets: Any) -> Any:
    from torch.nn.functional import cross_entropy

    return cross_entropy(outputs.flatten(0, 1), targets.flatten())


def gpu(blocks: int = BLOCKS) -> str:
    """Time steps of a plain loop on a GPU, and of one and four workers on the same GPU, in turns."""
    import torch

    from echelon.clusters import ProcessCluster
    from echelon.torch import CodedGradient

    rows = []
    for width, layers, words in TRANSFORMERS:
        text = torch.randint(words, (BATCH, TOKENS + 1), generator=torch.Generator().manual_seed(2))
        inputs, targets = text[:, :-1], text[:, 1:].contiguous()
        weights = sum(weight.numel() for weight in transformer(width, layers, words).parameters())
        for workers in (1, 4):
            with ExitStack() as stack:
                near, far = (transformer(width, layers, words).cuda() for _ in range(2))
                stream = stack.enter_context(ec.Stream(ProcessCluster(workers)))
                gradient = CodedGradient(far, next_word, (inputs, targets), stream=stream, device="cuda")
                runs = {
                    "plain": _plain(near, inputs.cuda(), targets.cuda()),
                    "echelon": _steps(stack.enter_context(gradient), sgd(far)),
                }
                took, losses = in_turns(runs, 20, blocks)
            rows.append([
                f"{weights / 1e6:.0f} M", str(workers), *(f"{1e3 * took[name]:.1f}" for name in runs),
                f"{took['echelon'] / took['plain']:.2f}",
                f"{abs(losses['echelon'] / losses['plain'] - 1):.0e}",
            ])  # fmt: skip
            print(rows[-1], file=sys.stderr, flush=True)
    columns = ["weights", "workers", "plain (ms a step)", "echelon (ms a step)", "ratio", "losses differ by"]
    return (
        f"Training on one GPU ({torch.cuda.get_device_name()}, torch {torch.__version__}) without stragglers: a "
        f"transformer, {BATCH} texts of {TOKENS} tokens, float32, SGD with momentum; a plain loop against "
        f"`CodedGradient`, blocks of 20 steps in turns, the median of {blocks}.\n\n" + markdown_table(columns, rows)
    )


def _plain(model: Any, inputs: Any, targets: Any) -> Callable[[int], float]:
    optimizer = sgd(model)

    def run(steps: int) -> float:
        for _ in range(steps):
            optimizer.zero_grad()
            value = next_word(model(inputs), targets)
            value.backward()
            optimizer.step()
        return float(value.detach())

    return run


def _steps(gradient: Any, optimizer: Any) -> Callable[[int], float]:
    def run(steps: int) -> float:
        for _ in range(steps):
            optimizer.zero_grad()
            value = gradient.backward()
            optimizer.step()
        return float(value)

    return run


PARTS: dict[str, Callable[[], str]] = {
    "cpu": lambda: "\n\n".join((training([2, 4, 8, 14], 2048), training([2], 4096, 3))),
    "add": lambda: adding(ROW_BYTES // 4, "float32"),
    "gpu": gpu,
    "here": report,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.data_plane", description=__doc__)
    parser.add_argument("parts", nargs="+", choices=PARTS, help="what to measure")
    for part in parser.parse_args().parts:
        print(PARTS[part](), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
