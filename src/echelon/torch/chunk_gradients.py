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
from echelon.clusters import Room
from echelon.torch.device_numbers import DeviceNumbers, Elsewhere, Opened
from echelon.torch.devices import resolved
from echelon.torch.heap import keep_freed_memory
from echelon.torch.minibatches import Minibatches
from echelon.torch.pages import Pages
from echelon.torch.parameters import Loaded, State, is_large
from echelon.torch.rows import Row
from echelon.torch.seeding import generator_states, seeded

_KNOWN = 8  # states that are kept as models; a stream has two or three in turn
_Key = tuple[int | bytes, torch.device, bytes, bytes]  # where a state lies, 0 for a copy; device and switches
Loss = Callable[[Any, Tensor], Tensor]


class ChunkGradients:
    """Weighted sums of the gradients of chunks.

    model: a hull. mean: whether the loss of a batch is the mean over its samples, or their sum.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        data: tuple[NumberArray, NumberArray],
        batches: Minibatches,
        *,
        mean: bool,
        seed: int,
        device: str,
    ) -> None:
        self._model, self._loss, self._data, self._batches = model, loss, data, batches
        self._mean, self._seed, self._device = mean, seed, device
        self._apart = b""  # which modules trained when chunks had to be passed one by one
        self._known: dict[_Key, Loaded] = {}
        self._loaded: dict[torch.device, tuple[weakref.ref[NumberArray], Loaded]] = {}  # of this round
        self._opened: dict[bytes, DeviceNumbers | Opened] = {}
        self._there: dict[torch.device, tuple[Tensor, Tensor, Loss]] = {}  # data and loss, on other devices
        self._staging: dict[tuple[torch.device, int], Tensor] = {}  # of rows that leave through the host

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": {}, "_loaded": {}, "_opened": {}, "_there": {}, "_staging": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        keep_freed_memory()  # this process exists for such passes

    def one(self, state: State, chunk: int) -> NumberArray:
        """Return the result of a chunk."""
        return self.write(state, [chunk], np.ones(1), _on_host)[0]

    def write(
        self, state: State, chunks: Sequence[int], coefficients: NumberArray, room: Room
    ) -> tuple[NumberArray, float]:
        """Return the weighted sum of the results of some chunks, in memory from `room`, and its largest number.

        It is the gradient of the weighted sum of their losses, in one pass forward and one back over all samples; but
        in one pass per chunk where the model draws from a generator of torch, so that each chunk has its own draws, or
        where its outputs are not a tensor with the samples along its first axis.
        """
        device = resolved(self._device)
        if device.type == "cuda":
            torch.cuda.set_device(device)  # and begin to use it: `seeded` leaves alone what is not in use
        whole = len(self._batches.batch(state.step))
        parts = []
        for chunk, coefficient in zip(chunks, coefficients.tolist(), strict=True):
            numbers = self._batches.chunk(state.step, chunk)
            if len(numbers):
                share = coefficient * len(numbers) / whole if self._mean else coefficient
                parts.append(_Part(chunk, numbers, coefficient, share))
        with seeded(self._seed, state.step, parts[0].chunk if parts else 0):
            model = self._load(state, device)
            row = Row(model.wanted, room, device, self._staging, shared=state.shared is not None)
            at_once = bool(parts) and (state.trains != self._apart or len(parts) < 2)
            if at_once and not self._passed(model, parts, row, device):
                self._apart, at_once = state.trains, False
        if not at_once:
            for part in parts:
                with seeded(self._seed, state.step, part.chunk):
                    self._passed(model, [part], row, device)
        model.check()
        return row.finished()

    def _passed(self, model: Loaded, parts: "Sequence[_Part]", row: Row, device: torch.device) -> bool:
        """Add the result of one pass over some chunks to a row; return False where they must be passed one by one."""
        inputs, targets, loss_of = self._take(np.concatenate([part.numbers for part in parts]), device)
        before = generator_states() if len(parts) > 1 else []
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
        losses = [part.share * loss_of(*piece) for part, piece in zip(parts, pieces, strict=True)]
        loss = torch.stack(losses).sum() if len(losses) > 1 else losses[0]
        row.add(model, loss, sum(part.coefficient for part in parts))
        return True

    def _load(self, state: State, device: torch.device) -> Loaded:
        """Return the model with the numbers of a state, taken over once per round."""
        if state.shared is not None:
            return self._load_shared(state, state.shared, device)
        known, lies = self._loaded.get(device), _memory(state.tensors[0])
        if known is not None and known[0]() is lies:
            return known[1]
        large = [numbers for numbers in state.tensors if is_large(numbers)]
        writable = device.type != "cpu" or not large or any(numbers.flags.writeable for numbers in large)
        pages = None if writable else Pages(large)
        key = 0 if pages is None else pages.start, device, state.trains, state.trained
        if key not in self._known and pages is not None and not pages.apart():
            key, pages = (0, device, state.trains, state.trained), None
        loaded = self._made(key, state, state.tensors, device, pages)
        self._loaded[device] = weakref.ref(lies), loaded
        return loaded

    def _load_shared(self, state: State, shared: DeviceNumbers | Elsewhere, device: torch.device) -> Loaded:
        """Return the model with numbers that lie in the memory of a GPU."""
        if shared.name not in self._opened:
            self._opened[shared.name] = shared.open()
        opened = self._opened[shared.name]
        opened.wait()
        return self._made((shared.name, device, state.trains, state.trained), state, opened.tensors, device, None)

    def _made(
        self, key: "_Key", state: State, tensors: Sequence[Any], device: torch.device, pages: Pages | None
    ) -> Loaded:
        if key in self._known:
            self._known[key].fill(tensors)
            return self._known[key]
        if len(self._known) >= _KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[key] = Loaded(self._model, state, tensors, device, pages)
        return self._known[key]

    def _take(self, numbers: IntArray, device: torch.device) -> "tuple[Tensor, Tensor, Loss]":
        """Return inputs and targets of some samples, and the loss, on a device."""
        if device.type == "cpu":
            inputs, targets = (torch.from_numpy(np.take(some, numbers, axis=0)) for some in self._data)
            return inputs, targets, self._loss
        if device not in self._there:
            first, second = (torch.from_numpy(np.array(some)).to(device) for some in self._data)
            loss = deepcopy(self._loss).to(device) if isinstance(self._loss, nn.Module) else self._loss
            self._there[device] = first, second, loss
        at = torch.from_numpy(np.array(numbers)).to(device)
        first, second, loss = self._there[device]
        return first[at], second[at], loss


def _memory(array: NumberArray) -> NumberArray:
    """Return the array that another is a view of, if it is one: threads get views of their own of one state."""
    return array.base if isinstance(array.base, np.ndarray) else array


def _on_host(count: int, dtype: str, device: Any = None) -> NumberArray:
    return np.empty(count, dtype)


class _Part(NamedTuple):
    """A chunk with samples: its coefficient in the row, and the weight of its own loss."""

    chunk: int
    numbers: IntArray
    coefficient: float
    share: float
