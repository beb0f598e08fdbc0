"""Data that is there as a whole: arrays, which reach workers once."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from echelon.torch import structures
from echelon.torch.minibatches import Minibatches
from echelon.torch.sources import At, Batch, Source

_Asked = tuple[At, tuple[int, ...], torch.device]


class Held(Source):
    """Samples of arrays, or of a structure of arrays. Workers that compute on a GPU copy them there once."""

    batches: Minibatches
    checked = True

    def __init__(self, data: Any, batches: Minibatches) -> None:
        self._data, self.batches = data, batches
        self._there: dict[torch.device, Any] = {}
        self._expected: dict[_Asked, Batch] = {}
        self._looks_ahead = True

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_there": {}, "_expected": {}}

    def whole(self, at: At) -> int | None:
        """Return how many samples a step has."""
        return len(self.batches.batch(at.step))

    def read(self, at: At, chunks: Sequence[int]) -> Batch | None:
        """Return some chunks, by one look-up."""
        return self.load(at, chunks, torch.device("cpu"))

    def load(self, at: At, chunks: Sequence[int], device: torch.device) -> Batch | None:
        """Return the same from the memory of a device."""
        found = self._expected.pop((at, tuple(chunks), device), None)
        return self._looked_up(at, chunks, device) if found is None else found

    def expect(self, at: At, chunks: Sequence[int], device: torch.device) -> None:
        """Look some chunks up in the memory of a device, and keep them until the step after theirs."""
        if not self._looks_ahead or not _works_alone(device):
            return
        for asked in list(self._expected):
            if asked[0].step not in (at.step - 1, at.step):
                del self._expected[asked]
        with suppress(torch.cuda.OutOfMemoryError):
            self._expected[at, tuple(chunks), device] = self._looked_up(at, chunks, device)

    def forget(self) -> bool:
        """Give back the memory of what was looked up ahead, and look nothing up ahead any more."""
        self._looks_ahead, kept = False, bool(self._expected)
        self._expected.clear()
        return kept

    def _looked_up(self, at: At, chunks: Sequence[int], device: torch.device) -> Batch:
        numbers = [self.batches.chunk(at.step, chunk, at.cuts) for chunk in chunks]
        every, sizes = np.concatenate(numbers), tuple(map(len, numbers))
        if device.type == "cpu":
            return Batch(structures.tensors(structures.taken(self._data, every)), sizes)
        if device not in self._there:
            self._there[device] = structures.moved(structures.tensors(self._data), device)
        there = torch.from_numpy(every).to(device, non_blocking=True)
        return Batch(structures.taken(self._there[device], there), sizes)


def _works_alone(device: torch.device) -> bool:
    """Return whether the host is free while a device works."""
    return device.type != "cpu"
