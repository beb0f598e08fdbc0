"""`echelon watch`: a record as a page in a browser, while it is written or when it is done."""

from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from echelon.cli.console import out
from echelon.cli.options import PageAt
from echelon.page.followed import show_record
from echelon.stream.monitors import page_at

Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="Record of a run, from Stream(record=…), that is over or still goes on.", show_default=False
    ),
]


def watch(run: Run, page: PageAt = None) -> None:
    """Show a recorded run, or one that is still going on, as a page in a browser.

    Ctrl-C ends it. What a stream shows of itself by 'echelon run --page' has more: the round that is open.
    """
    where = page_at(page or True)
    assert where is not None
    try:
        show_record(run, where, _told, Event())
    except KeyboardInterrupt:
        out.print("The page is closed.")


def _told(url: str) -> None:
    out.print(f"The page is {url}", soft_wrap=True)
    out.print("Ctrl-C closes it.")
