"""Docstrings in the house style, for Sphinx: plain text, `names` in backticks, "name: text" for arguments, examples.

>>> print("\\n".join(rendered(["Return a*b.", "", "a, b: numbers, as `float`.", "c: more."], {"a", "b", "c"}, {})))
Return a\\*b.
<BLANKLINE>
``a, b``
    numbers, as ``float``.
``c``
    more.
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

_LITERAL = re.compile(r"``([^`]+)``|`([^`]+)`")
_SPECIAL = re.compile(r"([\\*|_])")
_ARRAY = re.compile(r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[~?(?:numpy|typing)\.(\w+)\]\]")
_ARRAYS = {"float64": "FloatArray", "int64": "IntArray", "complex128": "ComplexArray", "bool": "BoolArray"}
# the pages of the reference show these; an object has its page in the first that names it
MODULES = (
    "stream", "jobs", "schemes", "codes", "delays", "splits", "theory", "simulation", "blocks", "products",
    "stragglers", "clusters", "master", "torch", "sklearn", "operators", "profile", "plan", "endings", "prediction",
    "search", "job_delay", "can", "estimate", "files", "cause", "errors",
)  # fmt: skip


def rendered(lines: Iterable[str], arguments: set[str], known: Mapping[str, str]) -> list[str]:
    """Return a docstring as reStructuredText.

    arguments: names that may begin a "name: text". known: where a name in backticks is to lead.
    """
    out: list[str] = []
    for paragraph in _paragraphs(lines):
        if paragraph[0].startswith(">>>"):
            out += paragraph
        elif all(line.startswith("  ") for line in paragraph):
            out += ["::", "", *paragraph]
        else:
            out += _text(paragraph, arguments, {name: to for name, to in known.items() if name not in arguments})
        out.append("")
    return out[:-1]


def _paragraphs(lines: Iterable[str]) -> Iterable[list[str]]:
    held: list[str] = []
    for line in [*lines, ""]:
        begins = line.startswith(">>>") and held and not held[0].startswith(">>>")
        if held and (begins or not line.strip()):
            yield held
            held = []
        if line.strip():
            held.append(line)


def _text(paragraph: list[str], arguments: set[str], known: Mapping[str, str]) -> list[str]:
    """Return a paragraph whose "name: text" lines are a list of definitions."""
    names = "|".join(map(re.escape, sorted(arguments))) or "(?!)"
    label = rf"(?:{names})(?:, (?:{names}))*"
    items: list[tuple[str, str]] = []
    for line in paragraph:
        # one line may hold several: "rows: how many. parts: of what."
        for piece in re.split(rf"(?<=[.;]) (?={label}: )", line.strip()):
            found = re.match(rf"({label}): (.*)", piece)
            if found:
                items.append((found[1], found[2]))
            elif items:
                items[-1] = items[-1][0], f"{items[-1][1]} {piece}"
            else:
                items.append(("", piece))
    out: list[str] = []
    for name, text in items:
        body = _marked(text, known)
        out += [f"``{name}``", f"    {body}"] if name else [body, ""]
    return out if items[-1][0] else out[:-1]


def _marked(text: str, known: Mapping[str, str]) -> str:
    """Return text with its names marked up, and with nothing else that could be taken for markup."""
    out, at = [], 0
    for found in _LITERAL.finditer(text):
        out.append(_SPECIAL.sub(r"\\\1", text[at : found.start()]))
        name = found[1] or found[2]
        out.append(f":py:obj:`{name} <{known[name]}>`" if found[2] and name in known else f"``{name}``")
        at = found.end()
        if text[at : at + 1].isalnum():
            out.append("\\ ")
    return "".join([*out, _SPECIAL.sub(r"\\\1", text[at:])])


def arguments_of(item: Any) -> set[str]:
    """Return the names that a docstring may explain: parameters, fields, annotated attributes; a module's own list."""
    if inspect.ismodule(item):
        return set(re.findall(r"^(\w+): ", inspect.getdoc(item) or "", re.MULTILINE))
    names: set[str] = set()
    with suppress(TypeError, ValueError):  # not everything has a signature
        names |= set(inspect.signature(item).parameters)
    if isinstance(item, type):
        names |= {name for base in item.__mro__ for name in vars(base).get("__annotations__", {})}
        names |= {field.name for field in fields(item)} if is_dataclass(item) else set()
    return names


def public_names() -> dict[str, dict[str, str]]:
    """Return of each module its public classes and functions, with their full names."""
    found: dict[str, dict[str, str]] = {}
    for short in MODULES:
        path = f"echelon.{short}"
        module = import_module(path)
        own = [name for name, item in vars(module).items() if getattr(item, "__module__", "") == path]
        names = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
        found[path] = {
            name: f"{path}.{name}"
            for name in names
            if inspect.isclass(getattr(module, name)) or inspect.isfunction(getattr(module, name))
        }
    return found


def setup(app: Sphinx) -> ExtensionMetadata:
    """Let docstrings through `rendered`."""
    named = public_names()
    everywhere: dict[str, str] = {}
    for names in reversed(named.values()):
        everywhere |= names
    for full in list(everywhere.values()):
        everywhere |= {full: full, full.removeprefix("echelon."): full}

    def process(app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
        home = next((names for path, names in named.items() if name.startswith(f"{path}.") or name == path), {})
        lines[:] = rendered(lines, arguments_of(item), everywhere | home)

    def read(app: Sphinx, page: str, text: list[str]) -> None:
        # doctest needs an empty line after the last output of a block; readers don't
        text[0] = re.sub(r"\n\n( *```)$", r"\n\1", text[0], flags=re.MULTILINE)

    def named_arrays(app: Sphinx, what: str, name: str, item: Any, options: Any, taken: str, given: str) -> Any:
        return tuple(
            text and _ARRAY.sub(lambda found: _ARRAYS.get(found[1], "NumberArray"), text) for text in (taken, given)
        )

    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", named_arrays)
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
