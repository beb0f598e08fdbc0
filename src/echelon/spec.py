"""Entries of registries as texts: ``multi_message:load=4,clusters=3,order=2``, a name and arguments.

The command line reads them (`--scheme`, `--code`, `--law`, `--cluster`), and so do jobs
(`SumJob(code="cyclic:load=4")`). What is allowed follows from the signature of what the name stands for: a new entry
needs no parser of its own.
"""

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from echelon import checks
from echelon.errors import ArgumentError

WORDS = {"true": True, "false": False, "none": None}
SPELT = {  # kinds of values that can be written
    bool: "true or false", int: "a whole number", float: "a number", str: "a text", list: "a list such as [1,2]",
    NoneType: "none",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Spec:
    """A name, and arguments as they were written.

    what: the option or argument that it was given for; errors begin with it.

    >>> Spec.read("scheme", "multi_message:load=4,orders=[2,4]", ["multi_message"])
    Spec(what='scheme', name='multi_message', arguments={'load': '4', 'orders': '[2,4]'})
    """

    what: str
    name: str
    arguments: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, what: str, text: str, names: Collection[str]) -> "Spec":
        """Return what a text says, if it begins with one of these names."""
        name, colon, rest = checks.instance(what, text, str).partition(":")
        spec = cls(what, checks.one_of(what, name, names))
        for argument in _pieces(rest) if colon else ():
            key, equals, value = argument.partition("=")
            if not key.isidentifier() or not equals:
                raise ArgumentError(f"{what}: {argument!r} is not allowed; must be KEY=VALUE, as in {name}:KEY=VALUE,…")
            if key in spec.arguments:
                raise ArgumentError(f"{what}: {key} is given twice; must be given once")
            spec.arguments[key] = value
        return spec

    def call(self, function: Callable[..., Any], **known: Any) -> Any:
        """Call a function with these arguments; and with those of the `known` ones that it needs and were not given.

        >>> Spec("scheme", "power", {"exponent": "3"}).call(lambda base, exponent=2: base**exponent, base=2.0, more=1)
        8.0
        """
        told = self.values(function)
        needed = [p.name for p in parameters(function) if p.default is Parameter.empty and p.name not in told]
        missing = [name for name in needed if name not in known]
        if missing:
            raise ArgumentError(
                f"{self.what}: {self.name} needs {', '.join(missing)}; it takes {shown_arguments(function)}"
            )
        return function(**told, **{name: known[name] for name in needed})

    def values(self, function: Callable[..., Any], *, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the values of the arguments, as the function's signature reads them; it must have all of them.

        without: arguments of the function that may not be given here.
        """
        taken = {parameter.name: parameter for parameter in parameters(function) if parameter.name not in without}
        for key in self.arguments:
            if key not in taken:
                raise ArgumentError(
                    f"{self.what}: {key!r} is not allowed; {self.name} takes {', '.join(taken) or 'no arguments'}"
                )
        return {key: self._value(key, text, taken[key].annotation) for key, text in self.arguments.items()}

    def _value(self, key: str, text: str, annotation: Any) -> Any:
        value = _literal(text)
        kinds = list(dict.fromkeys(_kinds(annotation)))
        if any(_is(value, kind) for kind in kinds):
            return value
        if str in kinds:
            return text
        said = [SPELT[kind] for kind in kinds if kind in SPELT]
        if not set(kinds) & SPELT.keys() - {NoneType}:
            raise ArgumentError(f"{self.what}: {key} is not allowed; it can't be written as a text")
        raise ArgumentError(f"{self.what}: {key}={text} is not allowed; must be {', or '.join(said)}")


def parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function that can be given by name."""
    several = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return [p for p in signature(function).parameters.values() if p.kind not in several]


def shown_arguments(function: Callable[..., Any], *, without: Collection[str] = ()) -> str:
    """Return the arguments of a function with their defaults, for people.

    >>> shown_arguments(lambda workers, load, clusters=1: 0)
    'workers, load, clusters=1'
    """
    listed = [p for p in parameters(function) if p.name not in without]
    return ", ".join(p.name if p.default is Parameter.empty else f"{p.name}={_shown(p.default)}" for p in listed)


def _shown(default: Any) -> str:
    return next((word for word, value in WORDS.items() if value is default), str(default) or "''")


def _pieces(text: str) -> Iterator[str]:
    """Yield the texts between commas, except commas inside brackets."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()


def _literal(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yield the kinds of values that an annotation allows: plain types, and `list` for sequences and arrays."""
    if get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            yield from _kinds(member)
    elif get_origin(annotation) is Literal:
        yield from {type(word) for word in get_args(annotation)}
    elif annotation in (Any, Parameter.empty) or isinstance(annotation, str):
        yield Any
    else:
        origin = get_origin(annotation) or annotation
        yield list if origin in (Sequence, np.ndarray, list, tuple) else origin


def _is(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if kind is list:
        return isinstance(value, list | tuple)
    if kind in (int, float):
        return isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
    return kind in SPELT and isinstance(value, kind)
