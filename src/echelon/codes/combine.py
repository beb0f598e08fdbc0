"""Combining messages with weights in one pass over memory."""

from collections.abc import Sequence

import numpy as np

from echelon.arrays import NumberArray
from echelon.errors import ArgumentError

_BLOCK = 1 << 14  # numbers of each message at a time: they and their sums stay in the cache


def combine(weights: NumberArray, messages: Sequence[NumberArray], out: NumberArray | None = None) -> NumberArray:
    """Return ``weights @ messages``, shape (wanted, ...), without copying the messages together.

    messages: arrays of one shape and type, as many as `weights` has columns. `out`, where given, is filled.
    Float32 messages are combined in float32, by weights rounded to it.

    >>> combine(np.array([[2.0, -1.0]]), [np.ones(3), np.arange(3.0)]).tolist()
    [[2.0, 1.0, 0.0]]
    """
    wanted, count = weights.shape
    if len(messages) != count or not messages:
        raise ArgumentError(f"messages: {len(messages)} given; must be {count}, one a column of the weights")
    first = np.asarray(messages[0])
    flat = [np.asarray(message).reshape(-1) for message in messages]
    if any(np.asarray(message).shape != first.shape for message in messages):
        raise ArgumentError(f"messages: must all have one shape, {first.shape}")
    dtype = np.result_type(first.dtype, np.complex64) if np.iscomplexobj(weights) else first.dtype
    shape = (wanted, *first.shape)
    if out is None:
        out = np.empty(shape, dtype=dtype)
    elif out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous:
        raise ArgumentError(f"out: must be a contiguous array of shape {shape} and type {dtype}")
    sums = out.reshape(wanted, -1)
    narrow = weights.astype(dtype)
    if wanted == 1:
        _accumulate(narrow[0], flat, sums[0])
    else:
        _multiply(narrow, flat, sums)
    return out


def _accumulate(weights: NumberArray, messages: Sequence[NumberArray], total: NumberArray) -> None:
    """Write one weighted sum, block by block: each message is read once, and the block's sum stays in the cache."""
    for at in range(0, len(total), _BLOCK):
        block = total[at : at + _BLOCK]
        np.multiply(messages[0][at : at + _BLOCK], weights[0], out=block)
        for message, weight in zip(messages[1:], weights[1:], strict=True):
            block += message[at : at + _BLOCK] * weight


def _multiply(weights: NumberArray, messages: Sequence[NumberArray], sums: NumberArray) -> None:
    """Write several weighted sums as products with blocks of all messages, gathered where they fit the cache."""
    step = max(256, 8 * _BLOCK // len(messages))
    gathered = np.empty((len(messages), step), dtype=sums.dtype)
    for at in range(0, sums.shape[1], step):
        width = min(step, sums.shape[1] - at)
        for i, message in enumerate(messages):
            gathered[i, :width] = message[at : at + width]
        np.matmul(weights, gathered[:, :width], out=sums[:, at : at + width])
