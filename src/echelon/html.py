"""Small tables for notebooks, of which every text is escaped."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

MOST = 30  # rows that are shown


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as HTML; of a long one the first rows, and how many more there are.

    >>> table("a < b", ["worker", "mean"], [["<w1>", 0.123456]])
    '<table><caption>a &lt; b</caption><thead><tr><th>worker</th><th>mean</th></tr></thead><tbody><tr><td
    style="text-align: left">&lt;w1&gt;</td><td>0.1235</td></tr></tbody></table>'
    """
    listed = list(rows)
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    head = f"<thead><tr>{head}</tr></thead>" if columns else ""
    body = "".join(_row(row) for row in listed[:MOST])
    if len(listed) > MOST:
        body += f'<tr><td colspan="{len(columns)}">… and {len(listed) - MOST} more</td></tr>'
    return f"<table><caption>{escape(title)}</caption>{head}<tbody>{body}</tbody></table>"


def facts(title: str, values: Mapping[str, object]) -> str:
    """Return a table of names and values.

    >>> facts("job 1", {"delay (s)": 2.0, "failed": None})
    '<table><caption>job 1</caption><tbody><tr><td style="text-align: left">delay
    (s)</td><td>2</td></tr><tr><td style="text-align: left">failed</td><td>–</td></tr></tbody></table>'
    """
    return table(title, [], values.items())


def _row(cells: Sequence[object]) -> str:
    first, *others = (escape(_text(cell)) for cell in cells)
    return f'<tr><td style="text-align: left">{first}</td>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>'


def _text(cell: object) -> str:
    if cell is None:
        return "–"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
