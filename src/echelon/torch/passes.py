"""Forward and backward passes over one chunk, by blocks of layers: what travels to the workers.

Layers are numbered in the order of back-propagation. Point 0 is the loss and point i the output of layer i, which layer
i - 1 takes; so the layers of a slice lie between the points of its start and its stop. One call of
`torch.autograd.grad` takes the derivative from a point where it is known to the weights of the slice and to the point
below; through layers that were not asked for it computes only deltas.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from echelon.arrays import NumberArray

Loss = Callable[[Tensor, Tensor], Tensor]


class Forward:
    """The forward pass of one chunk: its points, the weights it used, and the deltas that are known so far."""

    def __init__(self, points: list[Tensor], weights: list[list[Tensor]]) -> None:
        self.points, self.weights = points, weights
        self.deltas: dict[int, Tensor] = {0: torch.ones_like(points[0])}


class Passes:
    """Passes over the layers of a network, whose weights come as one vector with each request.

    layers: the modules of each layer, in the order of back-propagation.
    """

    def __init__(self, layers: Sequence[nn.Sequential], loss: Loss) -> None:
        self._layers, self._loss = nn.ModuleList(layers), loss
        self._loaded: tuple[weakref.ref[NumberArray], list[nn.Module], list[list[Tensor]]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_loaded": None}

    def forward(self, state: NumberArray, chunk: tuple[Any, Any]) -> Forward:
        """Return the forward pass of a chunk, inputs and targets."""
        modules, weights = self._load(state)
        inputs, targets = (_tensor(some) for some in chunk)
        points = [inputs]
        for module in reversed(modules):
            points.append(module(points[-1]))
        points[-1] = self._loss(points[-1], targets)
        return Forward(points[:0:-1], weights)

    def gradient(self, forward: Forward, chunk: Any, layers: slice) -> NumberArray:
        """Return the derivative by the weights of some layers, as one vector; note the delta below them."""
        below = forward.points[layers.stop : layers.stop + 1]
        weights = [weight for layer in forward.weights[layers] for weight in layer]
        found = self._derivatives(forward, layers.start, [*weights, *below])
        if below:
            forward.deltas[layers.stop] = found[-1]
        return np.asarray(torch.cat([part.reshape(-1) for part in found[: len(weights)]]).numpy())

    def delta(self, forward: Forward, layer: int) -> None:
        """Pass the delta through one layer, which is not the last, and forget it: to measure the cost."""
        self._derivatives(forward, layer, [forward.points[layer + 1]])

    def _derivatives(self, forward: Forward, top: int, wanted: list[Tensor]) -> tuple[Tensor, ...]:
        known = max(point for point in forward.deltas if point <= top)
        # the graph is kept: a row that another worker lost may ask for the same layers again
        return torch.autograd.grad(
            forward.points[known], wanted, forward.deltas[known], retain_graph=True, materialize_grads=True
        )

    def _load(self, state: NumberArray) -> tuple[list[nn.Module], list[list[Tensor]]]:
        """Return the layers with the weights of a state, made once per round.

        They are copies of the modules that share nothing that is written to, so that threads can work side by side.
        """
        loaded = self._loaded
        if loaded is None or loaded[0]() is not state:
            # copied: the memory of a state is reused for another one
            flat = torch.from_numpy(np.array(state))
            views = {weight: view.requires_grad_() for weight, view in pieces(flat, trained(self._layers))}
            kept = {some: some for some in (*self._layers.parameters(), *self._layers.buffers())}
            memo = {id(some): instead for some, instead in (kept | views).items()}
            modules = [deepcopy(layer, memo) for layer in self._layers]
            weights = [[views[weight] for weight in trained(layer)] for layer in self._layers]
            loaded = self._loaded = (weakref.ref(state), modules, weights)
        return loaded[1], loaded[2]


def trained(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters of a module that are trained."""
    return [weight for weight in module.parameters() if weight.requires_grad]


def pieces(flat: Tensor, weights: Sequence[nn.Parameter]) -> Iterator[tuple[nn.Parameter, Tensor]]:
    """Yield each of some parameters with its piece of a vector, in its shape."""
    at = 0
    for weight in weights:
        yield weight, flat[at : at + weight.numel()].view_as(weight)
        at += weight.numel()


def _tensor(values: Any) -> Tensor:
    # copied: arrays from shared memory can't be written to, which torch does not know
    return values if isinstance(values, Tensor) else torch.from_numpy(np.array(values))
