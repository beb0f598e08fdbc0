"""Observers from the layer above, for streams that are asked for them.

What shows a stream is built on streams, so it can't be imported here: it is loaded by its name, as clusters are, and
only where it is wanted.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from echelon.errors import ArgumentError
from echelon.stream.observer import Observer

MONITORS = {
    "metrics": "echelon.page.metrics_file.MetricsFile",
    "page": "echelon.page.live.LivePage",
    "around": "echelon.page.live.Around",
}
LOOPBACK = "127.0.0.1"
_MOST_PORT = 65_535


def metrics_observer(path: str | Path, names: Sequence[str]) -> Observer:
    """Return what writes metrics to a file; `names` are those of the places."""
    made: Observer = _loaded("metrics")(Path(path), names)
    return made


def page_observer(where: tuple[str, int], names: Sequence[str], **around: Any) -> Any:
    """Return what shows the stream as a page, whose address is its `url`; `around`: as `page.live.Around` has it."""
    return _loaded("page")(where, names, _loaded("around")(**around))


def page_at(page: bool | str) -> tuple[str, int] | None:
    """Return where a page is to listen, from what a stream was told: an address and a port, 0 for any that is free.

    >>> page_at(True), page_at("8765"), page_at("0.0.0.0:8765"), page_at(False)
    (('127.0.0.1', 0), ('127.0.0.1', 8765), ('0.0.0.0', 8765), None)
    """
    if isinstance(page, bool):
        return (LOOPBACK, 0) if page else None
    address, _, port = page.rpartition(":") if isinstance(page, str) else ("", "", "")
    if not (port.isascii() and port.isdecimal() and int(port) <= _MOST_PORT):
        raise ArgumentError(f"page: {page!r} is not allowed; must be True, False, a port, or an address and a port")
    return address.strip("[]") or LOOPBACK, int(port)


def _loaded(name: str) -> Any:
    module, _, kind = MONITORS[name].rpartition(".")
    return getattr(import_module(module), kind)
