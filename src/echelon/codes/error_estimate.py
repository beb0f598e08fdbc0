"""How far a recovered result may be off by rounding: two figures, since parts may cancel."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorEstimate:
    """The largest error that rounding and decoding may have brought in, as two ratios.

    relative_to_terms: to what the terms of the result amount to without regard to sign, as sum |target| |part| does. It
        follows from the rows alone, before any message comes.
    relative_to_result: to the largest number that came out. Where parts cancel each other it is larger, by as much as
        they do: a gradient that vanishes has terms, but few digits. Infinite where not one digit is known. What cancels
        within a message, before it is sent, is the sender's error and can't be seen.

    >>> ErrorEstimate(1e-16, 1e-12).worst(ErrorEstimate(1e-15, 1e-15))
    ErrorEstimate(relative_to_terms=1e-15, relative_to_result=1e-12)
    """

    relative_to_terms: float = 0.0
    relative_to_result: float = 0.0

    def worst(self, other: "ErrorEstimate") -> "ErrorEstimate":
        """Return the larger of each of both figures."""
        return ErrorEstimate(
            max(self.relative_to_terms, other.relative_to_terms), max(self.relative_to_result, other.relative_to_result)
        )


NO_ERROR = ErrorEstimate()
