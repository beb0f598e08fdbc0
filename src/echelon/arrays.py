"""Names of the array types that the whole package uses, and a test for who owns an array's memory."""

import sys
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
ComplexArray: TypeAlias = NDArray[np.complex128]
NumberArray: TypeAlias = NDArray[Any]  # float or complex numbers of any precision
BoolArray: TypeAlias = NDArray[np.bool_]


def private(segment: NumberArray) -> bool:
    """Return whether a flat array alone owns its memory: no other array, and no variable, leads to it.

    >>> array = np.ones(3)
    >>> private(array.ravel()), private(np.ones((2, 2)).ravel()), private(np.frombuffer(bytes(8)))
    (False, True, False)
    """
    if segment.base is None:
        return True
    return type(segment.base) is np.ndarray and segment.base.base is None and _references(segment) <= _ALONE


def _references(segment: NumberArray) -> int:
    return sys.getrefcount(segment.base)


_ALONE = _references(np.ones(1).ravel())  # to an array held only by a view of it
