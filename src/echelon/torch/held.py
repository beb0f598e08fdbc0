"""Data that is there as a whole: arrays, which reach workers once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from echelon.torch import structures
from echelon.torch.minibatches import Minibatches
from echelon.torch.sources import At, Batch, Source


class Held(Source):
    """Samples of arrays, or of a structure of arrays. Workers that compute on a GPU copy them there once."""

    batches: Minibatches
    checked = True

    def __init__(self, data: Any, batches: Minibatches) -> None:
        self._data, self.batches = data, batches
        self._there: dict[torch.device, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_there": {}}

    def whole(self, at: At) -> int | None:
        """Return how many samples a step has."""
        return len(self.batches.batch(at.step))

    def read(self, at: At, chunks: Sequence[int]) -> Batch | None:
        """Return some chunks, by one look-up."""
        return self.load(at, chunks, torch.device("cpu"))

    def load(self, at: At, chunks: Sequence[int], device: torch.device) -> Batch | None:
        """Return the same from the memory of a device."""
        numbers = [self.batches.chunk(at.step, chunk, at.cuts) for chunk in chunks]
        every, sizes = np.concatenate(numbers), tuple(map(len, numbers))
        if device.type == "cpu":
            return Batch(structures.tensors(structures.taken(self._data, every)), sizes)
        if device not in self._there:
            self._there[device] = structures.moved(structures.tensors(self._data), device)
        return Batch(structures.taken(self._there[device], torch.from_numpy(every).to(device)), sizes)
