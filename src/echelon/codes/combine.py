"""Combining messages with weights in one pass over memory, for NumPy arrays and any that follow the array API."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import array_api_compat as api
import numpy as np

from echelon.arrays import FloatArray, NumberArray
from echelon.errors import ArgumentError

_BLOCK = 1 << 16  # numbers of a sum at a time: they stay in the cache while every message is read once
_SMALL = 1 << 10  # messages of at most this many numbers are gathered: quicker than adding one after another


def combine(weights: NumberArray, messages: Sequence[Any], out: Any = None, *, sizes: FloatArray | None = None) -> Any:
    """Return ``weights @ messages``, shape (wanted, ...), without copying all messages together.

    messages: arrays of one shape and type (NumPy, torch, CuPy, JAX …), one per column of `weights`. `out`, where given,
    is filled (NumPy only). Float32 messages are combined in float32, by weights rounded to it. `sizes`, where
    given, is filled with the largest number of every message, found in the same pass, shape (messages,); 0 for those
    that do not enter. A message with weight 0 does not enter at all: what is not finite in it changes nothing.

    >>> combine(np.array([[2.0, -1.0]]), [np.ones(3), np.arange(3.0)]).tolist()
    [[2.0, 1.0, 0.0]]
    """
    if getattr(weights, "ndim", 0) != 2 or not isinstance(messages, Sequence):
        raise ArgumentError("weights, messages: must be a matrix, and a list of arrays, one per column of the matrix")
    wanted, count = weights.shape
    if len(messages) != count or not count:
        raise ArgumentError(f"messages: {len(messages)} given; must be {count}, one per column of the weights")
    plain = all(type(message) is np.ndarray for message in messages)  # the common case, found quickly
    if not plain and not all(api.is_array_api_obj(message) for message in messages):
        raise ArgumentError("messages: must be arrays, of NumPy or another library that follows the array API")
    shape = tuple(messages[0].shape)
    if {tuple(message.shape) for message in messages} != {shape}:
        raise ArgumentError(f"messages: must all have one shape, {shape}")
    if not weights.any(axis=0).all():
        return _combine_used(weights, messages, out, sizes)
    messages = [inexact(message) for message in messages]
    if not plain and not all(api.is_numpy_array(message) for message in messages):
        if out is not None:
            raise ArgumentError("out: not allowed for arrays other than NumPy's")
        if sizes is not None:
            sizes[:] = [largest(message) for message in messages]
        return _combine_any(weights, messages, shape)
    dtype = np.result_type(*{message.dtype for message in messages})
    if np.iscomplexobj(weights):
        dtype = np.result_type(dtype, np.complex64)
    full = (wanted, *shape)
    if out is None:
        out = np.empty(full, dtype=dtype)
    elif out.shape != full or out.dtype != dtype or not out.flags.c_contiguous:
        raise ArgumentError(f"out: must be a contiguous array of shape {full} and type {dtype}")
    flat = [message.reshape(-1) for message in messages]
    sums, narrow = out.reshape(wanted, len(flat[0])), weights.astype(dtype)
    if sizes is not None:
        sizes[:] = 0.0
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is the caller's to look at
        if len(flat[0]) <= _SMALL:
            gathered = np.array(flat, dtype=dtype)
            np.matmul(narrow, gathered, out=sums)
            if sizes is not None and gathered.size:
                np.abs(gathered).max(axis=1, out=sizes)
        elif wanted == 1:
            _accumulate(narrow[0], flat, sums[0], sizes)
        else:
            _multiply(narrow, flat, sums, sizes)
        if not narrow.all() and not is_finite(sums):
            for line, total in zip(narrow, sums, strict=True):  # each from the messages that enter it
                used = np.flatnonzero(line)
                _accumulate(line[used], [flat[i] for i in used.tolist()], total, None)
    return out


def is_finite(array: NumberArray) -> bool:
    """Return whether all numbers of an array are finite; usually in one pass without a copy."""
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(np.isfinite(array.sum())) or bool(np.isfinite(array).all())


def _combine_used(weights: NumberArray, messages: Sequence[Any], out: Any, sizes: FloatArray | None) -> Any:
    """Combine the messages that enter at all; there is one at least, unless all weights are 0."""
    used = np.flatnonzero(weights.any(axis=0))
    if not len(used):
        xp = api.array_namespace(messages[0])
        weights, messages, used = np.ones((len(weights), 1)), [xp.zeros_like(messages[0])], np.zeros(1, dtype=np.int64)
    else:
        weights, messages = weights[:, used], [messages[i] for i in used.tolist()]
    inner = None if sizes is None else np.zeros(len(used))
    found = combine(weights, messages, out, sizes=inner)
    if sizes is not None:
        sizes[:] = 0.0
        sizes[used] = inner
    return found


def largest(array: Any) -> float:
    """Return the largest absolute value in an array of any library, 0 in an empty one.

    For complex numbers it may be the sum of both components: at most 1.41 times too large.

    >>> largest(np.array([[1.0, -3.0], [2.0, 0.0]]))
    3.0
    """
    if type(array) is not np.ndarray and not api.is_numpy_array(array):
        xp = api.array_namespace(array)
        return float(xp.max(xp.abs(array))) if math.prod(array.shape) else 0.0
    if not array.size:
        return 0.0
    flat, find = array.reshape(-1), _finder(array.dtype)
    return float(np.abs(flat).max()) if find is None else abs(flat.item(find(flat)))


@cache
def _finder(dtype: np.dtype[Any]) -> Callable[[NumberArray], int] | None:
    """Return a function that finds the largest number of a flat array in one pass without a copy, or None."""
    from scipy.linalg import blas

    finders = {"f": blas.isamax, "d": blas.idamax, "F": blas.icamax, "D": blas.izamax}
    return finders.get(dtype.char) if dtype.isnative else None


def _accumulate(
    weights: NumberArray, messages: Sequence[NumberArray], total: NumberArray, sizes: FloatArray | None
) -> None:
    """Write one weighted sum, block by block: each message is read once, and the block's sum stays in the cache."""
    from scipy.linalg import get_blas_funcs

    # BLAS adds in place for its own four types only; for any other it would work on a copy
    axpy = get_blas_funcs("axpy", (total,)) if total.dtype.char in "fdFD" and total.dtype.isnative else None
    for at in range(0, len(total), _BLOCK):
        block = total[at : at + _BLOCK]
        for i, (message, weight) in enumerate(zip(messages, weights, strict=True)):
            piece = message[at : at + _BLOCK]
            if sizes is not None:
                sizes[i] = max(sizes[i], largest(piece))
            if not i:
                np.multiply(piece, weight, out=block)
            elif axpy is None:
                block += piece * weight
            else:
                axpy(piece.astype(block.dtype, copy=False), block, a=weight)


def _multiply(
    weights: NumberArray, messages: Sequence[NumberArray], sums: NumberArray, sizes: FloatArray | None
) -> None:
    """Write several weighted sums as products with blocks of all messages, gathered where they fit the cache."""
    step = max(256, 2 * _BLOCK // len(messages))
    gathered = np.empty((len(messages), step), dtype=sums.dtype)
    for at in range(0, sums.shape[1], step):
        width = min(step, sums.shape[1] - at)
        for i, message in enumerate(messages):
            gathered[i, :width] = message[at : at + width]
            if sizes is not None:
                sizes[i] = max(sizes[i], largest(gathered[i, :width]))
        np.matmul(weights, gathered[:, :width], out=sums[:, at : at + width])


def _combine_any(weights: NumberArray, messages: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Do the same for any array library, on the device where the messages are."""
    xp = api.array_namespace(*messages)
    rows = []
    for line in weights:
        total = None
        for message, weight in zip(messages, line.tolist(), strict=True):
            if weight != 0 or total is None:
                term = message * weight
                total = term if total is None else total + term
        rows.append(total)
    return xp.reshape(xp.stack(rows), (len(weights), *shape))


def inexact(array: Any) -> Any:
    """Return an array of numbers that weights can multiply: integers become float64, others stay as they are."""
    if type(array) is np.ndarray and array.dtype.kind in "fc":
        return array
    xp = api.array_namespace(array)
    if xp.isdtype(array.dtype, ("real floating", "complex floating")):
        return array
    return xp.astype(array, xp.float64)


def apply_rows(matrix: NumberArray, parts: Any) -> Any:
    """Return ``matrix @ parts`` along the first axis of an array of any library, in its own precision."""
    xp = api.array_namespace(parts)
    parts = inexact(parts)
    flat = xp.reshape(parts, (parts.shape[0], math.prod(parts.shape[1:])))
    if np.iscomplexobj(matrix):
        wide = flat.dtype in (xp.float64, xp.complex128)
        flat = xp.astype(flat, xp.complex128 if wide else xp.complex64)
    weights = xp.asarray(np.ascontiguousarray(matrix), dtype=flat.dtype, device=api.device(flat))
    return xp.reshape(xp.matmul(weights, flat), (matrix.shape[0], *parts.shape[1:]))
