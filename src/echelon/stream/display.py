"""What a stream is doing, live on a terminal; in a notebook see `notebook`, elsewhere the log lines of ``echelon``."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from echelon import checks
from echelon.stream import notebook
from echelon.stream.around import Around, is_terminal, taken
from echelon.stream.driver import Driver
from echelon.stream.facts import COLUMNS, Facts, Now

if TYPE_CHECKING:
    from rich.console import Group

_REFRESH = 4  # times per second


def wanted(progress: bool | None) -> bool:
    """Return whether to show a display on a terminal: if asked for, or if standard error is one."""
    return is_terminal(sys.stderr) if progress is None else checks.flag("progress", progress)


def display(progress: bool | None, driver: Driver, names: Sequence[str], *, fixed: bool) -> Facts | None:
    """Return a display where one is wanted: by default in notebooks, and where standard error is a terminal.

    A terminal has one display at a time: a stream that is opened beside one that has it shows nothing.
    """
    if progress is not False and notebook.there():
        return notebook.NotebookDisplay(driver, names, fixed=fixed)
    return Display(driver, names, fixed=fixed) if wanted(progress) and not taken() else None


class Display(Facts):
    """How far jobs are, how quickly it goes on, and every worker's state."""

    def __init__(self, driver: Driver, names: Sequence[str], *, fixed: bool) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(driver, names, fixed=fixed)
        console = Console(file=sys.stderr, markup=False, emoji=False, highlight=False)
        self._live = Live(
            console=console,
            refresh_per_second=_REFRESH,
            get_renderable=lambda: rendered(self.now()),
            transient=True,
            redirect_stdout=False,  # see `Around`: that would mix what threads print
            redirect_stderr=False,
        )
        self._around = Around(self._print, names)
        self._live.start()
        self._around.begin()

    def _print(self, lines: list[str]) -> None:
        from rich.text import Text

        self._live.console.print(*map(Text.from_ansi, lines), sep="\n", soft_wrap=True)

    def close(self) -> None:
        """Remove the display."""
        self._around.end()
        self._live.stop()


def rendered(now: Now) -> "Group":
    """Return a bar, a line of progress and a table of workers for the terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    head = Table.grid(padding=(0, 1))
    bar = [] if now.share is None else [ProgressBar(total=1.0, completed=now.share, width=24)]
    head.add_row(*bar, Text("  ".join([now.title(), *now.progress()])))
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "state" else "right")
    listed, more = now.table()
    for row in listed:
        table.add_row(*map(Text, row))
    return Group(head, *[Text(line) for line in (now.details(),) if line], table, *[Text(more)] * bool(more))
