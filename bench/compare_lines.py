"""How many lines of code a module has: those that hold something other than a comment or a docstring."""

import ast
import io
import tokenize
from collections.abc import Iterable
from pathlib import Path

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_HERE = Path(__file__).parent


def lines_of(modules: Iterable[str]) -> int:
    """Return how many lines of code some modules of this folder have together."""
    return sum(code_lines((_HERE / f"{name}.py").read_text(encoding="utf-8")) for name in modules)


def code_lines(source: str) -> int:
    """Return how many lines of a source hold code.

    >>> code_lines('# a comment\\n\\nx = (\\n    1\\n)\\n')
    3
    """
    described = {line for node in ast.walk(ast.parse(source)) for line in _docstring(node)}
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - described)


def _docstring(node: ast.AST) -> range:
    """Return the lines of a node's docstring, if it has one."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return range(0)
    if ast.get_docstring(node) is None:
        return range(0)
    first = node.body[0]
    return range(first.lineno, (first.end_lineno or first.lineno) + 1)
