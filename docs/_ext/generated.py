"""Tables from the registry, the migration tables and the benchmarks' numbers, written anew by every build."""

from pathlib import Path

from sphinx.application import Sphinx

from tfbaselines.compat.__main__ import arguments_table, calls_table, names_table


def tables() -> dict[str, str]:
    """Return every table as Markdown, by its file's name."""
    return {
        "baselines_names": names_table("baselines"),
        "spinningup_names": names_table("spinup"),
        "stable_baselines3_arguments": arguments_table(),
        "stable_baselines3_calls": calls_table(),
    }


def write(app: Sphinx) -> None:
    """Write the tables into docs/_generated, from where pages include them."""
    directory = Path(app.srcdir) / "_generated"
    directory.mkdir(exist_ok=True)
    for name, text in tables().items():
        path = directory / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the tables before pages are read."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
