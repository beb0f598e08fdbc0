"""Observers from the layer above, for streams that are asked for them.

What shows a stream is built on streams, so it can't be imported here: it is loaded by its name, as clusters are, and
only where it is wanted.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from echelon.stream.observer import Observer

MONITORS = {"metrics": "echelon.page.metrics_file.MetricsFile"}


def metrics_observer(path: str | Path, names: Sequence[str]) -> Observer:
    """Return what writes metrics to a file; `names` are those of the places."""
    return _made("metrics", Path(path), names)


def _made(name: str, *values: Any) -> Observer:
    module, _, kind = MONITORS[name].rpartition(".")
    made: Observer = getattr(import_module(module), kind)(*values)
    return made
