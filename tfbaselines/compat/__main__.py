"""``python -m tfbaselines.compat baselines`` (or spinup, stable-baselines3) prints a table of names there and here."""

import sys

from tfbaselines.compat import ANY, CALL, SCRIPT, WHOLE, Row, rows
from tfbaselines.config.stable_baselines3 import OF_ALL, OTHERS, TWINS

KINDS = {ANY: "all others", WHOLE: "all", CALL: "the module, called as a function", SCRIPT: "`python -m`"}


def names_table(package: str) -> str:
    """Write the table of a package's names, 'baselines' or 'spinup'."""
    lines = [_line(row) for row in rows() if row.paths[0].startswith(f"{package}.")]
    return _table(("import from", "names", "here"), lines)


def arguments_table() -> str:
    """Write the table of arguments that have another name in Stable-Baselines3."""
    lines = []
    for there, twin in TWINS.items():
        arguments = "; ".join(_renamed(old, new) for old, new in twin.arguments.items())
        lines.append(f"| `{there}` | `{twin.here}` | {arguments} | {twin.differs} |")
    return _table(("there", "here", "arguments", "differs"), lines)


def calls_table() -> str:
    """Write the table of Stable-Baselines3's calls, classes and arguments of all algorithms."""
    lines = [f"| {old} | {new} |" for old, new in OTHERS.items()]
    for there, (in_python, typed) in OF_ALL.items():
        lines.append(f"| `{there}` | in Python {in_python}; on the command line {typed} |")
    return _table(("there", "here"), lines)


def _table(head: tuple[str, ...], lines: list[str]) -> str:
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines, ""])


def _renamed(old: str, new: str) -> str:
    names, _, note = new.partition(", ")
    here = " and ".join(f"`{name}`" for name in names.split())
    return f"{here} (`{old}`)" + (f", {note}" if note else "")


def _line(row: Row) -> str:
    old, new = zip(*(name.partition("=")[::2] for name in row.names), strict=True)
    names = "`learn`, ..." if old == (ANY,) and row.here else KINDS.get(row.names[0]) or _code(old)
    renamed = f", there {_code(filter(None, new))}" if any(new) else ""
    remark = f"; {row.remark}" if row.remark else ""
    here = f"`{row.here}`{renamed}{remark}" if row.here else f"no counterpart: {row.remark}"
    if old == (SCRIPT,):
        here = f"`{row.remark}`"
    return f"| {_code(row.paths)} | {names} | {here} |"


def _code(names: object) -> str:
    return ", ".join(f"`{name}`" for name in names)


TABLES = {
    "baselines": lambda: names_table("baselines"),
    "spinup": lambda: names_table("spinup"),
    "stable-baselines3": lambda: f"{arguments_table()}\n{calls_table()}",
}


def main(words: list[str]) -> int:
    """Print the table that is named; return the exit status."""
    if len(words) != 1 or words[0] not in TABLES:
        print(f"usage: python -m tfbaselines.compat {{{','.join(TABLES)}}}", file=sys.stderr)
        return 2
    sys.stdout.write(TABLES[words[0]]())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
