"""Data in any of the forms that people have it, as a source of chunks."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

from echelon import checks
from echelon.arrays import NumberArray
from echelon.errors import ArgumentError
from echelon.torch import structures
from echelon.torch.held import Held
from echelon.torch.items import Items
from echelon.torch.losses import Losses
from echelon.torch.minibatches import Minibatches
from echelon.torch.prefetching import Prefetched
from echelon.torch.sources import Given, Source
from echelon.torch.streamed import Called, Iterated

_ALLOWED = (
    "inputs and targets (arrays, tensors, or dicts and tuples of them), a Dataset, a function of step and chunk, or "
    "None, where each call hands its batch in"
)
_LOADER = "a DataLoader is not allowed; must be its dataset, or None, where each call hands in a batch of the loader"


def source(
    data: Any,
    *,
    batch_size: int | None,
    chunks: int,
    seed: int,
    collate: Callable[[list[Any]], Any] | None = None,
    loaders: int = 0,
    losses: Losses,
    finite: bool = False,
) -> Source:
    """Return where chunks come from; see `CodedGradient`.

    finite: whether only data with a number of samples will do; a batch size beyond that means all of them.
    """
    if collate is not None and not callable(collate):
        raise ArgumentError(f"collate: {collate!r} is not allowed; must be a function of a list of items")
    checks.whole("loaders", loaders, least=0)
    put_together = collate or default_collate
    if isinstance(data, DataLoader):
        raise ArgumentError(f"data: {_LOADER}")
    if finite and (data is None or not hasattr(data, "__len__")):
        raise ArgumentError("data: it has no number of samples; must be arrays or a map-style Dataset")
    if isinstance(data, TensorDataset) and collate is None:
        data = data.tensors
    if isinstance(data, type | str | bytes):
        raise ArgumentError(f"data: {data!r} is not allowed; must be {_ALLOWED}")
    if isinstance(data, Iterator) and not isinstance(data, IterableDataset):
        raise ArgumentError(
            f"data: {type(data).__name__}, which can be read once only, is not allowed; must be an IterableDataset, or "
            "None, where each call hands its batch in"
        )
    found: Source
    if data is None or (callable(data) and not hasattr(data, "__getitem__")):
        if batch_size is not None:
            raise ArgumentError(f"batch_size: {batch_size} is not allowed with such data; batches have their own size")
        found = Given(chunks) if data is None else Called(data, seed)
    elif isinstance(data, IterableDataset) or (hasattr(data, "__iter__") and not hasattr(data, "__len__")):
        size = checks.whole("batch_size", batch_size, least=chunks)
        if size % chunks:
            raise ArgumentError(f"batch_size: {size} is not allowed; must be a multiple of {chunks}, the chunks")
        found = Iterated(data, put_together, size // chunks, chunks, seed)
    elif isinstance(data, tuple | list | dict) and not _is_items(data):
        held = arrays(data)
        losses.parted(held)
        losses.check(held)
        found = Held(held, _batches(structures.count(held), batch_size, chunks, seed, at_most=finite))
    elif hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, Tensor | np.ndarray):
        found = Items(data, put_together, _batches(len(data), batch_size, chunks, seed, at_most=finite), seed)
    else:
        raise ArgumentError(f"data: {type(data).__name__} is not allowed; must be {_ALLOWED}")
    if loaders and isinstance(found, Given | Held):
        raise ArgumentError(f"loaders: {loaders} is not allowed with such data, which is in memory; must be 0")
    return Prefetched(found, loaders) if loaders else found


def _is_items(data: Any) -> bool:
    """Return whether data is a list of items, and not one of inputs and targets.

    >>> _is_items([(torch.ones(2), 0), (torch.ones(2), 1), (torch.ones(2), 0)]), _is_items([[1.0, 2.0, 3.0], [0, 1, 1]])
    (True, False)
    """
    return isinstance(data, list) and len(data) > 2 and all(isinstance(item, tuple | dict) for item in data)


def handed_in(batch: Any, losses: Losses) -> Any:
    """Return a batch of the caller's as arrays, which travel to the workers; refuse what can't be cut into chunks.

    >>> handed_in((torch.ones(2, 1), torch.zeros(2)), Losses(torch.nn.MSELoss(), None))[1].tolist()
    [0.0, 0.0]
    """
    losses.parted(batch)
    if not structures.even("batch", batch):
        raise ArgumentError("batch: no samples; there must be at least one")
    losses.check(batch)
    return structures.arrays(batch)


def _batches(samples: int, batch_size: int | None, chunks: int, seed: int, *, at_most: bool) -> Minibatches:
    if not samples:
        raise ArgumentError("data: no samples; there must be at least one")
    if batch_size is not None:
        batch_size = (
            min(batch_size, samples) if at_most else checks.whole("batch_size", batch_size, least=1, most=samples)
        )
    return Minibatches(samples, batch_size, chunks, seed)


def arrays(data: Any) -> Any:
    """Return a structure of arrays with equally many samples each.

    >>> inputs, targets = arrays((torch.ones(3, 2), [0, 1, 0]))
    >>> inputs.shape, targets.tolist()
    ((3, 2), [0, 1, 0])
    """
    if isinstance(data, tuple | list):
        names = ("inputs", "targets") if len(data) == 2 else [f"[{i}]" for i in range(len(data))]
        found: Any = tuple(_inner(name, some) for name, some in zip(names, data, strict=True))
    else:
        found = {name: _inner(str(name), some) for name, some in data.items()}
    counts = {len(some) for some in structures.leaves(found)}
    if len(counts) != 1:
        raise ArgumentError(f"data: arrays of {sorted(counts)} samples are not allowed; must be equally many")
    return found


def _inner(name: str, values: Any) -> Any:
    """Return arrays in place of tensors; a list is taken for an array, so that structures are dicts and tuples."""
    if isinstance(values, dict):
        return {key: _inner(f"{name}[{key!r}]", some) for key, some in values.items()}
    if isinstance(values, tuple):
        return tuple(_inner(f"{name}[{i}]", some) for i, some in enumerate(values))
    return _array(name, values)


def _array(name: str, values: Any) -> NumberArray:
    try:
        array: NumberArray = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asanyarray(values)
        torch.from_numpy(np.array(array[:1]))
    except (TypeError, ValueError, IndexError) as error:
        raise ArgumentError(
            f"data: {name}: {error}; must be an array of numbers, samples along its first axis"
        ) from None
    return array
