"""The row that a worker sends, one vector: derivatives, and behind them what else is a sum over chunks.

That is the loss, the number of samples and of chunks with any, in how many chunks each weight took part (so that the
master can tell a derivative of zero from none), and by how much collected statistics changed.

Backward passes write into the memory where it will be read: the host's, or that of the GPU on which it is computed.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from echelon.clusters import Room
from echelon.torch.parameters import Loaded

_HEAD = 3  # the loss, samples, chunks


class Sums(NamedTuple):
    """What is behind the derivatives of a total; see the module."""

    loss: Tensor
    samples: float
    filled: float
    used: list[float]
    statistics: Sequence[Tensor]


def number_type(weights: Sequence[Tensor]) -> torch.dtype:
    """Return the type of a row: float64 for such a model, and else float32, also for narrower weights."""
    return torch.float64 if weights[0].dtype == torch.float64 else torch.float32


def parted(total: Tensor, weights: Sequence[Tensor], tracked: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sums]:
    """Return the derivatives of a total, flat, and its sums."""
    changes = [buffer.numel() for buffer in tracked]
    shares = torch.functional.split(total, [*(weight.numel() for weight in weights), _HEAD + len(weights), *changes])
    derivatives, told, statistics = shares[: len(weights)], shares[len(weights)], shares[len(weights) + 1 :]
    _, samples, filled, *used = told.tolist()
    return derivatives, Sums(told[0].clone(), samples, filled, used, statistics)


class Row:
    """The memory of a row, and what is written into it.

    shared: whether it may stay in the memory of a GPU, which the master can open.
    staging: pinned memory of the host, kept, through which rows leave a GPU whose memory is not shared.
    """

    def __init__(
        self,
        model: Loaded,
        room: Room,
        device: torch.device,
        staging: dict[tuple[torch.device, int], Tensor],
        *,
        shared: bool,
    ) -> None:
        self._model, self._room, self._device, self._staging = model, room, device, staging
        self._shared, self._dtype = shared, number_type(model.wanted)
        self._weights, self._count = model.wanted, sum(weight.numel() for weight in model.wanted)
        self._pieces: list[Tensor] = []  # by the number of a weight, as all that follows
        self.restart()

    def restart(self) -> None:
        """Forget what was added."""
        self._used = [0.0] * len(self._weights)
        self._new = set(range(len(self._weights)))  # those that no pass has written yet
        self._loss = torch.zeros((), dtype=self._dtype, device=self._device)
        self._samples = self._filled = 0.0
        self._changes: list[Tensor] = []

    def _lay_out(self) -> None:
        """Take the memory: as late as possible, since a GPU has work to do by then."""
        length = self._count + _HEAD + len(self._weights) + self._model.tracks
        dtype, device = self._dtype, self._device
        on_gpu, name = device.type == "cuda", str(dtype).removeprefix("torch.")
        self._out: Any = self._room(length, name, device) if self._shared else self._room(length, name)
        self._staged: Tensor | None = None
        if isinstance(self._out, Tensor):
            self._flat = self._out
        elif on_gpu:
            self._flat = torch.empty(length, dtype=dtype, device=device)
            if (device, length) not in self._staging:
                self._staging[device, length] = torch.empty(length, dtype=dtype, pin_memory=True)
            self._staged = self._staging[device, length]
        else:
            self._flat = torch.from_numpy(self._out)
        shares = torch.functional.split(self._flat[: self._count], [weight.numel() for weight in self._weights])
        self._pieces = [share.view_as(weight) for weight, share in zip(self._weights, shares, strict=True)]

    def count(self, samples: int, coefficient: float) -> None:
        """Note a chunk that has samples."""
        self._samples += coefficient * samples
        self._filled += coefficient

    def collect(self, changes: Sequence[Tensor], coefficient: float) -> None:
        """Add by how much a pass over one chunk changed what the model collects."""
        weighted = [coefficient * change.to(self._dtype) for change in changes]
        pairs = zip(self._changes, weighted, strict=True)
        self._changes = [one + other for one, other in pairs] if self._changes else weighted

    def add(self, loss: Tensor, coefficient: float, scale: float = 1.0) -> None:
        """Pass back from a loss; each derivative is written as soon as it is known, and its own memory freed."""
        if not self._pieces:
            self._lay_out()
        self._model.backward(loss if scale == 1 else loss * scale, partial(self._found, coefficient))
        self._loss += loss.detach()

    def _found(self, coefficient: float, number: int) -> None:
        weight, piece = self._weights[number], self._pieces[number]
        assert weight.grad is not None
        found = weight.grad.to_dense()
        weight.grad = None
        if number in self._new:
            self._new.remove(number)
            piece.copy_(found)
        else:
            piece += found
        self._used[number] += coefficient

    def finished(self) -> tuple[Any, float]:
        """Return the row, when it is there, and its largest number."""
        if not self._pieces:
            self._lay_out()
        for number in self._new:
            self._pieces[number].zero_()
        told = [self._samples, self._filled, *self._used]
        behind = self._count + _HEAD + len(self._weights)
        self._flat[self._count] = self._loss
        self._flat[self._count + 1 : behind].copy_(torch.tensor(told, dtype=self._dtype), non_blocking=True)
        if self._changes:
            torch.cat(self._changes, out=self._flat[behind:])
        else:
            self._flat[behind:].zero_()
        largest = _largest(self._flat)
        if self._staged is not None:
            self._staged.copy_(self._flat)
            np.copyto(self._out, self._staged.numpy())
        return self._out, float(largest)  # the device has done all when this is known


def _largest(flat: Tensor) -> Tensor:
    """Return the largest absolute value, not finite where a number is not."""
    if flat.is_cuda:
        found: Tensor = torch.linalg.vector_norm(flat, float("inf"))
        return found
    low, high = torch.aminmax(flat)  # on processors it takes a fifteenth of the time
    return torch.maximum(high, -low)
