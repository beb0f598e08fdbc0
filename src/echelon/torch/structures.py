"""Batches of any shape: a tensor, or dicts, lists and tuples of tensors, with samples along the first axis.

What is no tensor (a text, a number, None) is handed on as it is, and can't be joined or cut.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from echelon.errors import ArgumentError


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Return a structure with what a function makes of each leaf.

    >>> mapped(lambda leaf: leaf + 1, {"a": 1, "b": (2, [3])})
    {'a': 2, 'b': (3, [4])}
    """
    if isinstance(value, Mapping):
        return {key: mapped(function, inner) for key, inner in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(function, inner) for inner in value))
    if isinstance(value, tuple | list):
        return type(value)(mapped(function, inner) for inner in value)
    return function(value)


def leaves(value: Any) -> Iterator[Any]:
    """Yield the leaves of a structure.

    >>> list(leaves({"a": 1, "b": (2, [3])}))
    [1, 2, 3]
    """
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else None
    if inner is None:
        yield value
    else:
        for one in inner:
            yield from leaves(one)


def count(value: Any) -> int:
    """Return how many samples a batch has: the length of its first tensor or array, along the first axis.

    >>> count({"mask": None, "tokens": torch.zeros(3, 5)})
    3
    """
    for leaf in leaves(value):
        if isinstance(leaf, Tensor | np.ndarray) and leaf.ndim > 0:
            return len(leaf)
    raise ArgumentError("data: a batch without any tensor is not allowed; must have samples along its first axis")


def even(name: str, value: Any) -> int:
    """Return how many samples a batch has that is to be cut: all its tensors must have equally many.

    >>> even("batch", (torch.zeros(3, 5), {"weight": 0.5, "targets": torch.zeros(3)}))
    3
    """
    lengths = {len(leaf) for leaf in leaves(value) if isinstance(leaf, Tensor | np.ndarray) and leaf.ndim > 0}
    if len(lengths) != 1:
        raise ArgumentError(
            f"{name}: tensors of {sorted(lengths) or 'no'} samples are not allowed where it is cut; all must have "
            "equally many along their first axis"
        )
    return lengths.pop()


def tensors(value: Any) -> Any:
    """Return a structure with tensors in place of arrays, on the same memory where that may be written."""

    def tensor(leaf: Any) -> Any:
        return torch.from_numpy(np.require(leaf, requirements="W")) if isinstance(leaf, np.ndarray) else leaf

    return mapped(tensor, value)


def arrays(value: Any) -> Any:
    """Return a structure with arrays in place of tensors on the host, on the same memory where NumPy has the type."""

    def array(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        here = leaf.detach().cpu()
        return here if here.dtype == torch.bfloat16 else here.numpy()

    return mapped(array, value)


def moved(value: Any, device: torch.device) -> Any:
    """Return a structure whose tensors are on a device."""
    if device.type == "cpu":
        return value
    return mapped(lambda leaf: leaf.to(device, non_blocking=True) if isinstance(leaf, Tensor) else leaf, value)


def taken(value: Any, samples: Any) -> Any:
    """Return some samples of a batch, by a slice or by numbers.

    >>> taken((torch.arange(4), {"x": torch.arange(4)}), slice(1, 3))
    (tensor([1, 2]), {'x': tensor([1, 2])})
    """

    def some(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor | np.ndarray) or leaf.ndim == 0:
            return leaf
        whole_rows = isinstance(leaf, np.ndarray) and not isinstance(samples, slice)
        return np.take(leaf, samples, axis=0) if whole_rows else leaf[samples]  # `take` is quicker for rows

    return mapped(some, value)


def joined(values: Sequence[Any]) -> Any:
    """Return batches of one structure as one batch, or None where they hold anything but tensors and None.

    >>> joined([{"x": torch.ones(1)}, {"x": torch.zeros(2)}])
    {'x': tensor([1., 0., 0.])}
    >>> joined([("a", torch.ones(1)), ("b", torch.ones(1))])
    """
    if len(values) == 1:
        return values[0]
    parts = [list(_named(value)) for value in values]
    if any([place for place, _ in part] != [place for place, _ in parts[0]] for part in parts):
        return None
    together = [_together([part[i][1] for part in parts]) for i in range(len(parts[0]))]
    if None in together:
        return None
    whole = iter([one() for one in together if one is not None])
    return mapped(lambda _: next(whole), values[0])


def _named(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the leaves of a structure with their places in it."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _named(inner, (*place, key))
    elif isinstance(value, tuple | list):
        for number, inner in enumerate(value):
            yield from _named(inner, (*place, number))
    else:
        yield place, value


def _together(leaves: Sequence[Any]) -> Callable[[], Any] | None:
    """Return what joins leaves; None where they can't be joined: texts of different lengths, say."""
    if all(leaf is None for leaf in leaves):
        return lambda: None
    if not all(isinstance(leaf, Tensor) and leaf.ndim > 0 for leaf in leaves):
        return None
    if len({(leaf.dtype, leaf.shape[1:]) for leaf in leaves}) > 1:
        return None
    return lambda: torch.cat(list(leaves))
