"""Data without an end or an index: chunks by a function of one's own, or the items of an IterableDataset."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import count, islice
from typing import Any

from echelon.errors import ArgumentError
from echelon.torch import structures
from echelon.torch.items import collated, drawing
from echelon.torch.sources import At, Batch, Source, gathered


class Called(Source):
    """Chunks that ``batches(step, chunk)`` returns on the worker; None is a chunk without samples.

    Only who reads a chunk knows how many samples it has, so that every row carries its count. Python's, NumPy's and
    torch's generators are seeded by (seed, step, chunk).
    """

    def __init__(self, batches: Callable[[int, int], Any], seed: int) -> None:
        self._batches, self._seed = batches, seed

    def whole(self, at: At) -> int | None:
        """Return None: each chunk has its own size."""
        return None

    def read(self, at: At, chunks: Sequence[int]) -> Batch | None:
        """Call the function for each chunk."""
        found = []
        with drawing(self._seed, at.step) as seeded:
            for chunk in chunks:
                seeded(chunk)
                found.append(structures.tensors(self._batches(at.step, chunk)))
        return gathered(found)


class Iterated(Source):
    """The items of an IterableDataset, shared out among chunks by a rule that needs no index.

    Chunk c of C takes from ``dataset.shard(C, c)`` where the dataset can do that, and else every C-th item from the
    c-th on; of those, step t takes the t-th run of `size`. At the end it begins again, after ``set_epoch(epoch)`` where
    the dataset has that. A worker goes on where it was; asked for an earlier step, it starts from the beginning. Each
    chunk iterates over a shallow copy of its own, since several are under way at once.
    """

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any], size: int, chunks: int, seed: int) -> None:
        self._dataset, self._collate, self._size, self._chunks, self._seed = dataset, collate, size, chunks, seed
        self._open: dict[int, tuple[int, Iterator[Any]]] = {}  # by chunk: the step that comes next
        self._last: dict[int, tuple[int, list[Any]]] = {}  # by chunk: a step, and its items once more

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_open": {}, "_last": {}}

    def whole(self, at: At) -> int | None:
        """Return how many samples a step has."""
        return self._size * self._chunks

    def read(self, at: At, chunks: Sequence[int]) -> Batch | None:
        """Read on, to the items of some chunks."""
        return gathered([self._chunk(at.step, chunk) for chunk in chunks])

    def _chunk(self, step: int, chunk: int) -> Any:
        with drawing(self._seed, chunk) as seeded:
            known = self._last.get(chunk)
            if known is None or known[0] != step:
                known = self._last[chunk] = step, self._items(step, chunk, seeded)
            seeded(step * self._size)
            return collated(self._collate, list(known[1]))

    def _items(self, step: int, chunk: int, seeded: Callable[[int], None]) -> list[Any]:
        after, items = self._open.pop(chunk, (0, None))
        if items is None or step < after:
            after, items = 0, self._endless(chunk)
        found = []
        for number in range(after * self._size, (step + 1) * self._size):
            seeded(number)
            one = next(items)
            if number >= step * self._size:
                found.append(one)
        self._open[chunk] = step + 1, items
        return found

    def _endless(self, chunk: int) -> Iterator[Any]:
        dataset = copy(self._dataset)
        for epoch in count():
            if hasattr(dataset, "set_epoch"):
                dataset.set_epoch(epoch)
            if hasattr(dataset, "shard"):
                items = iter(dataset.shard(self._chunks, chunk))
            else:
                items = islice(dataset, chunk, None, self._chunks)
            found = 0
            for item in items:
                yield item
                found += 1
            if not found:
                raise ArgumentError(
                    f"data: chunk {chunk} of {self._chunks} has no items, which is not allowed; the dataset must have "
                    "at least one per chunk, or chunks= be fewer"
                )
