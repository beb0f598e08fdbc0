"""The numbers of a model in one memory of a GPU: written once per step, opened once by every worker of the host."""

import pickle
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from echelon.clusters.cuda import Block, device_of

_ALIGN = 256  # bytes
Layout = tuple[tuple[int, torch.dtype, torch.Size], ...]  # offset, type and shape of each tensor


class DeviceNumbers:
    """Parameters and buffers of a model, as they were last written. Pickled, it is what another process opens it by.

    A worker that is late may read what belongs to a later step, in part or as a whole: what it computes from that is
    late, too, and is not used.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        layout, at = [], 0
        for tensor in tensors:
            layout.append((at, tensor.dtype, tensor.shape))
            at += -(-tensor.numel() * tensor.element_size() // _ALIGN) * _ALIGN
        self._layout = tuple(layout)
        self._block = Block(max(at, _ALIGN), device_of(tensors[0].device))
        by_type: dict[torch.dtype, list[int]] = {}
        for i, tensor in enumerate(tensors):
            by_type.setdefault(tensor.dtype, []).append(i)
        self._groups = list(by_type.values())
        self._event = torch.cuda.Event(interprocess=True)  # type: ignore[no-untyped-call]
        self.tensors = _views(self._block, self._layout)
        # once: it takes longer than all else that a step sends
        self._told = pickle.dumps((self._event.ipc_handle(), self._layout))  # type: ignore[no-untyped-call]

    @property
    def name(self) -> bytes:
        """What tells this memory from any other."""
        return self._block.payload

    def write(self, tensors: Sequence[Tensor]) -> None:
        """Take the numbers of a model; the device does it when it has done all that was asked of it before."""
        with torch.no_grad(), torch.cuda.device(self._block.device):
            for group in self._groups:
                torch._foreach_copy_([self.tensors[i] for i in group], [tensors[i] for i in group])
            self._event.record(torch.cuda.current_stream())

    def wait(self) -> None:
        """Have the current stream wait until the numbers are there."""
        torch.cuda.current_stream().wait_event(self._event)

    def open(self) -> "DeviceNumbers":
        """Return itself."""
        return self

    def __reduce__(self) -> Any:
        return Elsewhere, (self.name, self._told)


class Elsewhere:
    """The numbers of a model in another process of this host."""

    def __init__(self, name: bytes, told: bytes) -> None:
        self.name, self._told = name, told

    def open(self) -> "Opened":
        """Return them; to be done once."""
        return Opened(self.name, *pickle.loads(self._told))  # made by the master of this worker


class Opened:
    """The numbers of a model in the memory of another process."""

    def __init__(self, name: bytes, event: bytes, layout: Layout) -> None:
        self.name = name
        self._block = Block.opened(name)
        device = torch.device("cuda", self._block.device)
        self._event = torch.cuda.Event.from_ipc_handle(device, event)  # type: ignore[no-untyped-call]
        self.tensors = _views(self._block, layout)

    def wait(self) -> None:
        """Have the current stream wait until the numbers are there."""
        torch.cuda.current_stream().wait_event(self._event)


def _views(block: Block, layout: Layout) -> list[Tensor]:
    flat = block.tensor()
    return [flat[at : at + shape.numel() * dtype.itemsize].view(dtype).view(shape) for at, dtype, shape in layout]
