"""Formulas as MathML, which browsers show by themselves: no script, no picture, nothing from the network."""

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

log = logging.getLogger(__name__)


def written(node: nodes.math | nodes.math_block, *, block: bool) -> str:
    """Return a formula as MathML; one that can't be read is a warning, and stands there as it is."""
    try:
        return str(latex2mathml.tex2mathml(node.astext(), as_block=block))
    except MathError as error:
        log.warning("%s: %s", error, node.astext(), location=node)
        return f"<code>{node.astext()}</code>"


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(written(node, block=False))
    raise nodes.SkipNode


def display(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    self.body.append(f"{self.starttag(node, 'div', CLASS='math')}{written(node, block=True)}</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the renderer as `mathml`."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
