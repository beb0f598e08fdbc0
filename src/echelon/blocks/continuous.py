"""The law of one cycle time as the exact methods need it: a continuous distribution function, and where it is rough."""

import numpy as np

from echelon import checks
from echelon.arrays import FloatArray
from echelon.blocks.crossing import MOST_POINTS
from echelon.blocks.panels import bisect
from echelon.delays import Delay
from echelon.errors import ArgumentError, NoClosedForm

_SMOOTH = 1.5 ** np.arange(12)  # relative widths of panels, which grow with the distance from the start
_SINGULAR = 2.0 ** np.arange(36)  # for laws that start like a broken power of time


def is_continuous(law: Delay) -> bool:
    """Return whether a law has a distribution function without jumps, so that exact methods know it.

    >>> from echelon.delays import Deterministic, Exponential
    >>> is_continuous(Exponential(rate=1.0)), is_continuous(Deterministic(time=1.0))
    (True, False)
    """
    return checked_law(law).closed and not law.atoms(range(1, 2)).size


def checked_law(law: object) -> Delay:
    """Return a law that stands for all workers."""
    if not isinstance(law, Delay):
        raise ArgumentError(f"law: {checks.shown(law)} is not allowed; must be a Delay")
    return law


def checked_formula(law: object) -> Delay:
    """Return a law that has a distribution function; `NoClosedForm` where it has none."""
    known = checked_law(law)
    if not known.closed:
        raise _refusal(known, "no distribution function")
    return known


class ContinuousLaw:
    """The distribution function F of a law's single task; `NoClosedForm` where it has none, or one with jumps.

    kinks: times at which F is not smooth. panels: relative widths of panels that resolve it between them.
    """

    def __init__(self, law: Delay, workers: int) -> None:
        self._law = checked_formula(law)
        if not is_continuous(law):
            raise _refusal(law, "jumps in its distribution function")
        checks.whole("workers", workers, least=1, most=MOST_POINTS)
        self.mean = law.mean
        self.kinks = law.kinks(range(1, 2))
        self.least = bisect(lambda time: self(np.array([time]))[0] > 0, 0.0, 2 * law.mean, 1e-15)[0]
        near, far = self(self.least + law.mean * np.array([1e-9, 2e-9]))
        power = float(np.log2(far / near)) if near > 0 else np.inf
        self.panels = _SINGULAR if power < 4 and abs(power - round(power)) > 1e-3 else _SMOOTH

    def __call__(self, times: FloatArray) -> FloatArray:
        """Return F, of the shape of `times`."""
        return self._law.sums(range(1, 2), times.ravel())[:, 0].reshape(times.shape)


def _refusal(law: Delay, what: str) -> NoClosedForm:
    return NoClosedForm(f"law: {type(law).__name__} has {what}; use a method that samples, subgradient or lp")
