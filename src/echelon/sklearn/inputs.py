"""What estimators are given, checked once."""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_array  # type: ignore[import-untyped]

from echelon import checks
from echelon.arrays import FloatArray
from echelon.errors import ArgumentError


def weights_of(sample_weight: Any, rows: int) -> FloatArray:
    """Return the weight of every sample, 1 where none are given; a single number is the weight of all.

    >>> weights_of(2, 3)
    array([2., 2., 2.])
    """
    if sample_weight is None:
        return np.ones(rows)
    if isinstance(sample_weight, Real):
        return np.full(rows, checks.number("sample_weight", sample_weight, above=0))
    weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.shape != (rows,):
        raise ArgumentError(f"sample_weight: shape {weights.shape} is not allowed; must be ({rows},), one per sample")
    if weights.min() < 0:
        raise ArgumentError(f"sample_weight: {weights.min():g} is not allowed; must be numbers >= 0")
    if not weights.any():
        raise ArgumentError("sample_weight: all zero is not allowed; at least one weight must be > 0")
    return np.array(weights)  # a copy: it may be multiplied in place


def mapped(given: Any, checked: Any) -> Any:
    """Return a memory-mapped array as it was given, where checking converted nothing: workers then read its file."""
    same = isinstance(given, np.memmap) and given.__array_interface__ == checked.__array_interface__
    return given if same else checked
