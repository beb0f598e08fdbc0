"""A model as numbers that change from step to step, and a hull without numbers that computes with those it is given.

The state of a step is the model's parameters and buffers, as they lie in its own memory, the step, and the model's
switches (which modules train, which parameters are trained). The hull has the model's structure alone, on the meta
device: it travels to the workers once, the state with every step.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from echelon.clusters.shipping import BESIDE
from echelon.errors import ArgumentError
from echelon.torch.device_numbers import DeviceNumbers, Elsewhere
from echelon.torch.pages import Pages, writable

_WRITES = (
    "model: its forward pass writes into {}, which is not allowed; what a worker writes is lost, and other workers "
    "would not agree (eval() helps where only training does so)"
)


class State(NamedTuple):
    """What the gradient of a step is computed from; see the module.

    tensors: parameters and buffers, in the model's order: flat arrays, or tensors where NumPy has no such type.
    shared: the same in the memory of a GPU, where workers can open that; then `tensors` are none.
    """

    tensors: tuple[Any, ...]
    step: int
    trains: bytes  # by module
    trained: bytes  # by parameter
    shared: "DeviceNumbers | Elsewhere | None" = None


class Walk:
    """What one walk over a model finds: it takes a while, and as a rule the next would find the same.

    tensors: parameters and buffers. trained: the parameters that are trained.
    shapes: names, types and shapes of all: models that agree in these can share states.
    switches: which modules are in training mode, and which parameters are trained.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = list(model.modules())
        self._held = list(map(_held, self._modules))
        named, weights = list(_tensors(model)), list(model.parameters())
        self.tensors = [tensor for _, tensor in named]
        self.shapes = [(name, tensor.dtype, tensor.shape) for name, tensor in named]
        self._looks = list(map(_look, self.tensors))
        self.trained = [weight for weight in weights if weight.requires_grad]
        self.switches = (
            bytes(module.training for module in self._modules),
            bytes(weight.requires_grad for weight in weights),
        )

    def same(self) -> bool:
        """Return whether another walk would find the same; numbers are not looked at."""
        return list(map(_look, self.tensors)) == self._looks and list(map(_held, self._modules)) == self._held


def _held(module: nn.Module) -> tuple[int, ...]:
    """Return what a module holds; all of it is alive as long as its walk, so that no number is used again."""
    return (
        module.training, *map(id, module._parameters.values()), *map(id, module._buffers.values()),
        *map(id, module._modules.values()),
    )  # fmt: skip


def _look(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.shape, tensor.device, tensor.requires_grad


def hull(model: nn.Module) -> nn.Module:
    """Return the model without its numbers."""
    instead = {tensor: torch.empty_like(tensor, device="meta") for _, tensor in _tensors(model)}
    try:
        return _with(model, instead)
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(f"model: it can't be copied for the workers: {error}") from error


def _with(model: nn.Module, instead: dict[Tensor, Tensor]) -> nn.Module:
    """Return a copy of a model with other tensors in place of its parameters and buffers."""
    memo: dict[int, Any] = {}
    for tensor, other in instead.items():
        kept = isinstance(tensor, nn.Parameter)
        memo[id(tensor)] = nn.Parameter(other, tensor.requires_grad) if kept else other
    return deepcopy(model, memo)


def state(walk: Walk, step: int, shared: DeviceNumbers | None = None) -> State:
    """Return the state of a model, in its own memory where it lies on the host; in a GPU's where that is shared."""
    if shared is None:
        return State(tuple(map(_numbers, walk.tensors)), step, *walk.switches)
    shared.write(walk.tensors)
    return State((), step, *walk.switches, shared)


def _numbers(tensor: Tensor) -> Any:
    flat = tensor.detach().reshape(-1).cpu()
    return flat if flat.dtype == torch.bfloat16 else flat.numpy()


class Loaded:
    """A hull with the numbers of a state. wanted: the parameters that are trained, leaves of a graph.

    Parameters in the memory of a GPU that is shared are views of it: a forward pass that writes into them past torch's
    own count (through ``.data``) is not noticed there, and reaches other workers.

    pages: where the state's large arrays lie, if parameters may be views of them; else all is copied. It serves any
    state with the same switches whose arrays lie there, too.
    """

    def __init__(
        self, model: nn.Module, given: State, tensors: Sequence[Any], device: torch.device, pages: Pages | None
    ) -> None:
        self._pages, self._held = pages, tensors
        self._copies: list[tuple[int, Tensor]] = []  # by their number in the state
        instead = {}
        for i, ((_, tensor), numbers) in enumerate(zip(_tensors(model), tensors, strict=True)):
            parameter = isinstance(tensor, nn.Parameter)
            if parameter and isinstance(numbers, Tensor) and numbers.device == device:
                placed = numbers
            elif pages is not None and parameter and is_large(numbers):
                placed = torch.from_numpy(writable(numbers))
            else:
                placed = _tensor(numbers).to(device, copy=True)
                self._copies.append((i, placed))
            instead[tensor] = placed.view(tensor.shape)
        self._model = _with(model, instead)
        for module, trains in zip(self._model.modules(), given.trains, strict=True):
            module.training = bool(trains)
        weights = list(self._model.parameters())
        for weight, trained in zip(weights, given.trained, strict=True):
            weight.requires_grad_(bool(trained))
        self.wanted = [weight for weight in weights if weight.requires_grad]
        for weight in self.wanted:
            weight.register_post_accumulate_grad_hook(self._found)  # type: ignore[no-untyped-call]
        self._found_by: Callable[[nn.Parameter], None] | None = None
        self._all = [tensor for _, tensor in _tensors(self._model)]
        self._versions = self._written()

    def fill(self, tensors: Sequence[Any]) -> None:
        """Take the numbers of another state."""
        self._held = tensors
        with torch.no_grad():
            for number, tensor in self._copies:
                tensor.copy_(_tensor(tensors[number]).view(tensor.shape))
        self._versions = self._written()

    def backward(self, loss: Tensor, found: Callable[[nn.Parameter], None]) -> None:
        """Pass back from a loss; `found` is called with each weight as soon as its gradient is known."""
        self._found_by = found
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        finally:
            self._found_by = None

    def _found(self, weight: nn.Parameter) -> None:
        assert self._found_by is not None
        self._found_by(weight)

    def __call__(self, inputs: Tensor) -> Any:
        """Return the outputs of the model."""
        outputs = self._model(inputs)
        if self._written() != self._versions:
            self._restore()
            raise ArgumentError(_WRITES.format("buffers or parameters"))
        return outputs

    def check(self) -> None:
        """Refuse what torch does not see: that a pass has written into the memory of parameters."""
        if self._pages is not None and self._pages.written():
            self._restore()
            raise ArgumentError(_WRITES.format("parameters"))

    def _restore(self) -> None:
        if self._pages is not None:
            self._pages.give_back()

    def _written(self) -> list[int]:
        """Return how often numbers were changed in place."""
        return [tensor._version for tensor in self._all]


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def is_large(numbers: Any) -> bool:
    """Return whether numbers are an array that lies beside the pickle of its state."""
    return isinstance(numbers, np.ndarray) and numbers.nbytes >= BESIDE


def _tensor(numbers: Any) -> Tensor:
    """Return numbers as a tensor, to be read only."""
    if not isinstance(numbers, np.ndarray):
        assert isinstance(numbers, Tensor)
        return numbers
    return torch.from_numpy(numbers if numbers.flags.writeable else writable(numbers))
