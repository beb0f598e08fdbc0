"""Stamps of all ranks, gathered without waiting: through the process group that reduces the gradients."""

import logging
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from echelon.arrays import FloatArray
from echelon.torch.stamping import Row

log = logging.getLogger("echelon.torch")


class Exchange:
    """One gather at a time: begun in one step, and read in a later one.

    All ranks must begin it between the same two collectives of the group, with equally many rows.
    """

    def __init__(self, group: Any, device: torch.device) -> None:
        self._group, self._device = group, device
        self._size = dist.get_world_size(group)
        # a future of the rows of all ranks, on the host, and of the event that they are there; None where no gather is
        # on its way
        self._found: Any = None

    def begin(self, rows: list[Row]) -> None:
        """Send this rank's rows to all, and return at once."""
        assert self._found is None
        on_device = self._device.type == "cuda"  # which then writes into memory of the host that it can reach
        sent = torch.tensor(rows, dtype=torch.float32, pin_memory=on_device).to(self._device, non_blocking=True)
        found = [torch.empty_like(sent) for _ in range(self._size)]
        work = dist.all_gather(found, sent, group=self._group, async_op=True)
        self._found = work.get_future().then(partial(_landed, found))

    def end(self, *, wait: bool) -> FloatArray | None:
        """Return the stamps of the last gather, shape (steps, ranks, 4); None where none has arrived.

        wait: for one that is on its way.
        """
        if self._found is None or not (wait or self._ready()):
            return None
        future, self._found = self._found, None
        try:
            stamps, copied = future.wait()
        except RuntimeError as error:  # a rank is gone, as the reduce will say as well
            log.warning("stamps of some steps are lost: %s", error)
            return None
        if copied is not None:
            copied.synchronize()
        array: FloatArray = stamps.cpu().numpy().astype("float64")
        return array

    def _ready(self) -> bool:
        if not self._found.done():
            return False
        try:
            _, copied = self._found.value()
        except RuntimeError:
            return True
        return copied is None or bool(copied.query())


def _landed(found: list[Tensor], future: Any) -> tuple[Tensor, Any]:
    """Bring what was gathered to the host; on a GPU, without waiting for it.

    A thread of the process group drops this call, so it must not hold the group, which can't be ended from there.
    """
    future.value()  # raises what went wrong
    stamps = torch.stack(found, dim=1)
    if not stamps.is_cuda:
        return stamps, None
    host = torch.empty(stamps.shape, pin_memory=True)
    host.copy_(stamps, non_blocking=True)
    return host, torch.cuda.current_stream(stamps.device).record_event()
