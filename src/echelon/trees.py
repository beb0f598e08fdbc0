"""Results of parts as flat memory: an array, or dicts, lists and tuples of arrays, and back.

Coded messages are weighted sums of results, so a result must be numbers throughout. It is laid out as one segment per
type of number, in which its arrays follow one another; a short text, its form, says how to put it together again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from echelon.arrays import NumberArray
from echelon.errors import ArgumentError

ALIGN = 64  # bytes: where a segment may start
MOST_FORM = 16 * 1024  # bytes of a form: it travels with every message
_KEPT = "fdFD"  # the types that sums are formed in; others become the next wider of them


@dataclass(frozen=True, slots=True)
class Segment:
    """Numbers of one type: where they start, in bytes, and how many there are."""

    dtype: np.dtype[Any]
    offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How a result lies in memory: its segments, and its size in bytes."""

    segments: tuple[Segment, ...]
    nbytes: int


def flatten(tree: Any) -> tuple[bytes, list[NumberArray]]:
    """Return the form of a result and its segments, one-dimensional arrays in the order of `layout`.

    >>> form, segments = flatten({"sum": np.ones((2, 2)), "count": 3})
    >>> [segment.tolist() for segment in segments]
    [[3.0, 1.0, 1.0, 1.0, 1.0]]
    >>> unflatten(form, segments)["sum"].shape
    (2, 2)
    """
    if type(tree) is np.ndarray and tree.dtype.char in _KEPT and tree.dtype.isnative:
        # a fast path for the common case
        return _array_form(tree.dtype.char, tree.shape), [tree.ravel()]
    leaves: list[NumberArray] = []
    form = json.dumps(_form(tree, leaves), separators=(",", ":")).encode()
    if not leaves or len(form) > MOST_FORM:
        found = "nothing" if not leaves else f"{len(leaves)} arrays"
        raise ArgumentError(f"result: {found} is not allowed; must be one array, or a few hundred of them at most")
    if len(leaves) == 1:
        return form, [leaves[0].reshape(-1)]
    by_type: dict[str, list[NumberArray]] = {}
    for leaf in leaves:
        by_type.setdefault(leaf.dtype.char, []).append(leaf.reshape(-1))
    return form, [np.concatenate(by_type[char]) for char in sorted(by_type)]


@lru_cache(maxsize=256)
def _array_form(char: str, shape: tuple[int, ...]) -> bytes:
    return json.dumps([char, *shape], separators=(",", ":")).encode()


def _form(tree: Any, leaves: list[NumberArray]) -> Any:
    if isinstance(tree, dict):
        if not all(isinstance(key, str) for key in tree):
            raise ArgumentError(f"result: keys {list(tree)} are not allowed; must be texts")
        return {"dict": {key: _form(tree[key], leaves) for key in sorted(tree)}}
    if isinstance(tree, list | tuple):
        kind = "list" if isinstance(tree, list) else "tuple"
        return {kind: [_form(item, leaves) for item in tree]}
    if isinstance(tree, np.ma.MaskedArray):
        raise ArgumentError(
            "result: a masked array is not allowed, because its mask can't be added up; fill it (`.filled(0.0)`), and "
            "count what is left (`.count(axis=...)`) in another array where that matters"
        )
    array = np.asarray(tree)
    char: str = array.dtype.char
    char = "d" if array.dtype.kind in "iub" else {"e": "f", "g": "d", "G": "D"}.get(char, char)
    if char not in _KEPT:
        found = type(tree).__name__ if array.dtype.hasobject else f"an array of {array.dtype}"
        raise ArgumentError(
            f"result: {found} is not allowed; must be an array of numbers, or dicts, lists and tuples of such"
        )
    array = np.ascontiguousarray(array, dtype=char).reshape(array.shape)
    leaves.append(array)
    return [char, *array.shape]


@lru_cache(maxsize=256)
def _leaves(form: bytes) -> tuple[Any, tuple[tuple[str, tuple[int, ...]], ...]]:
    """Return the parsed form, and type and shape of its arrays in order."""
    found: list[tuple[str, tuple[int, ...]]] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            ((_, inner),) = node.items()
            for item in inner.values() if isinstance(inner, dict) else inner:
                walk(item)
        elif all(type(length) is int and length >= 0 for length in node[1:]):
            found.append((node[0], tuple(node[1:])))
        else:
            raise ValueError(f"{node} is no shape of an array")

    parsed = json.loads(form)
    walk(parsed)
    return parsed, tuple(found)


@lru_cache(maxsize=256)
def layout(form: bytes) -> Layout:
    """Return how a result of this form lies in memory.

    >>> layout(flatten((np.ones(3), np.ones(2, dtype=np.float32)))[0]).nbytes
    72
    """
    counts: dict[str, int] = {}
    for char, shape in _leaves(form)[1]:
        counts[char] = counts.get(char, 0) + int(np.prod(shape, dtype=np.int64))
    segments, at, end = [], 0, 0
    for char in sorted(counts):
        dtype = np.dtype(char)
        segments.append(Segment(dtype, at, counts[char]))
        end = at + counts[char] * dtype.itemsize
        at = -(-end // ALIGN) * ALIGN
    return Layout(tuple(segments), end)


def views(form: bytes, buffer: Any, offset: int = 0) -> list[NumberArray]:
    """Return the segments of a result that lies in a buffer, without a copy."""
    segments = layout(form).segments
    if len(segments) == 1:  # a fast path for the common case
        return [np.frombuffer(buffer, segments[0].dtype, segments[0].count, offset)]
    return [np.frombuffer(buffer, segment.dtype, segment.count, offset + segment.offset) for segment in segments]


def unflatten(form: bytes, segments: Sequence[NumberArray]) -> Any:
    """Return the result that has this form and these segments; its arrays are views of them.

    Segments may have further axes in front, which all arrays of the result then have, too.
    """
    parsed, leaves = _leaves(form)
    chars = sorted({char for char, _ in leaves})
    by_char = dict(zip(chars, segments, strict=True))
    at = dict.fromkeys(chars, 0)

    def build(node: Any) -> Any:
        if isinstance(node, dict):
            ((kind, inner),) = node.items()
            if kind == "dict":
                return {key: build(item) for key, item in inner.items()}
            items = [build(item) for item in inner]
            return items if kind == "list" else tuple(items)
        char, shape = node[0], tuple(node[1:])
        size = int(np.prod(shape, dtype=np.int64))
        start = at[char]
        at[char] = start + size
        found = by_char[char][..., start : start + size]
        return found.reshape((*found.shape[:-1], *shape))

    found = build(parsed)
    by_char.clear()  # `build` refers to itself: what it holds would stay until the next collection of garbage
    return found
