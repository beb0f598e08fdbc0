"""Gradients of the loss on chunks of a mini-batch: what travels to the workers and runs there.

A result is one vector: the derivative by the parameters that are trained, the loss, and for each of those parameters
how many chunks it took part in, so that the master can tell a derivative of zero from none.
"""

import weakref
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from echelon.arrays import IntArray, NumberArray
from echelon.clusters import Room
from echelon.torch.heap import keep_freed_memory
from echelon.torch.minibatches import Minibatches
from echelon.torch.pages import Pages
from echelon.torch.parameters import Loaded, State, is_large
from echelon.torch.passes import pieces
from echelon.torch.seeding import generator_states, seeded

_KNOWN = 8  # states that are kept as models; a stream has two or three in turn


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
        self._known: dict[tuple[int, bytes, bytes], Loaded] = {}  # by where a state lies, 0 for a copy, and switches
        self._loaded: tuple[weakref.ref[NumberArray], Loaded] | None = None  # of this round
        self._there: tuple[Tensor, Tensor] | None = None  # the data, where it was moved to another device

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": {}, "_loaded": None, "_there": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        keep_freed_memory()  # this process exists for such passes

    def one(self, state: State, chunk: int) -> NumberArray:
        """Return the result of a chunk."""
        return self.write(state, [chunk], np.ones(1), np.empty)[0]

    def write(
        self, state: State, chunks: Sequence[int], coefficients: NumberArray, room: Room
    ) -> tuple[NumberArray, float]:
        """Return the weighted sum of the results of some chunks, in memory from `room`, and its largest number.

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
        with seeded(self._seed, state.step, parts[0].chunk if parts else 0):
            model = self._load(state)
            row = _Row(model.wanted, room)
            at_once = bool(parts) and (state.trains != self._apart or len(parts) < 2)
            if at_once and not self._passed(model, parts, row):
                self._apart, at_once = state.trains, False
        if not at_once:
            for part in parts:
                with seeded(self._seed, state.step, part.chunk):
                    self._passed(model, [part], row)
        model.check()
        return row.finished()

    def _passed(self, model: Loaded, parts: "Sequence[_Part]", row: "_Row") -> bool:
        """Add the result of one pass over some chunks to a row; return False where they must be passed one by one."""
        inputs, targets = self._take(np.concatenate([part.numbers for part in parts]))
        before = generator_states()
        outputs = model(inputs)
        if len(parts) == 1:
            pieces = [(outputs, targets)]
        else:
            along = isinstance(outputs, Tensor) and outputs.ndim > 0 and len(outputs) == len(inputs)
            if not along or generator_states() != before:
                return False
            sizes = [len(part.numbers) for part in parts]
            pieces = list(
                zip(torch.functional.split(outputs, sizes), torch.functional.split(targets, sizes), strict=True)
            )
        losses = [part.share * self._loss(*piece) for part, piece in zip(parts, pieces, strict=True)]
        loss = torch.stack(losses).sum() if len(losses) > 1 else losses[0]
        row.add(loss, sum(part.coefficient for part in parts))
        return True

    def _load(self, state: State) -> Loaded:
        """Return the model with the numbers of a state, taken over once per round."""
        if self._loaded is None or self._loaded[0]() is not state.tensors[0]:
            large = [numbers for numbers in state.tensors if is_large(numbers)]
            writable = self._device.type != "cpu" or not large or any(numbers.flags.writeable for numbers in large)
            pages = None if writable else Pages(large)
            key = 0 if pages is None else pages.start, state.trains, state.trained
            if key not in self._known and pages is not None and not pages.apart():
                key, pages = (0, state.trains, state.trained), None
            if key in self._known:
                self._known[key].fill(state)
            else:
                if len(self._known) >= _KNOWN:
                    self._known.pop(next(iter(self._known)))
                self._known[key] = Loaded(self._model, state, self._device, pages)
            self._loaded = weakref.ref(state.tensors[0]), self._known[key]
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


class _Row:
    """The memory of a row, into which backward passes write: derivatives, the loss, and the use of each weight."""

    def __init__(self, weights: Sequence[nn.Parameter], room: Room) -> None:
        self._weights, self._count = weights, sum(weight.numel() for weight in weights)
        self._out = room(self._count + 1 + len(weights), str(weights[0].dtype).removeprefix("torch."))
        self._flat = torch.from_numpy(self._out)
        self._pieces = dict(pieces(self._flat, weights))
        self._used = dict.fromkeys(weights, 0.0)
        self._new = set(weights)  # those that no pass has written yet
        self._loss = 0.0

    def add(self, loss: Tensor, coefficient: float) -> None:
        """Pass back from a loss; each derivative is written as soon as it is known, and its own memory freed."""
        found = partial(self._found, coefficient)
        hooks = [weight.register_post_accumulate_grad_hook(found) for weight in self._weights]  # type: ignore[no-untyped-call]
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        finally:
            for hook in hooks:
                hook.remove()
        self._loss += float(loss.detach())

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

    def finished(self) -> tuple[NumberArray, float]:
        """Return the row, and its largest number."""
        for weight in self._new:
            self._pieces[weight].zero_()
        self._flat[self._count :] = torch.tensor([self._loss, *self._used.values()], dtype=self._flat.dtype)
        return np.asarray(self._out), float(torch.linalg.vector_norm(self._flat, float("inf")))
