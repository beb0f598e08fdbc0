"""The total of a step, written into the model: gradients, and statistics over batches."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from echelon.arrays import NumberArray
from echelon.errors import ArgumentError
from echelon.torch.parameters import Walk
from echelon.torch.rows import parted


def fill(walk: Walk, found: NumberArray | Tensor, *, divided: bool) -> Tensor:
    """Add a total to the gradients of a model, without a copy where there are none; return the loss.

    divided: whether losses were summed up over samples, and their mean is wanted.
    """
    weights = walk.trained
    flat = (found if isinstance(found, Tensor) else torch.from_numpy(found)).to(weights[0].device)
    shares, sums = parted(flat, weights, walk.tracked)
    loss = sums.loss
    if divided:
        if sums.samples < 0.5:
            raise ArgumentError("data: no chunk of this step has samples; at least one must have some")
        samples = round(sums.samples)  # decoded like all else, with rounding
        flat[: sum(weight.numel() for weight in weights)] /= samples
        loss /= samples
    for weight, share, parts in zip(weights, shares, sums.used, strict=True):
        # where chunks differ in what they use, counts of chunks are not exact; an existing gradient counts
        if parts > 0.5 or share.any():
            _add(weight, share.view(weight.shape))
    if sums.filled > 0.5:
        _collect(walk.tracked, sums.statistics, round(sums.filled))
    return loss


def _add(weight: nn.Parameter, piece: Tensor) -> None:
    piece = piece.to(weight.device, weight.dtype)
    if weight.grad is None:
        weight.grad = piece
    else:
        weight.grad += piece


def _collect(buffers: Sequence[Tensor], changes: Sequence[Tensor], chunks: int) -> None:
    """Change collected statistics by the mean of what chunks changed."""
    with torch.no_grad():
        for buffer, change in zip(buffers, changes, strict=True):
            mean = (change / chunks).view(buffer.shape)
            buffer += (mean if buffer.is_floating_point() else mean.round()).to(buffer.device, buffer.dtype)
