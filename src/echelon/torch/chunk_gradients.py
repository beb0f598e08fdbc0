"""Gradients of the loss on chunks of a mini-batch: what travels to the workers and runs there.

A result is one vector: the derivative by the parameters that are trained, the loss, and for each of those parameters
how many chunks it took part in, so that the master can tell a derivative of zero from none.
"""

import weakref
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from echelon.arrays import IntArray, NumberArray
from echelon.torch.heap import keep_freed_memory
from echelon.torch.minibatches import Minibatches
from echelon.torch.parameters import Loaded, State
from echelon.torch.seeding import generator_states, seeded


class ChunkGradients:
    """Weighted sums of the gradients of chunks.

    model: a hull. mean: whether the loss of a batch is the mean over its samples, or their sum.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any, Tensor], Tensor],
        data: tuple[NumberArray, NumberArray],
        batches: Minibatches,
        *,
        mean: bool,
        seed: int,
        device: str,
    ) -> None:
        self._model, self._loss, self._data, self._batches = model, loss, data, batches
        self._mean, self._seed, self._device = mean, seed, torch.device(device)
        self._apart = b""  # which modules trained when chunks had to be passed one by one
        self._loaded: tuple[weakref.ref[NumberArray], Loaded] | None = None
        self._there: tuple[Tensor, Tensor] | None = None  # the data, where it was moved to another device

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_loaded": None, "_there": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        keep_freed_memory()  # this process exists for such passes

    def one(self, state: State, chunk: int) -> NumberArray:
        """Return the result of a chunk."""
        return self.some(state, [chunk], np.ones(1))

    def some(self, state: State, chunks: Sequence[int], coefficients: NumberArray) -> NumberArray:
        """Return the weighted sum of the results of some chunks.

        It is the gradient of the weighted sum of their losses, in one pass forward and one back over all samples; but
        in one pass per chunk where the model draws from a generator of torch, so that each chunk has its own draws, or
        where its outputs are not a tensor with the samples along its first axis.
        """
        if self._device.type == "cuda":
            torch.cuda.init()  # type: ignore[no-untyped-call]  # `seeded` leaves alone what is not in use
        whole = len(self._batches.batch(state.step))
        parts = []
        for chunk, coefficient in zip(chunks, coefficients.tolist(), strict=True):
            numbers = self._batches.chunk(state.step, chunk)
            if len(numbers):
                share = coefficient * len(numbers) / whole if self._mean else coefficient
                parts.append(_Part(chunk, numbers, coefficient, share))
        if state.trains != self._apart or len(parts) < 2:
            found = self._passed(state, parts)
            if found is not None:
                return found
            self._apart = state.trains
        apart = [self._passed(state, [part]) for part in parts]
        return np.asarray(sum(found for found in apart if found is not None))

    def _passed(self, state: State, parts: "Sequence[_Part]") -> NumberArray | None:
        """Return the result of one pass over some chunks, or None where they must be passed one by one."""
        with seeded(self._seed, state.step, parts[0].chunk if parts else 0):
            model = self._load(state)
            if not parts:
                return _vector([torch.zeros_like(weight) for weight in model.wanted], 0.0, [0.0] * len(model.wanted))
            inputs, targets = self._take(np.concatenate([part.numbers for part in parts]))
            before = generator_states()
            outputs = model(inputs)
            if len(parts) == 1:
                pieces = [(outputs, targets)]
            else:
                along = isinstance(outputs, Tensor) and outputs.ndim > 0 and len(outputs) == len(inputs)
                if not along or generator_states() != before:
                    return None
                sizes = [len(part.numbers) for part in parts]
                pieces = list(
                    zip(torch.functional.split(outputs, sizes), torch.functional.split(targets, sizes), strict=True)
                )
            losses = [part.share * self._loss(*piece) for part, piece in zip(parts, pieces, strict=True)]
            loss = torch.stack(losses).sum() if len(losses) > 1 else losses[0]
            found = torch.autograd.grad(loss, model.wanted, allow_unused=True)
        weight = sum(part.coefficient for part in parts)
        used = [0.0 if part is None else weight for part in found]
        dense = [torch.zeros_like(to) if part is None else part for part, to in zip(found, model.wanted, strict=True)]
        return _vector(dense, float(loss.detach()), used)

    def _load(self, state: State) -> Loaded:
        """Return the model with the numbers of a state, made once per round."""
        if self._loaded is None or self._loaded[0]() is not state.flat:
            self._loaded = weakref.ref(state.flat), Loaded(self._model, state, self._device)
        return self._loaded[1]

    def _take(self, numbers: IntArray) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of some samples."""
        if self._device.type == "cpu":
            inputs, targets = (torch.from_numpy(np.take(some, numbers, axis=0)) for some in self._data)
            return inputs, targets
        if self._there is None:
            first, second = (torch.from_numpy(np.array(some)).to(self._device) for some in self._data)
            self._there = first, second
            if isinstance(self._loss, nn.Module):
                self._loss = deepcopy(self._loss).to(self._device)
        at = torch.from_numpy(np.array(numbers)).to(self._device)
        return self._there[0][at], self._there[1][at]


class _Part(NamedTuple):
    """A chunk with samples: its coefficient in the row, and the weight of its own loss."""

    chunk: int
    numbers: IntArray
    coefficient: float
    share: float


def _vector(gradient: Sequence[Tensor], loss: float, used: Sequence[float]) -> NumberArray:
    flat = [part.to_dense().reshape(-1) for part in gradient]
    out = np.empty(sum(map(len, flat)) + 1 + len(used), str(flat[0].dtype).removeprefix("torch."))
    out[-1 - len(used) :] = [loss, *used]
    # written in place: an array without other references is not copied again
    torch.from_numpy(out)[: -1 - len(used)].copy_(torch.cat(flat))
    return out
