"""The total of a step, written into the model: gradients, and statistics over batches."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from echelon.arrays import NumberArray
from echelon.errors import ArgumentError
from echelon.torch.parameters import Walk
from echelon.torch.rows import parted


class Gradient(NamedTuple):
    """The total of a step, taken apart: each piece of `flat` is a weight's gradient, None where the loss knows none."""

    loss: Tensor
    flat: Tensor
    pieces: Sequence[Tensor | None]


def fill(walk: Walk, found: NumberArray | Tensor, *, divided: bool) -> Tensor:
    """Add a total to the gradients of a model, without a copy where there are none; return the loss.

    divided: whether losses were summed up over samples, and their mean is wanted.
    """
    gradient = collected(walk, found, divided=divided)
    for weight, piece in zip(walk.trained, gradient.pieces, strict=True):
        if piece is None:
            continue
        if piece.dtype != weight.dtype or piece.device != weight.device:
            piece = piece.to(weight.device, weight.dtype)
        if weight.grad is None:
            weight.grad = piece
        else:
            weight.grad += piece
    return gradient.loss


def collected(walk: Walk, found: NumberArray | Tensor, *, divided: bool) -> Gradient:
    """Return the gradient of a total; what the model collects over batches is written into it."""
    weights = walk.trained
    flat = (found if isinstance(found, Tensor) else torch.from_numpy(found)).to(weights[0].device)
    shares, sums = parted(flat, weights, walk.tracked)
    flat, loss = flat[: sum(weight.numel() for weight in weights)], sums.loss
    if divided:
        if sums.samples < 0.5:
            raise ArgumentError("data: no chunk of this step has samples; at least one must have some")
        samples = round(sums.samples)  # decoded like all else, with rounding
        flat /= samples
        loss /= samples
    if sums.filled > 0.5:
        _collect(walk.tracked, sums.statistics, round(sums.filled))
    # where chunks differ in what they use, counts of chunks are not exact; an existing gradient counts
    pieces = [
        (share if weight.ndim == 1 else share.view_as(weight)) if parts > 0.5 or share.any() else None
        for weight, share, parts in zip(weights, shares, sums.used, strict=True)
    ]
    return Gradient(loss, flat, pieces)


def _collect(buffers: Sequence[Tensor], changes: Sequence[Tensor], chunks: int) -> None:
    """Change collected statistics by the mean of what chunks changed."""
    with torch.no_grad():
        for buffer, change in zip(buffers, changes, strict=True):
            mean = (change / chunks).view(buffer.shape)
            buffer += (mean if buffer.is_floating_point() else mean.round()).to(buffer.device, buffer.dtype)
