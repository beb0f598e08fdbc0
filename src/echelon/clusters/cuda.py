"""Memory of a GPU that processes of one host share: CUDA IPC, opened once, and sums where the messages lie.

Blocks are allocated by the driver's own calls, not from torch's pool: a block is then exported whole, and given back
when the last tensor that lies in it is gone, on both sides.
"""

import ctypes
import itertools
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from echelon.arrays import FloatArray, NumberArray
from echelon.errors import ClusterError

if TYPE_CHECKING:
    from torch import Tensor

_HANDLE = 64  # bytes of an IPC handle
_PAYLOAD = struct.Struct(f"<qqqi{_HANDLE}s")  # process, number of the block, bytes, device, handle
PAYLOAD = _PAYLOAD.size
_PEER_ACCESS = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
_numbers = itertools.count(1)


class NotShared(ClusterError):
    """Memory of a GPU can't be shared with another process here."""


class _IpcHandle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * _HANDLE),)


@cache
def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NotShared(f"CUDA's driver can't be loaded: {error}") from error


def _call(name: str, *arguments: Any) -> None:
    code = getattr(_driver(), name)(*arguments)
    if code:
        raise NotShared(f"{name} failed with CUDA error {code}")


@contextmanager
def _on(device: int) -> Iterator[None]:
    """Make torch's context of a device the current one."""
    number, context = ctypes.c_int(), ctypes.c_void_p()
    _call("cuInit", 0)
    _call("cuDeviceGet", ctypes.byref(number), device)
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
    try:
        _call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            _call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
    finally:
        _driver().cuDevicePrimaryCtxRelease_v2(number)


class Block:
    """Memory of a device: our own, or opened from the payload of another process. It lasts as long as its tensors.

    payload: what another process opens it by.
    """

    def __init__(self, nbytes: int, device: int, payload: bytes | None = None) -> None:
        self.nbytes, self.device, self._own = nbytes, device, payload is None
        self._at = ctypes.c_uint64()
        with _on(device):
            handle = _IpcHandle()
            if payload is None:
                _call("cuMemAlloc_v2", ctypes.byref(self._at), ctypes.c_size_t(nbytes))
                _call("cuIpcGetMemHandle", ctypes.byref(handle), self._at)
                raw = ctypes.string_at(ctypes.byref(handle), _HANDLE)
                self.payload = _PAYLOAD.pack(os.getpid(), next(_numbers), nbytes, device, raw)
            else:
                ctypes.memmove(ctypes.byref(handle), _PAYLOAD.unpack(payload)[-1], _HANDLE)
                self.payload = payload
                _call("cuIpcOpenMemHandle_v2", ctypes.byref(self._at), handle, ctypes.c_uint(_PEER_ACCESS))

    @classmethod
    def opened(cls, payload: bytes) -> "Block":
        """Return the memory of another process."""
        _, _, nbytes, device, _ = _PAYLOAD.unpack(payload)
        return cls(nbytes, device, payload)

    def tensor(self) -> "Tensor":
        """Return its bytes as a tensor, which holds it."""
        import torch

        return torch.as_tensor(_Interface(self), device=f"cuda:{self.device}")

    def __del__(self) -> None:
        if getattr(self, "_at", None):
            give_back = "cuMemFree_v2" if self._own else "cuIpcCloseMemHandle"
            try:
                with _on(self.device):
                    getattr(_driver(), give_back)(self._at)
            except Exception:  # the process ends, and its memory with it
                return


class _Interface:
    """A block as torch takes it over without a copy."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.__cuda_array_interface__ = {
            "shape": (block.nbytes,), "typestr": "|u1", "data": (block._at.value, False), "version": 3,
        }  # fmt: skip


def numbers(memory: "Tensor", dtype: str, count: int) -> "Tensor":
    """Return the first numbers in a memory of bytes."""
    import torch

    return memory[: count * np.dtype(dtype).itemsize].view(getattr(torch, dtype))


class Lending:
    """Blocks that a worker process lends to its master, by the number of a ticket that says when one is free again.

    lent: says whether the master has what lies in the block of a ticket, or is about to get it.
    """

    def __init__(self, lent: Callable[[int], bool]) -> None:
        self._lent = lent
        self._blocks: dict[int, Block] = {}
        self._ending: set[int] = set()  # tickets whose blocks are given back as soon as they are free

    def __len__(self) -> int:
        return len(self._blocks)

    def take(self, ticket: int, nbytes: int, device: int) -> Block:
        """Return the block of a ticket, which is free."""
        self._ending.discard(ticket)
        known = self._blocks.get(ticket)
        if known is None or known.nbytes != nbytes or known.device != device:
            self._blocks.pop(ticket, None)
            known = self._blocks[ticket] = Block(nbytes, device)
        return known

    def forget(self) -> None:
        """Give all back; what the master has of other jobs, when it is free: see `tidy`."""
        self._ending = set(self._blocks)
        self.tidy()

    def tidy(self) -> None:
        """Give back what has become free since it was to be forgotten."""
        for ticket in [ticket for ticket in self._ending if not self._lent(ticket)]:
            self._ending.discard(ticket)
            del self._blocks[ticket]


def empty(dtype: "np.dtype[Any]", count: int, device: Any) -> Any:
    """Return a tensor on a device, from torch's own memory."""
    import torch

    return torch.empty(count, dtype=getattr(torch, dtype.name), device=device)


def device_of(device: Any) -> int:
    """Return the number of a torch device."""
    import torch

    return torch.cuda.current_device() if device.index is None else int(device.index)


def add_up(
    weights: NumberArray, messages: "Sequence[Tensor | NumberArray]", told: FloatArray | None
) -> tuple["Tensor", float, FloatArray]:
    """Return the weighted sum of messages, by kernels on the device where the first of them lies that is on one, its
    largest number, and those of the messages, as they are `told` or else found here. The messages are read by then.
    """
    import torch

    device = next(message.device for message in messages if isinstance(message, torch.Tensor))
    there = [torch.as_tensor(message).to(device) for message in messages]
    values, used = weights.tolist(), np.flatnonzero(weights).tolist()
    out = there[used[0]] * values[used[0]] if used else torch.zeros_like(there[0])
    for i in used[1:]:
        out.add_(there[i], alpha=values[i])
    if told is not None and len(used) == 1 and abs(values[used[0]]) <= 1:  # what is finite stays so
        out[:1].tolist()  # waits for the device
        return out, abs(values[used[0]]) * float(told[used[0]]), told
    wanted = [out, *there] if told is None else [out]
    found = torch.stack([torch.linalg.vector_norm(some, float("inf")) for some in wanted]).tolist()
    return out, found[0], np.array(found[1:]) if told is None else told
