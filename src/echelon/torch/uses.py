"""What a function computes with, besides its arguments: whether weights that are trained are among it."""

import dis
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from inspect import getattr_static, isfunction, ismethod
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any

from torch import Tensor, nn

from echelon.errors import ArgumentError

_MOST = 10_000  # things to look at


def check_held(loss: Any) -> None:
    """Refuse a function that computes with weights that are trained: workers would have them as they were at first.

    >>> from torch import ones
    >>> weight = nn.Parameter(ones(1))
    >>> check_held(lambda outputs, targets: outputs.mean() + weight.sum())
    Traceback (most recent call last):
    echelon.errors.ArgumentError: loss: it uses 'weight', which is trained and changes, and is not allowed; must be ...
    """
    left = deque(_called("", loss))
    seen: dict[int, Any] = {}  # by id, and alive, so that none is given to another
    while left and len(seen) < _MOST:
        name, one = left.popleft()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        try:
            trained, used = _trained(one), _uses(one)
        except Exception:  # it does not let itself be looked at
            continue
        if trained:
            raise ArgumentError(
                f"loss: it uses {name!r}, which is trained and changes, and is not allowed; must be computed from "
                "outputs and targets alone (a penalty on weights can be part of a model that returns its loss)"
            )
        left.extend((name or inner, held) for inner, held in used)


def _trained(one: Any) -> bool:
    if isinstance(one, nn.Module):
        return any(weight.requires_grad for weight in one.parameters())
    return isinstance(one, Tensor) and one.requires_grad


def _called(name: str, one: Any) -> list[tuple[str, Any]]:
    """Return what runs where something is called: of an object, its method."""
    if isinstance(one, nn.Module):
        return [(name, one.forward), (name, one)]
    if isfunction(one) or ismethod(one) or isinstance(one, partial):
        return [(name, one)]
    call = getattr_static(type(one), "__call__", None)
    return [(name, MethodType(call, one))] if isfunction(call) else []


def _uses(one: Any) -> list[tuple[str, Any]]:
    """Return what a function or a container holds, by name; nothing of what can't be looked into."""
    if isinstance(one, list | tuple):
        return [("", value) for value in islice(one, _MOST)]
    if isinstance(one, dict):
        return [("", value) for value in islice(one.values(), _MOST)]
    if isinstance(one, partial):
        arguments = [(f"argument {i}", value) for i, value in enumerate(one.args)]
        return [*_called("", one.func), *arguments, *one.keywords.items()]
    if ismethod(one) and isfunction(one.__func__):
        return [*_of_function(one.__func__), *_of_object(one.__self__, one.__func__.__code__)]
    return _of_function(one) if isfunction(one) else []


def _of_function(function: FunctionType) -> list[tuple[str, Any]]:
    """Return the globals that a function reads, what it encloses, and its defaults."""
    code, held = function.__code__, function.__globals__
    found = [(name, held[name]) for name in _globals(code) if name in held]
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it has no value yet
            found.append((name, cell.cell_contents))
    defaults = function.__defaults__ or ()
    found += zip(code.co_varnames[: code.co_argcount][-len(defaults) :], defaults, strict=False) if defaults else ()
    return [*found, *(function.__kwdefaults__ or {}).items()]


def _globals(code: CodeType) -> Iterator[str]:
    """Yield the names of globals that some code reads, functions within it among that."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner)


def _of_object(held: Any, code: CodeType) -> list[tuple[str, Any]]:
    """Return the attributes of its object that a method reads: fields, and methods of its class."""
    if not code.co_argcount:
        return []
    fields, me, found, before = getattr(held, "__dict__", {}), code.co_varnames[0], [], None
    for step in dis.get_instructions(code):
        if before is not None and before.opname.startswith("LOAD_FAST") and before.argval == me:
            name = step.argval
            method = getattr(type(held), name, None) if isinstance(name, str) else None
            if name in fields:
                found.append((name, fields[name]))
            elif method is not None:
                found.append((name, MethodType(method, held) if isfunction(method) else method))
        before = step
    return found
