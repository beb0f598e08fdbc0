"""Sections of docs/results.md that commands write: between two markers is the latest output."""

from pathlib import Path


def section(path: Path, name: str) -> str:
    """Return the text between the markers of section `name`."""
    return _cut(path, name)[1]


def replace_section(path: Path, name: str, text: str) -> None:
    """Put `text` between the markers of section `name`; both markers must exist."""
    head, _, tail = _cut(path, name)
    path.write_text(f"{head}\n{text.strip()}\n{tail}", encoding="utf-8")


def part(title: str, text: str) -> str:
    """Return a part of a section, under its title."""
    return f"### {title}\n\n{text}"


def parts(path: Path, name: str) -> dict[str, str]:
    """Return the parts of a section so far, by title."""
    found = ("\n" + section(path, name).strip()).split("\n### ")[1:]
    return {title.strip(): text.strip() for title, _, text in (one.partition("\n") for one in found)}


def _cut(path: Path, name: str) -> tuple[str, str, str]:
    """Return a document up to the marker that begins a section, marker included, the section, and the rest."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    document = path.read_text(encoding="utf-8")
    if document.count(begin) != 1 or document.count(end) != 1:
        raise SystemExit(f"{path}: needs one '{begin}' and one '{end}'")
    head, _, rest = document.partition(begin)
    middle, _, tail = rest.partition(end)
    return head + begin, middle, end + tail


def markdown_table(columns: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
