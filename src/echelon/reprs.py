"""What values look like at a prompt: one line that says the most of them."""

from dataclasses import MISSING, Field, fields
from typing import Any

LONGEST = 200  # characters of a whole value
_FIELD = 70  # of one of its fields
_FEW = 8  # entries that are listed
_EXACT = 6  # characters of a number that is written out


def short_repr(value: Any) -> str:
    """Return a dataclass in one line of 200 characters at most; for its ``__repr__``.

    Fields that have their defaults are left out, long ones are counted.

    >>> from dataclasses import dataclass, field
    >>> @dataclass(repr=False)
    ... class Seen:
    ...     name: str
    ...     times: list[float]
    ...     mean: float = 1.0
    ...     notes: tuple[str, ...] = ()
    ...     __repr__ = short_repr
    >>> Seen("a", [0.5] * 3, mean=1 / 3), Seen("a", [0.5] * 1000)
    (Seen(name='a', times=[0.5, 0.5, 0.5], mean=0.3333), Seen(name='a', times=<1000 float>))
    """
    name = type(value).__name__
    told = [
        f"{field.name}={field_repr(getattr(value, field.name))}"
        for field in fields(value)
        if field.repr and not _is_default(field, getattr(value, field.name))
    ]
    while len(text := f"{name}({', '.join(told)})") > LONGEST:
        told = [*told[: -2 if told[-1] == "..." else -1], "..."]
    return text


def _is_default(field: Field[Any], value: object) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return default is not MISSING and type(default) is type(value) and bool(default == value)


def field_repr(value: Any) -> str:
    """Return a part of a value in 70 characters or so.

    >>> import numpy as np
    >>> field_repr(np.arange(3)), field_repr(np.zeros((20, 30))), field_repr({"a": 0.1})
    ('[0, 1, 2]', '<20 x 30 float64>', "{'a': 0.1}")
    """
    if isinstance(value, float):
        exact = repr(float(value))
        return exact if len(exact) <= _EXACT else f"{value:.4g}"
    if isinstance(value, str):
        return repr(value) if len(value) <= _FIELD else repr(f"{value[: _FIELD - 3]}...")
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        if len(value.shape) <= 1 and value.size <= _FEW:
            return field_repr(value.tolist())
        return f"<{' x '.join(map(str, value.shape))} {value.dtype}>"
    if isinstance(value, list | tuple | dict | set | frozenset):
        return _entries(value)
    text = " ".join(repr(value).split())
    if len(text) <= _FIELD:
        return text
    return getattr(value, "__qualname__", None) or f"{type(value).__name__}(...)"


def _entries(values: Any) -> str:
    """Return a list, a tuple, a set or a dictionary; the number of its entries where they are many."""
    if len(values) <= _FEW:
        if isinstance(values, dict):
            inner = ", ".join(f"{field_repr(key)}: {field_repr(entry)}" for key, entry in values.items())
            text = f"{{{inner}}}"
        else:
            inner = ", ".join(map(field_repr, values))
            if isinstance(values, tuple):
                text = f"({inner},)" if len(values) == 1 else f"({inner})"
            else:
                text = f"[{inner}]" if isinstance(values, list) else f"{type(values).__name__}([{inner}])"
        if len(text) <= _FIELD:
            return text
    return f"<{len(values)} {type(next(iter(values))).__name__}>"
