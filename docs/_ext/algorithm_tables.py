"""Sphinx directives for the algorithms' pages: can-i-use, arguments and scores, each with an algorithm's name.

The tables are made when the site is built, from the registry, the Configs and data/benchmarks (facts.py).
"""

import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parent))

import facts


class AlgorithmTable(SphinxDirective):
    """Insert Markdown that a function of facts.py makes of an algorithm's name."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (name,) = self.arguments
        if name not in facts.ALGORITHMS:
            raise self.error(f"unknown algorithm '{name}'")
        lines = self.lines(name)
        container = nodes.container(classes=["algorithm-table"])
        self.state.nested_parse(StringList(lines, source=facts.__file__), self.content_offset, container)
        return [container]

    def lines(self, name: str) -> list[str]:
        """Return the Markdown."""
        raise NotImplementedError


class CanIUse(AlgorithmTable):
    """Insert the table of the spaces and options that an algorithm takes."""

    def lines(self, name: str) -> list[str]:
        return facts.use_table(name)


class Arguments(AlgorithmTable):
    """Insert the tables of an algorithm's arguments."""

    def lines(self, name: str) -> list[str]:
        return facts.argument_tables(name)


class Scores(AlgorithmTable):
    """Insert the table of an algorithm's measured scores."""

    def lines(self, name: str) -> list[str]:
        return facts.score_table(name)


def setup(app: Any) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("can-i-use", CanIUse)
    app.add_directive("arguments", Arguments)
    app.add_directive("scores", Scores)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
