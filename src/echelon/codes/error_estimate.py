"""How far a recovered result may be off by rounding: two figures, since parts may cancel."""

from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from echelon.codes.combine import largest
from echelon.errors import ArgumentError

EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class ErrorEstimate:
    """The largest error that rounding and decoding may have caused, as two ratios.

    relative_to_terms: to the size of the result's terms regardless of sign, sum |target| |part|. It follows from the
        rows alone, before any message comes.
    relative_to_result: to the largest number that came out. Where parts cancel each other it is larger, by as much as
        they do: a gradient that vanishes has terms, but few digits. Infinite where not one digit is known. What cancels
        within a message, before it is sent, is the sender's error and can't be seen.

    >>> ErrorEstimate(1e-16, 1e-12).worst(ErrorEstimate(1e-15, 1e-15))
    ErrorEstimate(relative_to_terms=1e-15, relative_to_result=1e-12)
    """

    relative_to_terms: float = 0.0
    relative_to_result: float = 0.0

    def worst(self, other: "ErrorEstimate") -> "ErrorEstimate":
        """Return the larger of each figure."""
        return ErrorEstimate(
            max(self.relative_to_terms, other.relative_to_terms), max(self.relative_to_result, other.relative_to_result)
        )


NO_ERROR = ErrorEstimate()


def relative(error: float, result: Any, epsilon: float = EPSILON) -> float:
    """Return an error relative to the largest number of a result, which is no better than its own precision.

    Infinite where no digit of the result is known.

    >>> relative(1.0, np.array([5.0, -3.0])), relative(1.0, np.ones(2)), relative(0.0, np.zeros(2), 0.5)
    (0.25, inf, 0.5)
    """
    numbers = getattr(getattr(result, "dtype", None), "kind", "f") in "biufc" and hasattr(result, "shape")
    if not isinstance(error, Real) or not isinstance(epsilon, Real) or not numbers:
        raise ArgumentError("error, result, epsilon: must be a number, an array and a number")
    return relative_to(error, largest(result), epsilon)


def relative_to(error: float, largest: float, epsilon: float) -> float:
    """Return the same, where the largest number of the result is known; infinite if it is not finite."""
    if not isfinite(largest):
        return float("inf")
    known = largest - error  # the true result is at least this large
    if known <= 0:
        return float("inf") if error > 0 else epsilon
    return max(error / known, epsilon)
