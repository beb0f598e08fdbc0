"""Checks at the door: each names the argument, the value and what is allowed, or returns the value."""

import math
from collections.abc import Collection, Iterable
from numbers import Integral, Real

from echelon.errors import ArgumentError


def number(
    name: str, value: object, *, above: float | None = None, least: float | None = None, size: float = 1e30
) -> float:
    """Return a finite real number, greater than `above` or at least `least` where given.

    Its size, if it is not 0, must lie between 1/`size` and `size`: far outside, squares and ratios overflow.

    >>> number("link", 0.5, least=0)
    0.5
    >>> number("mean", -1, above=0)
    Traceback (most recent call last):
    ...
    echelon.errors.ArgumentError: mean: -1 is not allowed; must be a finite number > 0
    """
    allowed = "a finite number"
    if above is not None:
        allowed += f" > {above:g}"
    if least is not None:
        allowed += f" >= {least:g}"
    real = _real(value)
    if not math.isfinite(real) or (above is not None and real <= above) or (least is not None and real < least):
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be {allowed}")
    if real != 0 and not 1 / size <= abs(real) <= size:
        allowed += f", of a size from {1 / size:g} to {size:g}"
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be {allowed}")
    return real


def whole(name: str, value: object, *, least: int, most: int = 10**12) -> int:
    """Return a whole number that is at least `least` and at most `most`.

    >>> whole("jobs", 0, least=1)
    Traceback (most recent call last):
    ...
    echelon.errors.ArgumentError: jobs: 0 is not allowed; must be a whole number >= 1
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be a whole number >= {least}")
    if int(value) > most:
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be at most {most}")
    return int(value)


def probability(name: str, value: object) -> float:
    """Return a number in [0, 1].

    >>> probability("enter", 1.5)
    Traceback (most recent call last):
    ...
    echelon.errors.ArgumentError: enter: 1.5 is not allowed; must be a number in [0, 1]
    """
    real = _real(value)
    if not 0 <= real <= 1:
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be a number in [0, 1]")
    return real


def _real(value: object) -> float:
    """Return a number as a float; nan for anything else, so that every comparison fails."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def record(name: str, values: object) -> tuple[float, ...]:
    """Return recorded times: a list of numbers >= 0, not all of them 0.

    >>> record("times", [])
    Traceback (most recent call last):
    ...
    echelon.errors.ArgumentError: times: [] is not allowed; must be a list of times, one of them > 0
    """
    listed = list(values) if isinstance(values, Iterable) else []
    kept = tuple(number(f"{name}[{i}]", time, least=0) for i, time in enumerate(listed))
    if not any(kept):
        raise ArgumentError(f"{name}: {values!r} is not allowed; must be a list of times, one of them > 0")
    return kept


def one_of(name: str, value: str, choices: Collection[str]) -> str:
    """Return a name out of a registry.

    >>> one_of("split", "fair", ["uniform", "theorem2"])
    Traceback (most recent call last):
    ...
    echelon.errors.ArgumentError: split: 'fair' is not allowed; must be one of uniform, theorem2
    """
    if not isinstance(value, str) or value not in choices:
        raise ArgumentError(f"{name}: {value!r} is not allowed; must be one of {', '.join(choices)}")
    return value
