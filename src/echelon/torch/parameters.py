"""A model as numbers that change from step to step, and a hull without numbers that computes with those it is given.

The state of a step is the model's parameters and buffers, as they lie in its own memory, the step, the model's switches
(which modules train, which parameters are trained), and those settings of its modules that are not the hull's any more:
attributes that are numbers, texts, truth values or None, such as the rate of dropout. The hull has the structure of the
model alone, on the meta device: it travels to the workers once, the state with every step.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import chain
from operator import attrgetter, is_
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from echelon.arrays import NumberArray
from echelon.clusters.shipping import BESIDE
from echelon.errors import ArgumentError
from echelon.torch.device_numbers import DeviceNumbers, Elsewhere
from echelon.torch.pages import Pages, writable
from echelon.torch.seeding import Asking
from echelon.torch.sources import At

_PLAIN = (bool, int, float, str, type(None))
_DICTS = 4
_look = attrgetter("dtype", "shape", "device", "requires_grad")  # of a tensor
_WRITES = (
    "model: its forward pass writes into {}, which is not allowed; what a worker writes is lost, and other workers "
    "would not agree (eval() helps where only training does so)"
)


class State(NamedTuple):
    """What the gradient of a step is computed from; see the module.

    tensors: parameters and buffers, in the model's order, as flat arrays; bfloat16 as whole numbers of its two bytes.
    at: which samples. shared: `tensors` in the memory of a GPU, where workers can open that; then those are none.
    scale: by which losses are multiplied before they are passed back. changed: settings that are not those of the hull.
    asking: whether somebody still waits for what is computed.
    """

    tensors: tuple[Any, ...]
    at: At
    trains: bytes  # by module
    trained: bytes  # by parameter
    asking: Asking
    shared: "DeviceNumbers | Elsewhere | None" = None
    scale: float = 1.0
    changed: "tuple[Setting, ...]" = ()


class Setting(NamedTuple):
    """An attribute of a module, which is told by its number."""

    module: int
    name: str
    value: bool | int | float | str | None


class Walk:
    """What one walk over a model finds: it takes a while, and as a rule the next would find the same.

    tensors: parameters and buffers. trained: the parameters that are trained.
    tracked: the buffers that collect statistics over batches, as BatchNorm does while it trains.
    mixes: whether it normalises over the samples of a batch.
    shapes: names, types and shapes of all: models that agree in these can share states.
    switches: which modules are in training mode, and which parameters are trained.
    kinds, settings: the types of modules, and their attributes that are numbers, texts, truth values or None.
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = list(model.modules())
        self._parts = [part for module in self._modules for part in _parts(module)]
        self._held = list(self._holds())
        self.kinds = list(map(type, self._modules))
        self.settings = list(map(_settings, self._modules))
        named, weights = list(_tensors(model)), list(model.parameters())
        self.tensors = [tensor for _, tensor in named]
        self.shapes = [(name, tensor.dtype, tensor.shape) for name, tensor in named]
        self._looks = list(map(_look, self.tensors))
        self.tracked = tracked(model)
        self.mixes = any(map(mixes, self._modules))
        self.trained = [weight for weight in weights if weight.requires_grad]
        self.switches = (
            bytes(module.training for module in self._modules),
            bytes(weight.requires_grad for weight in weights),
        )

    def same(self) -> bool:
        """Return whether another walk would find the same; numbers are not looked at."""
        alike = sum(map(len, self._parts)) == len(self._held) and all(map(is_, self._holds(), self._held))
        own = all(map(is_, map(vars, self._modules), self._parts[::_DICTS]))
        kinds, looks = list(map(type, self._modules)), list(map(_look, self.tensors))
        return alike and own and kinds == self.kinds and looks == self._looks

    def _holds(self) -> Iterator[Any]:
        return chain.from_iterable(map(dict.values, self._parts))


def _parts(module: nn.Module) -> tuple[dict[str, Any], ...]:
    """Return the dicts of what a module holds, `_DICTS` of them; its own is the first."""
    return vars(module), module._parameters, module._buffers, module._modules


def _settings(module: nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if isinstance(value, _PLAIN) and name != "training"}


def changed(walk: Walk, first: Sequence[Mapping[str, Any]]) -> tuple[Setting, ...]:
    """Return the settings of a model that are not what they were at first.

    >>> model = nn.Dropout(0.1)
    >>> first, model.p = Walk(model).settings, 0.2
    >>> changed(Walk(model), first)
    (Setting(module=0, name='p', value=0.2),)
    """
    return tuple(
        Setting(number, name, value)
        for number, (now, before) in enumerate(zip(walk.settings, first, strict=True))
        for name, value in now.items()
        if name not in before or type(before[name]) is not type(value) or before[name] != value
    )


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


def tracked(model: nn.Module) -> list[Tensor]:
    """Return the buffers into which modules that normalise write while they train.

    >>> [buffer.shape.numel() for buffer in tracked(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))]
    [2, 2, 1]
    """
    return [
        buffer
        for module in model.modules()
        if isinstance(module, _NormBase) and module.training and module.track_running_stats
        for buffer in module.buffers(recurse=False)
    ]


def state(walk: Walk, at: At, shared: DeviceNumbers | None = None, scale: float = 1.0) -> State:
    """Return the state of a model, in its own memory where it lies on the host; in a GPU's where that is shared."""
    if shared is None:
        return State(tuple(map(_numbers, walk.tensors)), at, *walk.switches, Asking(), None, scale)
    shared.write(walk.tensors)
    return State((), at, *walk.switches, Asking(), shared, scale)


def _numbers(tensor: Tensor) -> NumberArray:
    flat = tensor.detach().reshape(-1).cpu()
    found: NumberArray = (flat.view(torch.int16) if flat.dtype == torch.bfloat16 else flat).numpy()
    return found


class Loaded:
    """A hull with the numbers of a state.

    wanted: the parameters that are trained, leaves of a graph. mixes: whether samples of a batch depend on each other.
    tracks: how many numbers it collects over batches.

    Parameters in the memory of a GPU that is shared are views of it: a forward pass that writes into them past torch's
    own count (through ``.data``) is not noticed there, and reaches other workers.

    pages: where the state's large arrays lie, if parameters may be views of them; else all is copied. It serves any
    state with the same switches whose arrays lie there, too.
    """

    def __init__(
        self,
        model: nn.Module,
        given: State,
        tensors: Sequence[Any],
        device: torch.device,
        pages: Pages | None,
        compiled: Mapping[str, Any] | None,
    ) -> None:
        self._pages, self._held = pages, tensors
        self._copies: list[tuple[int, Tensor]] = []  # by their number in the state
        instead = {}
        for i, ((_, tensor), numbers) in enumerate(zip(_tensors(model), tensors, strict=True)):
            parameter = isinstance(tensor, nn.Parameter)
            if parameter and isinstance(numbers, Tensor) and numbers.device == device:
                placed = numbers
            elif pages is not None and parameter and is_large(numbers):
                placed = _tensor(numbers, tensor.dtype)
            else:
                placed = _tensor(numbers, tensor.dtype).to(device, copy=True)
                self._copies.append((i, placed))
            instead[tensor] = placed.view(tensor.shape)
        self._model = _with(model, instead)
        for module, trains in zip(self._model.modules(), given.trains, strict=True):
            module.training = bool(trains)
        weights = list(self._model.parameters())
        for weight, trained in zip(weights, given.trained, strict=True):
            weight.requires_grad_(bool(trained))
        self.wanted = [weight for weight in weights if weight.requires_grad]
        for number, weight in enumerate(self.wanted):
            weight.register_post_accumulate_grad_hook(partial(self._found, number))  # type: ignore[no-untyped-call]
        self._found_by: Callable[[int], None] | None = None
        self._changed: tuple[Setting, ...] = ()
        self._first: list[tuple[dict[str, Any], str, Any]] = []  # settings of the hull in place of which others are
        self._settle(given.changed)
        self._call = self._model if compiled is None else torch.compile(self._model, **compiled)
        self._note()

    def _settle(self, changed: tuple[Setting, ...]) -> None:
        """Take over settings, in place of those of the hull."""
        for held, name, value in self._first:
            held[name] = value
        modules = list(self._model.modules())
        places = [(vars(modules[number]), name) for number, name, _ in changed]
        self._first = [(held, name, held[name]) for held, name in places if name in held]
        for (held, name), (_, _, value) in zip(places, changed, strict=True):
            held[name] = value
        self._changed = changed
        self.mixes = any(map(mixes, modules))
        self._tracked = tracked(self._model)
        self.tracks = sum(buffer.numel() for buffer in self._tracked)
        written = set(map(id, self._tracked))
        self._still = [tensor for _, tensor in _tensors(self._model) if id(tensor) not in written]

    def fill(self, tensors: Sequence[Any], changed: tuple[Setting, ...] = ()) -> None:
        """Take the numbers and the settings of another state."""
        self._held = tensors
        if changed != self._changed:
            self._settle(changed)
        with torch.no_grad():
            for number, tensor in self._copies:
                tensor.copy_(_tensor(tensors[number], tensor.dtype).view(tensor.shape))
        self._note()

    def _note(self) -> None:
        self._versions = self._written()
        self._before = [buffer.clone() for buffer in self._tracked]

    def backward(self, loss: Tensor, found: Callable[[int], None]) -> None:
        """Pass back from a loss; `found` is called with the number of each weight as soon as its gradient is known.

        What the model collected in the pass forward is taken back.
        """
        self._found_by = found
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        finally:
            self._found_by = None
            with torch.no_grad():
                for buffer, before in zip(self._tracked, self._before, strict=True):
                    buffer.copy_(before)

    def _found(self, number: int, weight: nn.Parameter) -> None:
        assert self._found_by is not None
        self._found_by(number)

    def __call__(self, inputs: Any) -> Any:
        """Return the outputs of the model; a dict goes in by name, a tuple or list by position."""
        if isinstance(inputs, Mapping):
            outputs = self._call(**inputs)
        elif isinstance(inputs, tuple | list):
            outputs = self._call(*inputs)
        else:
            outputs = self._call(inputs)
        if self._written() != self._versions:
            self._restore()
            raise ArgumentError(_WRITES.format("buffers or parameters"))
        return outputs

    def statistics(self) -> list[Tensor]:
        """Return by how much the last forward pass has changed what it collects."""
        return [(buffer - before).reshape(-1) for buffer, before in zip(self._tracked, self._before, strict=True)]

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
        return [tensor._version for tensor in self._still]


def mixes(module: nn.Module) -> bool:
    """Return whether a module normalises by the samples of its batch.

    >>> mixes(nn.BatchNorm1d(3)), mixes(nn.BatchNorm1d(3).eval()), mixes(nn.GroupNorm(1, 3))
    (True, False, False)
    """
    return isinstance(module, _BatchNorm) and (module.training or not module.track_running_stats)


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def is_large(numbers: Any) -> bool:
    """Return whether numbers are an array that lies beside the pickle of its state."""
    return isinstance(numbers, np.ndarray) and numbers.nbytes >= BESIDE


def _tensor(numbers: Any, dtype: torch.dtype) -> Tensor:
    """Return numbers as a tensor, to be read only."""
    if not isinstance(numbers, np.ndarray):
        assert isinstance(numbers, Tensor)
        return numbers
    found = torch.from_numpy(numbers if numbers.flags.writeable else writable(numbers))
    return found.view(dtype) if dtype == torch.bfloat16 else found
