"""Names of the array types that the whole package uses."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
ComplexArray: TypeAlias = NDArray[np.complex128]
NumberArray: TypeAlias = NDArray[Any]  # float or complex numbers of any precision
BoolArray: TypeAlias = NDArray[np.bool_]
