"""A model as numbers that change from step to step, and a hull without numbers that computes with those it is given.

The state of a step is one vector of all parameters and of the buffers of the same type, the step, the model's switches
(which modules train, which parameters are trained) and its other buffers. The hull has the model's structure alone, on
the meta device: it travels to the workers once, the state with every step.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from echelon.arrays import NumberArray
from echelon.errors import ArgumentError


class State(NamedTuple):
    """What the gradient of a step is computed from; see the module."""

    flat: NumberArray
    step: int
    trains: bytes  # by module
    trained: bytes  # by parameter
    others: tuple[Tensor, ...]


def shapes(model: nn.Module) -> list[tuple[str, torch.dtype, torch.Size]]:
    """Return names, types and shapes of parameters and buffers: models that agree in these can share states."""
    return [(name, tensor.dtype, tensor.shape) for name, tensor in _tensors(model)]


def switches(model: nn.Module) -> tuple[bytes, bytes]:
    """Return which modules are in training mode, and which parameters are trained."""
    modes = bytes(module.training for module in model.modules())
    return modes, bytes(weight.requires_grad for weight in model.parameters())


def hull(model: nn.Module) -> nn.Module:
    """Return the model without its numbers."""
    memo: dict[int, Any] = {}
    for _, tensor in _tensors(model):
        empty = torch.empty_like(tensor, device="meta")
        kept = isinstance(tensor, nn.Parameter)
        memo[id(tensor)] = nn.Parameter(empty, tensor.requires_grad) if kept else empty
    try:
        return deepcopy(model, memo)
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(f"model: it can't be copied for the workers: {error}") from error


def state(model: nn.Module, step: int) -> State:
    """Return the state of a model, a copy."""
    mine, others = _parted(model)
    device = mine[0][1].device
    flat = torch.cat([tensor.detach().reshape(-1).to(device) for _, tensor in mine])
    return State(
        np.asarray(flat.cpu().numpy()),
        step,
        *switches(model),
        tuple(tensor.detach().cpu().clone() for _, tensor in others),
    )


class Loaded:
    """A hull with the numbers of a state. wanted: the parameters that are trained, leaves of a graph."""

    def __init__(self, model: nn.Module, given: State, device: torch.device) -> None:
        self._model = model
        for module, trains in zip(model.modules(), given.trains, strict=True):
            module.training = bool(trains)
        mine, others = _parted(model)
        # copied: a state may lie in memory that can't be written to, which torch does not know
        self._flat = torch.from_numpy(np.array(given.flat)).to(device)
        self._others = [tensor.to(device, copy=True) for tensor in given.others]
        pieces = torch.functional.split(self._flat, [tensor.numel() for _, tensor in mine])
        views = [piece.view(tensor.shape) for piece, (_, tensor) in zip(pieces, mine, strict=True)]
        self.wanted = [view.requires_grad_() for view, trained in zip(views, given.trained, strict=False) if trained]
        self._tensors = dict(zip((name for name, _ in (*mine, *others)), (*views, *self._others), strict=True))
        self._versions = self._written()

    def __call__(self, inputs: Tensor) -> Any:
        """Return the outputs of the model."""
        outputs = functional_call(self._model, self._tensors, (inputs,))
        if self._written() != self._versions:
            raise ArgumentError(
                "model: its forward pass writes into buffers, which is not allowed; what a worker writes is lost, and "
                "other workers would not agree (eval() helps where only training does so)"
            )
        return outputs

    def _written(self) -> list[int]:
        """Return how often numbers were changed in place."""
        return [tensor._version for tensor in (self._flat, *self._others)]


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def _parted(model: nn.Module) -> tuple[list[tuple[str, Tensor]], list[tuple[str, Tensor]]]:
    """Return names and tensors of what is in the vector, parameters first, and of all others."""
    dtype = next(model.parameters()).dtype
    tensors = list(_tensors(model))
    return [one for one in tensors if one[1].dtype == dtype], [one for one in tensors if one[1].dtype != dtype]
