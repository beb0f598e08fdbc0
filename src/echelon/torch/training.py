"""Training as one call: a loop around `CodedGradient`, with a stream of its own where none is given."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from echelon import checks
from echelon.errors import ArgumentError
from echelon.schemes import CodedPlan
from echelon.stream import Stream
from echelon.torch.coded_gradient import CodedGradient


def train(
    model: nn.Module,
    loss: Callable[[Any, Tensor], Tensor],
    data: Any,
    optimizer: torch.optim.Optimizer,
    *,
    steps: int,
    stream: Stream | None = None,
    batch_size: int | None = None,
    chunks: int | None = None,
    seed: int = 0,
    reduction: str | None = None,
    plan: CodedPlan | None = None,
    messages: str = "float32",
    device: str = "cpu",
    tolerance: float | None = None,
    callback: Callable[[int, float], object] | None = None,
    **options: Any,
) -> list[float]:
    """Train a model for some steps on a cluster, and return the loss of each step's mini-batch.

    optimizer: of the model's parameters; each step is its `zero_grad`, `CodedGradient.backward` and its `step`.
    stream: where to compute; without, one is opened with all further options (cluster=, workers=, redundancy=,
        progress= …, see `Stream`) and closed at the end.
    callback: called after every step with its number and its loss: for schedulers, logs and checkpoints.
    All else as in `CodedGradient`.

    >>> model = nn.Linear(3, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> data = torch.ones(8, 3), torch.zeros(8, 1)
    >>> losses = train(model, nn.MSELoss(), data, optimizer, steps=20, cluster="threads", workers=2)
    >>> len(losses), losses[-1] < 1e-3
    (20, True)
    """
    checks.whole("steps", steps, least=1)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ArgumentError(f"optimizer: {type(optimizer).__name__} is not allowed; must be one of torch.optim")
    if callback is not None and not callable(callback):
        raise ArgumentError(f"callback: {callback!r} is not allowed; must be a function of step and loss")
    if stream is not None and options:
        raise ArgumentError(f"{', '.join(options)}: not allowed together with a stream; they are for a new one")
    losses = []
    with ExitStack() as ends:
        if stream is None:
            stream = ends.enter_context(Stream(**options))
        coded = CodedGradient(
            model, loss, data, stream=stream, batch_size=batch_size, chunks=chunks, seed=seed, reduction=reduction,
            plan=plan, messages=messages, device=device, tolerance=tolerance,
        )  # fmt: skip
        ends.enter_context(coded)
        for step in range(steps):
            optimizer.zero_grad()
            losses.append(float(coded.backward()))
            optimizer.step()
            if callback is not None:
                callback(step, losses[-1])
    return losses
