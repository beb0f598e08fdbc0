"""Data as inputs and targets, one array each, which reach workers once."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset, default_collate

from echelon.arrays import NumberArray
from echelon.errors import ArgumentError

_ALLOWED = "inputs and targets (arrays or tensors) or a map-style Dataset of such pairs"


def arrays(data: Any) -> tuple[NumberArray, NumberArray]:
    """Return inputs and targets; the items of a Dataset are stacked, all of them.

    >>> inputs, targets = arrays((torch.ones(3, 2), [0, 1, 0]))
    >>> inputs.shape, targets.tolist()
    ((3, 2), [0, 1, 0])
    """
    if isinstance(data, TensorDataset):
        data = data.tensors
    elif isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        if not len(data):  # type: ignore[arg-type]
            raise ArgumentError("data: no samples; there must be at least one")
        data = default_collate([data[i] for i in range(len(data))])  # type: ignore[arg-type]
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise ArgumentError(f"data: {type(data).__name__} is not allowed; must be {_ALLOWED}")
    inputs, targets = (_array(name, some) for name, some in zip(("inputs", "targets"), data, strict=True))
    if len(inputs) != len(targets):
        raise ArgumentError(f"data: {len(inputs)} inputs and {len(targets)} targets; must be equally many")
    if not len(inputs):
        raise ArgumentError("data: no samples; there must be at least one")
    return inputs, targets


def _array(name: str, values: Any) -> NumberArray:
    try:
        array: NumberArray = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asanyarray(values)
        torch.from_numpy(np.array(array[:1]))
    except (TypeError, ValueError, IndexError) as error:
        raise ArgumentError(
            f"data: {name}: {error}; must be an array of numbers, samples along its first axis"
        ) from None
    return array
