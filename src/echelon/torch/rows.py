"""The row that a worker sends, one vector: derivatives, the loss, and in how many chunks each weight took part.

Backward passes write into the memory where it will be read: the host's, or that of the GPU on which it is computed.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from echelon.clusters import Room
from echelon.torch.parameters import Loaded


class Row:
    """The memory of a row, and what is written into it.

    shared: whether it may stay in the memory of a GPU, which the master can open.
    staging: pinned memory of the host, kept, through which rows leave a GPU whose memory is not shared.
    """

    def __init__(
        self,
        weights: Sequence[nn.Parameter],
        room: Room,
        device: torch.device,
        staging: dict[tuple[torch.device, int], Tensor],
        *,
        shared: bool,
    ) -> None:
        self._weights, self._room, self._device, self._staging = weights, room, device, staging
        self._shared = shared
        self._count = sum(weight.numel() for weight in weights)
        self._used = dict.fromkeys(weights, 0.0)
        self._new = set(weights)  # those that no pass has written yet
        self._loss = torch.zeros((), dtype=weights[0].dtype, device=device)
        self._pieces: dict[Tensor, Tensor] = {}

    def _lay_out(self) -> None:
        """Take the memory: as late as possible, since a GPU has work to do by then."""
        length, dtype, device = self._count + 1 + len(self._weights), self._weights[0].dtype, self._device
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
        self._pieces = {weight: share.view_as(weight) for weight, share in zip(self._weights, shares, strict=True)}

    def add(self, model: Loaded, loss: Tensor, coefficient: float) -> None:
        """Pass back from a loss; each derivative is written as soon as it is known, and its own memory freed."""
        if not self._pieces:
            self._lay_out()
        model.backward(loss, partial(self._found, coefficient))
        self._loss += loss.detach()

    def _found(self, coefficient: float, weight: nn.Parameter) -> None:
        assert weight.grad is not None
        found, piece = weight.grad.to_dense(), self._pieces[weight]
        weight.grad = None
        if weight in self._new:
            self._new.remove(weight)
            piece.copy_(found)
        else:
            piece += found
        self._used[weight] += coefficient

    def finished(self) -> tuple[Any, float]:
        """Return the row, when it is there, and its largest number."""
        if not self._pieces:
            self._lay_out()
        for weight in self._new:
            self._pieces[weight].zero_()
        self._flat[self._count] = self._loss
        self._flat[self._count + 1 :] = torch.tensor(list(self._used.values()), dtype=self._flat.dtype)
        largest = torch.linalg.vector_norm(self._flat, float("inf"))
        if self._staged is not None:
            self._staged.copy_(self._flat)
            np.copyto(self._out, self._staged.numpy())
        return self._out, float(largest)  # the device has done all when this is known
