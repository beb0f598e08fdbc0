"""Rows that combine pieces of results, and the sum from its pieces: messages of a fraction of the length.

Each segment of a result is cut into m runs of neighbouring numbers, all of one length: the last one is filled up with
zeros. The form of such a message has what the form of the result says in a key, as texts of it have their quotes
escaped there; so it lies in memory, and travels, like any other.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from echelon import trees
from echelon.arrays import NumberArray
from echelon.codes import combine
from echelon.errors import ArgumentError


@lru_cache(maxsize=256)
def short_form(form: bytes, pieces: int) -> bytes:
    """Return the form of a message that is as long as one piece of a result of this form.

    >>> trees.layout(short_form(b'["d",5]', 2)).segments[0].count
    3
    """
    leaves = [[segment.dtype.char, _length(segment.count, pieces)] for segment in trees.layout(form).segments]
    short = json.dumps({"dict": {f"{pieces} {form.decode()}": {"list": leaves}}}, separators=(",", ":")).encode()
    if len(short) > trees.MOST_FORM:
        raise ArgumentError(f"result: {len(leaves)} types in too many arrays; must be a few hundred arrays at most")
    return short


def combined_pieces(coefficients: NumberArray, segments: Sequence[NumberArray], out: NumberArray | None) -> NumberArray:
    """Return the weighted sum of all pieces of some segments, weights of shape (segments, pieces).

    >>> combined_pieces(np.array([[1.0, 2.0]]), [np.array([1.0, 2.0, 3.0])], None).tolist()
    [7.0, 2.0]
    """
    pieces = coefficients.shape[1]
    length = _length(len(segments[0]), pieces)
    cut = [_piece(segment, i, length) for segment in segments for i in range(pieces)]
    found: NumberArray = combine(coefficients.reshape(1, -1), cut, None if out is None else out[None])[0]
    return found


def joined(form: bytes, pieces: Sequence[Sequence[NumberArray]]) -> Any:
    """Return a result from the segments of each of its pieces, and the form of the messages that they come from."""
    whole = _whole(form)
    counts = [segment.count for segment in trees.layout(whole).segments]
    segments = [np.concatenate(some)[:count] for some, count in zip(zip(*pieces, strict=True), counts, strict=True)]
    return trees.unflatten(whole, segments)


@lru_cache(maxsize=256)
def _whole(form: bytes) -> bytes:
    (key,) = json.loads(form)["dict"]
    whole: bytes = key.partition(" ")[2].encode()
    return whole


def _length(count: int, pieces: int) -> int:
    return -(-count // pieces)


def _piece(segment: NumberArray, number: int, length: int) -> NumberArray:
    """Return a piece of a segment, a view unless it is filled up."""
    piece = segment[number * length : (number + 1) * length]
    return piece if len(piece) == length else np.concatenate([piece, np.zeros(length - len(piece), segment.dtype)])
