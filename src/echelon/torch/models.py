"""The model on a worker: a hull with the numbers of a state, kept from round to round."""

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from echelon.arrays import NumberArray
from echelon.torch.device_numbers import DeviceNumbers, Elsewhere, Opened
from echelon.torch.pages import Pages
from echelon.torch.parameters import Loaded, State, is_large

_KNOWN = 8  # states that are kept as models; a stream has two or three in turn
_Key = tuple[int | bytes, torch.device, bytes, bytes]  # where a state lies, 0 for a copy; device and switches


class Models:
    """A model as it is in any state. hull: see `parameters`. compiled: options of `torch.compile`, or None."""

    def __init__(self, hull: nn.Module, compiled: Mapping[str, Any] | None = None) -> None:
        self._hull, self._compiled = hull, compiled
        self._known: dict[_Key, Loaded] = {}
        self._loaded: dict[torch.device, tuple[weakref.ref[NumberArray], Loaded]] = {}  # of this round
        self._opened: dict[bytes, DeviceNumbers | Opened] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": {}, "_loaded": {}, "_opened": {}}

    def of(self, state: State, device: torch.device) -> Loaded:
        """Return the model with the numbers of a state, taken over once per round."""
        if state.shared is not None:
            return self._shared(state, state.shared, device)
        known, lies = self._loaded.get(device), _memory(state.tensors[0])
        if known is not None and known[0]() is lies:
            return known[1]
        large = [numbers for numbers in state.tensors if is_large(numbers)]
        copied = device.type != "cpu" or not large or any(numbers.flags.writeable for numbers in large)
        if self._compiled is not None:
            copied = True  # states lie in several places in turn, and each would be compiled
        pages = None if copied else Pages(large)
        key = 0 if pages is None else pages.start, device, state.trains, state.trained
        if key not in self._known and pages is not None and not pages.apart():
            key, pages = (0, device, state.trains, state.trained), None
        loaded = self._made(key, state, state.tensors, device, pages)
        self._loaded[device] = weakref.ref(lies), loaded
        return loaded

    def _shared(self, state: State, shared: DeviceNumbers | Elsewhere, device: torch.device) -> Loaded:
        """Return the model with numbers that lie in the memory of a GPU."""
        if shared.name not in self._opened:
            self._opened[shared.name] = shared.open()
        opened = self._opened[shared.name]
        opened.wait()
        return self._made((shared.name, device, state.trains, state.trained), state, opened.tensors, device, None)

    def _made(
        self, key: _Key, state: State, tensors: Sequence[Any], device: torch.device, pages: Pages | None
    ) -> Loaded:
        if key in self._known:
            self._known[key].fill(tensors, state.changed)
            return self._known[key]
        if len(self._known) >= _KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[key] = Loaded(self._hull, state, tensors, device, pages, self._compiled)
        return self._known[key]


def _memory(array: NumberArray) -> NumberArray:
    """Return the array that another is a view of, if it is one: threads get views of their own of one state."""
    return array.base if isinstance(array.base, np.ndarray) else array
