"""Formulas as MathML, which browsers draw without a script, a font or a network."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def inline(visitor: nodes.NodeVisitor, node: nodes.math) -> None:
    """Write a formula in a line."""
    visitor.body.append(convert(node.astext()))
    raise nodes.SkipNode


def display(visitor: nodes.NodeVisitor, node: nodes.math_block) -> None:
    """Write a formula of its own line, which scrolls where it is too wide."""
    visitor.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
