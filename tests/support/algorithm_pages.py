"""The pages of algorithms in docs/: sections, logged columns that they explain, places in the code that they name."""

import re

from pages import DOCS, ROOT

SECTIONS = (
    *("Equations", "The algorithm, and our code", "Can I use?", "Arguments", "Logged columns", "Results"),
    *("Where each detail comes from", "You should know"),
)
# A column of a signal, of a group of options, or of several ranks; the page on reward signals explains the first.
OF_OPTIONS = re.compile(
    r"(curiosity|rnd|extrinsic)/|pretraining/|global_timesteps$|dropped_updates$|(eval|episode|timers)/"
    r"|(\w+_)?lr$|cliprange$"
)


def page_of(alg):
    """The path of an algorithm's page."""
    return DOCS / "algorithms" / f"{alg}.md"


def text_of(alg):
    """A page with the files that it includes."""
    page = page_of(alg)

    def included(found):
        return (page.parent / found[1]).read_text(encoding="utf-8")

    return re.sub(r"```\{include\} (\S+)\n```", included, page.read_text(encoding="utf-8"))


def explained(alg):
    """Names of the columns that the section on logged columns explains: in the first cell of a row."""
    section = text_of(alg).split("\n## Logged columns\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+`) \|", section, re.M)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def unexplained(alg, columns):
    """Columns of a log that the algorithm's page does not explain; none for an algorithm without a page."""
    if not page_of(alg).exists():
        return []
    known = explained(alg)
    return [column for column in columns if column not in known and not OF_OPTIONS.match(column)]


def places(text):
    """Pairs of a file of the package and a name in it, such as ('learn/engine.py', 'Engine.block')."""
    return re.findall(r"\b([\w/]+\.py):([A-Za-z_][\w.]*)", text)


def files(text):
    """Files of the repository that a page names as code."""
    return re.findall(r"`((?:tests|data)/[\w/.]+\.\w+)`", text)


def is_defined(path, name):
    """Whether a file of the package defines a function or class, or a class with a method."""
    code = (ROOT / "tfbaselines" / path).read_text(encoding="utf-8")
    return all(re.search(rf"^\s*(?:def|class) {part}\b", code, re.M) for part in name.split("."))
