"""`echelon schemes`: all schemes, endings, codes, laws and clusters, by the names that other commands take."""

import re
from collections.abc import Callable
from importlib import import_module
from inspect import getdoc
from typing import Any

from echelon.cli.choices import USUAL
from echelon.cli.console import print_json, print_table
from echelon.cli.options import AsJson
from echelon.errors import EchelonError
from echelon.spec import shown_arguments

REGISTRIES = [  # title, module, registry
    ("Schemes: --scheme NAME:KEY=VALUE,… of plan and simulate", "echelon.schemes", "SCHEMES"),
    ("Schemes for chains of products: --scheme of simulate; MatmulStream", "echelon.schemes", "CHAINS"),
    ("Schemes for chains of gradients: --scheme of simulate; TurnJob", "echelon.schemes", "GRADIENT_CHAINS"),
    ("Endings: --ending NAME:KEY=VALUE,… of simulate; waiting=NAME of a chain", "echelon.endings", "ENDINGS"),
    ("Codes: --code NAME:KEY=VALUE,… of plan, simulate and run", "echelon.codes", "CODES"),
    ("Laws of task times: --law NAME:KEY=VALUE,… of plan, simulate, tune and run", "echelon.delays", "DELAYS"),
    ("Clusters: --cluster NAME:KEY=VALUE,… of run and profile", "echelon.clusters", "CLUSTERS"),
]
_TOLD = ("mean", "std", "rng", *USUAL)  # arguments that other options or the profile give


def schemes(json: AsJson = False) -> None:
    """List all schemes, endings, codes, laws and clusters, each with its arguments and one line on what it is."""
    found = [(title, key, entries(module, key)) for title, module, key in REGISTRIES]
    if json:
        print_json({key.lower(): {name: _said(entry) for name, entry in some.items()} for _, key, some in found})
        return
    for title, _, some in found:
        said = [(name, _said(entry)) for name, entry in some.items()]
        rows = [[name, told["arguments"], told["about"]] for name, told in said]
        print_table(title, ["name", "arguments", "what it is"], rows, numbers=False)


def entries(module: str, registry: str) -> dict[str, Any]:
    """Return a registry."""
    found: dict[str, Any] = getattr(import_module(module), registry)
    return found


def _said(entry: Any) -> dict[str, str]:
    """Return the arguments of an entry with their defaults, and the first sentence of its docstring."""
    try:
        entry = getattr(entry, "type", entry)  # a kind of cluster names its class
    except EchelonError as missing:
        return {"arguments": "", "about": f"not installed: {missing}"}
    called: Callable[..., Any] = getattr(entry, "fit", entry)  # laws are fitted to what a profile says
    without = _TOLD if isinstance(entry, type) else ("rng",)
    return {"arguments": shown_arguments(called, without=without), "about": first_sentence(getdoc(entry) or "")}


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring, without its full stop.

    >>> first_sentence("Return one, i.e. the first. And more.")
    'Return one, i.e. the first'
    """
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<!i\.e)(?<!e\.g)\.(?:\s|$)", paragraph)[0]
