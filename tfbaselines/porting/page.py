"""MIGRATION.md from the table: where the names of the originals are."""

from tfbaselines.porting.port import Port
from tfbaselines.porting.stable_baselines3 import section
from tfbaselines.porting.table import BASELINES, SPINUP

HEAD = """# From baselines, Spinning Up and Stable-Baselines3

Made by `python -m tfbaselines.porting > MIGRATION.md`, the tables of baselines and Spinning Up from the one that the
imports themselves come from.

Replace `baselines` or `spinup` by `tfbaselines` in an import, and `import gym` by `import gymnasium as gym`. The names
below are imported from the same path; the last column is where they are in this package. A name that is listed without
a counterpart can be imported too; calling it, or deriving a class from it, is one line that names what to use instead.
What differs in behaviour: README, "Differences from the originals". For Stable-Baselines3 see
[the end](#stable-baselines3).
"""

ABSENT = "no counterpart: "


def migration_page() -> str:
    """The page."""
    parts = [HEAD]
    for package, table in (("baselines", BASELINES), ("spinup", SPINUP)):
        parts += [f"## `{package}`\n", "| import from | names | here |", "|---|---|---|"]
        parts += [row for path, port in table.items() for row in _rows(f"{package}.{path}", port)]
        parts.append("")
    return "\n".join([*parts, *section(), ""])


def _rows(path: str, port: Port) -> list[str]:
    rows = []
    if port.same is not None:
        rows.append(_row(path, "all", f"`tfbaselines.{port.same}`"))
    for module, names in port.names.items():
        here = [one.partition("=")[2] for one in names.split() if "=" in one]
        renamed = f", there {_code(here)}" if here else ""
        rows.append(
            _row(path, _code(one.partition("=")[0] for one in names.split()), f"`tfbaselines.{module}`{renamed}")
        )
    if port.rest is not None:
        call = f"; itself a function, `tfbaselines.{port.call}`" if port.call else ""
        note = f"; {port.note}" if port.note else ""
        rows.append(_row(path, "`learn`, ...", f"`tfbaselines.{port.rest}`{call}{note}"))
    by_advice: dict[str, list[str]] = {}
    for name, what in port.instead.items():
        by_advice.setdefault(what, []).append(name)
    rows += [_row(path, _code(names), ABSENT + what) for what, names in by_advice.items()]
    if port.nothing is not None:
        rows.append(_row(path, "others" if port.names else "all", ABSENT + port.nothing))
    return rows


def _row(*cells: str) -> str:
    return f"| `{cells[0]}` | {cells[1]} | {cells[2]} |"


def _code(names: object) -> str:
    return ", ".join(f"`{name}`" for name in names)
