"""Training with torch through a cluster: what it costs beside a plain loop, and what narrow messages lose."""

from typing import Any

import numpy as np

import echelon as ec
from bench.results import markdown_table
from bench.timing import best_of
from echelon.papers.sequential_training import images

SAMPLES, BATCH = 2240, 224  # one a multiple of the other: all steps are alike
BLOCK, REPEATS = 4, 25
WORKERS, REDUNDANCY, STEPS = 4, 1.5, 60
RATE, SEED = 0.05, 1


def report() -> str:
    import torch  # not at the top: it loads slowly

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as on the workers
    try:
        name, data = _data()
        return "\n\n".join((_overhead(name, data), _at_once(data), _narrow(data)))
    finally:
        torch.set_num_threads(threads)


def _data() -> tuple[str, tuple[np.ndarray, np.ndarray]]:
    found = images(SAMPLES, 1, SEED).astype(np.float32)
    return found.name, (found.pixels.reshape(-1, 1, 28, 28), found.labels.argmax(axis=1))


def _model() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(SEED)
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def _optimizer(model: Any) -> Any:
    import torch

    return torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)


def _overhead(name: str, data: tuple[np.ndarray, np.ndarray]) -> str:
    """Time blocks of steps in turns: a plain loop, and a cluster of one worker without redundancy."""
    import torch
    from torch import nn

    from echelon.torch import CodedGradient

    loss, (inputs, targets) = nn.CrossEntropyLoss(), map(torch.from_numpy, data)
    model, far = _model(), _model()
    optimizer, distant = _optimizer(model), _optimizer(far)
    weights = sum(weight.numel() for weight in model.parameters())
    losses: dict[str, list[float]] = {"plain": [], "coded": []}
    with (
        ec.Stream("processes", workers=1, redundancy=1.0) as stream,
        CodedGradient(far, loss, data, stream=stream, batch_size=BATCH) as coded,
    ):

        def plain() -> None:
            for _ in range(BLOCK):
                numbers = torch.from_numpy(coded.batch(len(losses["plain"])))
                optimizer.zero_grad()
                value = loss(model(inputs[numbers]), targets[numbers])
                value.backward()
                optimizer.step()
                losses["plain"].append(float(value.detach()))

        def through() -> None:
            for _ in range(BLOCK):
                distant.zero_grad()
                losses["coded"].append(float(coded.backward()))
                distant.step()

        plain(), through()  # the worker has to load torch first
        seconds = best_of({"plain": plain, "coded": through}, REPEATS)
    steps = {kind: 1e3 * value / BLOCK for kind, value in seconds.items()}
    apart = np.abs(np.array(losses["coded"]) / np.array(losses["plain"]) - 1).max()
    return (
        f"{name}, batches of {BATCH}; two convolutions, two dense, {weights} weights. A plain loop of torch on one "
        "thread against `CodedGradient` with one worker process and no redundancy, in turns; the shortest of "
        f"{REPEATS} blocks of {BLOCK} steps. Wanted: 10 % at most.\n\n"
        + markdown_table(
            ["plain (ms a step)", "coded (ms a step)", "overhead", "losses differ by at most"],
            [
                [
                    f"{steps['plain']:.1f}",
                    f"{steps['coded']:.1f}",
                    f"{100 * (steps['coded'] / steps['plain'] - 1):.1f} %",
                    f"{apart:.1e}",
                ]
            ],
        )
    )


def _at_once(data: tuple[np.ndarray, np.ndarray]) -> str:
    """Time what a worker does for a row of three chunks, beside passes over the same samples."""
    import torch
    from torch import nn

    from echelon.torch import parameters
    from echelon.torch.chunk_gradients import ChunkGradients, How
    from echelon.torch.losses import Losses
    from echelon.torch.models import Models
    from echelon.torch.samples import source
    from echelon.torch.sources import At

    loss, model = nn.CrossEntropyLoss(), _model()
    losses = Losses(loss, None)
    held = source(data, batch_size=BATCH, chunks=WORKERS, seed=SEED, losses=losses)
    assert held.batches is not None
    gradients = ChunkGradients(Models(parameters.hull(model)), losses, held, How(mean=True, seed=SEED, device="cpu"))
    state, chunks = parameters.state(parameters.Walk(model), At(0)), list(range(3))
    numbers = np.concatenate([held.batches.chunk(0, chunk) for chunk in chunks])
    coefficients = np.array([0.7, -1.1, 0.4])
    inputs, targets = (torch.from_numpy(some[numbers]) for some in data)

    def plain() -> None:
        model.zero_grad()
        loss(model(inputs), targets).backward()

    seconds = best_of(
        {
            "one pass of torch over as many samples": plain,
            "the row at once": lambda: gradients.write(state, chunks, coefficients, np.empty),
            "its chunks one by one": lambda: [gradients.one(state, chunk) for chunk in chunks],
        },
        30,
    )
    rows = [[kind, f"{1e3 * value:.1f}"] for kind, value in seconds.items()]
    return f"A row of 3 chunks of {BATCH // WORKERS} samples.\n\n" + markdown_table(["", "ms"], rows)


def _narrow(data: tuple[np.ndarray, np.ndarray]) -> str:
    """Train with messages of both widths; compare first gradients, bytes and losses."""
    from torch import nn

    from echelon.torch import CodedGradient

    seen: dict[str, tuple[float, np.ndarray, np.ndarray]] = {}
    for messages in ("float32", "bfloat16"):
        model = _model()
        optimizer, losses, gradient = _optimizer(model), [], np.empty(0)
        with (
            ec.Stream("threads", workers=WORKERS, redundancy=REDUNDANCY) as stream,
            CodedGradient(
                model, nn.CrossEntropyLoss(), data, stream=stream, batch_size=BATCH, messages=messages
            ) as coded,
        ):
            sent = _bytes(stream)
            for step in range(STEPS):
                optimizer.zero_grad()
                losses.append(float(coded.backward()))
                if not step:
                    gradient = np.concatenate([weight.grad.numpy().ravel() for weight in model.parameters()])
                optimizer.step()
        seen[messages] = sent[0] / sent[1], gradient, np.array(losses)
    (wide, exact, curve), (narrow, coarse, other) = seen.values()
    error = np.linalg.norm(coarse - exact) / np.linalg.norm(exact)
    rows = [
        ["float32", f"{wide / 1e3:.0f}", "", f"{curve[0]:.4f}", f"{curve[-10:].mean():.4f}"],
        ["bfloat16", f"{narrow / 1e3:.0f}", f"{error:.1e}", f"{other[0]:.4f}", f"{other[-10:].mean():.4f}"],
    ]
    columns = [
        "messages",
        "kB a message",
        "error of a gradient",
        "first loss",
        f"mean of losses {STEPS - 9} to {STEPS}",
    ]
    return (
        f"Narrow messages: {WORKERS} workers, redundancy {REDUNDANCY}, {STEPS} steps. Error: of the first gradient, "
        "relative to its norm.\n\n" + markdown_table(columns, rows)
    )


def _bytes(stream: ec.Stream) -> list[int]:
    """Return a pair that counts bytes and messages from now on."""
    from echelon.stream.observer import Observer, RoundSeen

    sums = [0, 0]

    class Counter(Observer):
        def round_over(self, seen: RoundSeen) -> None:
            sums[0] += seen.nbytes
            sums[1] += seen.received

    stream.watch(Counter())
    return sums
