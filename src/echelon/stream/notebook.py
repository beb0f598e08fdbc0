"""What a stream is doing, live in a notebook: plain HTML that is replaced in place, without widgets."""

import contextvars
import logging
import sys
from collections.abc import Sequence
from html import escape
from threading import Event, Thread
from typing import Any

from echelon.stream.driver import Driver
from echelon.stream.facts import COLUMNS, Facts, Now

log = logging.getLogger("echelon.stream")

_EVERY_S = 0.5
_JOIN_S = 2.0  # how long the end of a stream waits for the last state to be shown


def there() -> bool:
    """Return whether this program runs in a notebook; IPython is never imported for that."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class NotebookDisplay(Facts):
    """The facts of a stream in the output of the cell that opened it; the last state stays.

    A thread of its own shows them, so that a browser that is slow or gone holds up nothing.
    """

    def __init__(self, driver: Driver, names: Sequence[str], *, fixed: bool) -> None:
        from IPython import display

        super().__init__(driver, names, fixed=fixed)
        self._html: Any = display.HTML
        self._shown = html(self.now())
        self._cell: Any = display.display(self._html(self._shown), display_id=True)
        self._closed = Event()
        # the kernel finds the cell that an output belongs to by the context
        show = contextvars.copy_context().run
        self._thread = Thread(target=show, args=(self._show,), name="echelon-notebook", daemon=True)
        self._thread.start()

    def _show(self) -> None:
        try:
            while not self._closed.wait(_EVERY_S):
                self._update(html(self.now()))
            self._update(html(self.now(), closed=True))
        except Exception:
            log.exception("the display in the notebook ends here; the stream goes on")

    def _update(self, text: str) -> None:
        if text != self._shown:
            self._shown = text
            self._cell.update(self._html(text))

    def close(self) -> None:
        """Leave the last state."""
        self._closed.set()
        self._thread.join(_JOIN_S)


def html(now: Now, *, closed: bool = False) -> str:
    """Return a bar, a line of progress and a table of workers, in the colours that the page has."""
    bar = "" if now.share is None else f'<progress value="{now.share:.4f}" max="1"></progress> '
    words = " · ".join([*now.progress(), *["closed"] * closed])
    listed, more = now.table()
    head = f"<div>{bar}<b>{escape(now.title())}</b> · {escape(words)}</div><div>{escape(now.details())}</div>"
    names = "".join(f"<th>{column}</th>" for column in COLUMNS)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in listed)
    return f'<div class="echelon">{head}<table><tr>{names}</tr>{lines}</table>{more}</div>'
