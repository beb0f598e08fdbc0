"""Data that workers read when they need it: the items of a map-style Dataset.

An item is read with Python's, NumPy's and torch's generators seeded by (seed, epoch, index), so that transforms draw
anew in every epoch, and all workers that read it draw the same. For the same reason chunks are put together one by one,
each with the draws of its first item.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from echelon.errors import ArgumentError
from echelon.seeds import place_generator
from echelon.torch import structures
from echelon.torch.minibatches import Minibatches
from echelon.torch.seeding import taking_turns
from echelon.torch.sources import At, Batch, Source, gathered

_DRAWS = 10**11  # from here on, generators of a seed are for these draws
_SEEDS = 2**39  # of them, each for the items of an epoch


class Items(Source):
    """Items of a dataset, put together by `collate`."""

    batches: Minibatches

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any], batches: Minibatches, seed: int) -> None:
        self._dataset, self._collate, self.batches, self._seed = dataset, collate, batches, seed

    def whole(self, at: At) -> int | None:
        """Return how many samples a step has."""
        return len(self.batches.batch(at.step))

    def read(self, at: At, chunks: Sequence[int]) -> Batch | None:
        """Read some chunks, item by item."""
        numbers = [self.batches.chunk(at.step, chunk, at.cuts).tolist() for chunk in chunks]
        with drawing(self._seed, at.step // self.batches.per_epoch) as seeded:
            return gathered([self._chunk(some, seeded) if some else None for some in numbers])

    def _chunk(self, numbers: Sequence[int], seeded: Callable[[int], None]) -> Any:
        found = []
        for number in numbers:
            seeded(number)
            found.append(self._dataset[number])
        seeded(numbers[0])
        return collated(self._collate, found)


def collated(collate: Callable[[list[Any]], Any], items: list[Any]) -> Any:
    """Return items as a batch of tensors, with each of them one sample."""
    samples = structures.tensors(collate(items))
    if structures.count(samples) != len(items):
        raise ArgumentError(
            f"collate: it made {structures.count(samples)} samples of {len(items)} items, which is not allowed; "
            "must keep them along the first axis"
        )
    return samples


@contextmanager
def drawing(seed: int, epoch: int) -> Iterator[Callable[[int], None]]:
    """Give a function that seeds all generators for one item; afterwards they are as they were.

    >>> with drawing(1, epoch=0) as seeded:
    ...     seeded(5)
    ...     first = random.random(), float(np.random.rand()), float(torch.rand(()))
    ...     seeded(5)
    ...     first == (random.random(), float(np.random.rand()), float(torch.rand(())))
    True
    """

    own = int(place_generator(seed, _DRAWS + epoch).integers(_SEEDS))

    def seeded(number: int) -> None:
        drawn = int(place_generator(own, number).integers(2**32))
        random.seed(drawn)
        np.random.seed(drawn)  # noqa: NPY002  transforms draw from it
        torch.default_generator.manual_seed(drawn)

    with taking_turns():
        kept = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
        try:
            yield seeded
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])  # noqa: NPY002
            torch.set_rng_state(kept[2])
