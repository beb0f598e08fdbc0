"""Local steps of training: what travels to the workers and runs there.

A result is one vector: what the trained parameters and the buffers moved by, and the losses of the steps added up. All
but the last is weighted by the number of steps, so that the sum over workers, divided by all their steps, is the mean.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from echelon.arrays import IntArray, NumberArray
from echelon.clusters import Remembers
from echelon.errors import ArgumentError
from echelon.seeds import round_generator
from echelon.torch.seeding import Asking, seeded

Loss = Callable[[Any, Tensor], Tensor]
Optimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
_TYPES = (torch.float32, torch.float64)
_STAY = (torch.bool, torch.bfloat16, torch.complex64, torch.complex128)  # of buffers
_REPLICA = "replica"  # in a worker's memory, beside the states of optimisers, which are there by place


class Start(NamedTuple):
    """What the local steps of a round begin with: trained parameters as one vector, buffers, steps of each place.

    asking: whether somebody still waits for what they move.
    """

    weights: NumberArray
    buffers: tuple[NumberArray, ...]
    round: int
    steps: tuple[int, ...]
    asking: Asking


class Carried:
    """Which tensors of a model travel: the parameters that are trained, and the buffers, if they are real numbers."""

    def __init__(self, model: nn.Module) -> None:
        self._trained = tuple(weight.requires_grad for weight in model.parameters())
        self._shapes = _shapes(model)
        weights, _ = self.of(model)
        if not weights:
            raise ArgumentError("model: it has no parameters to train; must have at least one")
        if any(map(nn.parameter.is_lazy, model.parameters())):
            raise ArgumentError("model: parameters without a shape are not allowed; it must have been called once")
        if len({weight.dtype for weight in weights}) > 1 or weights[0].dtype not in _TYPES:
            raise ArgumentError("model: parameters of other types are not allowed; must be all float32 or all float64")

    def of(self, model: nn.Module) -> tuple[list[nn.Parameter], list[Tensor]]:
        """Return these tensors of a model like the first one."""
        if _shapes(model) != self._shapes:
            raise ArgumentError("model: its parameters or buffers have other names, types or shapes than at the start")
        weights = [weight for weight, trained in zip(model.parameters(), self._trained, strict=True) if trained]
        return weights, [buffer for buffer in model.buffers() if buffer.dtype not in _STAY]

    def read(self, model: nn.Module) -> tuple[NumberArray, tuple[NumberArray, ...]]:
        """Return copies of their numbers: parameters as one vector, and buffers."""
        weights, buffers = self.of(model)
        flat = torch.cat([weight.detach().reshape(-1).cpu() for weight in weights])
        return flat.numpy(), tuple(buffer.detach().cpu().clone().numpy() for buffer in buffers)

    def write(self, model: nn.Module, flat: NumberArray, buffers: tuple[NumberArray, ...]) -> None:
        """Put numbers into a model."""
        weights, held = self.of(model)
        with torch.no_grad():
            pieces = torch.functional.split(torch.from_numpy(np.array(flat)), [weight.numel() for weight in weights])
            for weight, piece in zip(weights, pieces, strict=True):
                weight.copy_(piece.view(weight.shape))
            for buffer, numbers in zip(held, buffers, strict=True):
                buffer.copy_(torch.from_numpy(np.array(numbers)))


def _shapes(model: nn.Module) -> list[tuple[Any, ...]]:
    named = [*model.named_parameters(), *model.named_buffers()]
    return [(name, tensor.dtype, None if nn.parameter.is_lazy(tensor) else tensor.shape) for name, tensor in named]


class LocalSteps(Remembers):
    """Steps of an inner optimiser on mini-batches of a worker's own. What they move is added up, and nothing else.

    A worker remembers, for each place that it has worked for, the state of the inner optimiser after the last round
    that it finished there.
    """

    added = True

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        data: tuple[NumberArray, NumberArray],
        optimizer: Optimizer,
        *,
        batch_size: int,
        seed: int,
    ) -> None:
        self._model, self._loss, self._data, self._optimizer = model, loss, data, optimizer
        self._batch_size, self._seed = batch_size, seed
        self._carried = Carried(model)

    def row(self, slot: int, row: int) -> tuple[tuple[int, ...], NumberArray]:
        """Return the place, whose steps are the only part of its slot."""
        return (slot,), np.ones(1)

    def part(self, state: Start, part: int) -> NumberArray:
        """Return what the steps of a place move, as a worker finds that remembers nothing."""
        found = self.go_on(state, part, {}, lambda: True)
        assert found is not None
        return found

    def go_on(
        self, state: Start, part: int, memory: dict[Any, Any], wanted: Callable[[], bool]
    ) -> NumberArray | None:  # fmt: skip
        """Return what the steps of a place move; None as soon as it is no longer wanted."""
        model = memory.get(_REPLICA)
        if model is None:
            model = memory[_REPLICA] = deepcopy(self._model)
        steps, losses = state.steps[part], 0.0
        self._carried.write(model, state.weights, state.buffers)
        weights, _ = self._carried.of(model)
        batches = batches_of(self._seed, state.round, part, len(self._data[0]), self._batch_size)
        with state.asking.turn(), seeded(self._seed, state.round, part):
            optimizer = self._optimizer(weights)
            if part in memory:
                optimizer.load_state_dict(deepcopy(memory[part]))
            for _ in range(steps):
                if not wanted():
                    return None
                inputs, targets = self._take(next(batches))
                optimizer.zero_grad()
                loss = self._loss(model(inputs), targets)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                losses += float(loss.detach())
        memory[part] = optimizer.state_dict()
        return self._moved(model, state, steps, losses)

    def _take(self, numbers: IntArray) -> tuple[Tensor, Tensor]:
        inputs, targets = (torch.from_numpy(np.take(some, numbers, axis=0)) for some in self._data)
        return inputs, targets

    def _moved(self, model: nn.Module, start: Start, steps: int, losses: float) -> NumberArray:
        weights, buffers = self._carried.read(model)
        weights -= start.weights
        moved = [(1.0 * after - before).ravel() for after, before in zip(buffers, start.buffers, strict=True)]
        found = np.concatenate([weights, *moved, [losses / steps]], dtype=weights.dtype, casting="unsafe")
        found *= steps
        return found


def batches_of(seed: int, round: int, place: int, samples: int, size: int) -> Iterator[IntArray]:
    """Yield the mini-batches of a place in a round: all samples in an order of its own, then again in another.

    >>> batches = batches_of(1, 0, 3, 5, 2)
    >>> sorted(np.concatenate([next(batches) for _ in range(5)]).tolist())
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    """
    rng, left = round_generator(seed, round, place), np.empty(0, dtype=np.int64)
    while True:
        while len(left) < size:
            left = np.concatenate([left, rng.permutation(samples)])
        yield left[:size]
        left = left[size:]
