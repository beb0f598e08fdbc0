"""How a user's function is called on a worker: with data that it can't change, or with copies of its own.

A chunk is used again in every round, and a state by every part of a round; on threads both are the caller's own. A
function that changed them would give results that depend on who computed what before.
"""

from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any

import numpy as np

_ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None)})
_ADVICE = (
    "Chunks and states are read-only, because later rounds and other workers use them, too: work on a copy "
    "(x = x.copy()), or let each call have its own with copies=True."
)


def call(function: Callable[..., Any], *arguments: Any, copies: bool) -> Any:
    """Return what a function gives for arguments that it can't change, or for `copies` of them."""
    if copies:
        return function(*map(deepcopy, arguments))
    try:
        return function(*map(shown, arguments))
    except ValueError as error:
        if "read-only" in str(error):
            error.add_note(_ADVICE)
        raise


def shown(value: Any) -> Any:
    """Return a value with views that can't be written in place of its arrays, in dicts, lists, tuples and sets of its
    own. Nothing is copied but these; objects of other kinds are what they are.

    >>> mine = {"x": np.zeros(2)}
    >>> seen = shown(mine)
    >>> seen["x"].flags.writeable, mine["x"].flags.writeable, np.shares_memory(seen["x"], mine["x"])
    (False, True, True)
    """
    if isinstance(value, np.ndarray):
        if value.flags.writeable:
            value = value.view()
            value.flags.writeable = False
    elif isinstance(value, dict):
        value = copy(value)
        if not _ATOMS.issuperset(map(type, value.values())):
            value.update([(key, shown(item)) for key, item in value.items()])
    elif isinstance(value, list):
        value = copy(value)
        if not _ATOMS.issuperset(map(type, value)):
            value[:] = map(shown, value)
    elif isinstance(value, set):
        value = copy(value)
    elif isinstance(value, tuple) and not _ATOMS.issuperset(map(type, value)):
        items = map(shown, value)
        value = type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value
