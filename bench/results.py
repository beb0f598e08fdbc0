"""Sections of docs/results.md that commands write: what stands between two markers is what was printed last."""

from pathlib import Path


def replace_section(path: Path, name: str, text: str) -> None:
    """Put `text` between the markers of section `name`; both markers must be there already."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    document = path.read_text(encoding="utf-8")
    if document.count(begin) != 1 or document.count(end) != 1:
        raise SystemExit(f"{path}: needs one '{begin}' and one '{end}'")
    head, rest = document.split(begin)
    _, tail = rest.split(end)
    path.write_text(f"{head}{begin}\n{text.strip()}\n{end}{tail}", encoding="utf-8")


def markdown_table(columns: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
