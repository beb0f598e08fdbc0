"""Data without an end or an index: chunks by a function of one's own, or the items of an IterableDataset.

Only who reads a chunk knows how many samples it has, so that every row carries its count.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from typing import Any

from echelon.errors import ArgumentError
from echelon.torch import structures
from echelon.torch.items import drawing
from echelon.torch.sources import At, Batch, Source


class Called(Source):
    """Chunks that ``batches(step, chunk)`` returns on the worker; None is a chunk without samples."""

    def __init__(self, batches: Callable[[int, int], Any]) -> None:
        self._batches = batches

    def whole(self, at: At) -> int | None:
        """Return None: each chunk has its own size."""
        return None

    def read(self, at: At, chunks: Sequence[int]) -> Batch | None:
        """Call the function for each chunk."""
        found = [structures.tensors(self._batches(at.step, chunk)) for chunk in chunks]
        return gathered(found)


def gathered(found: Sequence[Any]) -> Batch | None:
    """Return chunks as one batch; None where they can't be one."""
    sizes = tuple(0 if samples is None else structures.count(samples) for samples in found)
    there = [samples for samples, size in zip(found, sizes, strict=True) if size]
    if not there:
        return Batch(None, sizes)
    whole = structures.joined(there)
    return None if whole is None else Batch(whole, sizes)


class Iterated(Source):
    """The items of an IterableDataset, shared out among chunks by a rule that needs no index.

    Chunk c of C takes from ``dataset.shard(C, c)`` where the dataset can do that, and else every C-th item from the
    c-th on; of those, step t takes the t-th run of `size`. At the end it begins again, after ``set_epoch(epoch)`` where
    the dataset has that. A worker goes on where it was; asked for an earlier step, it starts from the beginning.
    """

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any], size: int, chunks: int, seed: int) -> None:
        self._dataset, self._collate, self._size, self._chunks, self._seed = dataset, collate, size, chunks, seed
        self._open: dict[int, tuple[int, Iterator[Any]]] = {}  # by chunk: the step that comes next

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_open": {}}

    def whole(self, at: At) -> int | None:
        """Return how many samples a step has."""
        return self._size * self._chunks

    def read(self, at: At, chunks: Sequence[int]) -> Batch | None:
        """Read on, to the items of some chunks."""
        found = [structures.tensors(self._collate(self._items(at.step, chunk))) for chunk in chunks]
        return gathered(found)

    def _items(self, step: int, chunk: int) -> list[Any]:
        after, items = self._open.pop(chunk, (0, None))
        if items is None or step < after:
            after, items = 0, self._endless(chunk)
        with drawing(self._seed, chunk) as seeded:
            found = []
            for number in range(after * self._size, (step + 1) * self._size):
                seeded(number)
                one = next(items)
                if number >= step * self._size:
                    found.append(one)
        self._open[chunk] = step + 1, items
        return found

    def _endless(self, chunk: int) -> Iterator[Any]:
        for epoch in count():
            if hasattr(self._dataset, "set_epoch"):
                self._dataset.set_epoch(epoch)
            if hasattr(self._dataset, "shard"):
                items = iter(self._dataset.shard(self._chunks, chunk))
            else:
                items = islice(self._dataset, chunk, None, self._chunks)
            found = 0
            for item in items:
                yield item
                found += 1
            if not found:
                raise ArgumentError(
                    f"data: chunk {chunk} of {self._chunks} has no items, which is not allowed; the dataset must have "
                    "at least one per chunk, or chunks= be fewer"
                )
