"""Names of Stable-Baselines3 and their counterparts here, for errors and for docs/migration.

stable_baselines3.csv has the names there and here. Its first column is the algorithms there that an argument belongs
to, 'all' (the counterparts in Python and on the command line), 'algorithm' or 'call'.
"""

import csv
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple


class Twin(NamedTuple):
    """An algorithm of Stable-Baselines3 or sb3-contrib and the nearest one here.

    Attributes:
        here: name of the algorithm here.
        arguments: the names here by the name there, separated by spaces; a note may follow a comma.
        differs: defaults that differ in kind, not only in number.
    """

    here: str
    arguments: dict[str, str]
    differs: str


with open(Path(__file__).with_suffix(".csv"), encoding="utf-8", newline="") as _file:
    _ROWS = list(csv.reader(_file))[1:]

TWINS = {
    name: Twin(
        here,
        {old: f"{new}, {note}" if note else new for of, old, new, note in _ROWS if name in of.split()},
        differs,
    )
    for kind, name, here, differs in _ROWS
    if kind == "algorithm"
}
# Counterparts of arguments that all algorithms have there: in Python, on the command line.
OF_ALL = {name: (in_python, typed) for kind, name, in_python, typed in _ROWS if kind == "all"}
# Counterparts of calls and classes.
OTHERS = {old: new for kind, old, new, _ in _ROWS if kind == "call"}


def name_here(name: str, known: Collection[str], form: str) -> str | None:
    """Return a hint with the name here of an argument of Stable-Baselines3; None if there is none.

    Args:
        name: name of the argument there.
        known: names of the arguments here.
        form: format of an argument, '{}=' in Python and '--{}' on the command line.
    """
    if name in OF_ALL:
        return OF_ALL[name][form.startswith("--")]
    for twin in TWINS.values():
        names, _, note = twin.arguments.get(name, "").partition(", ")
        if names and set(names.split()) <= set(known):
            here = " and ".join(map(form.format, names.split()))
            return f"Stable-Baselines3's {name} is {here} here" + (f", {note}" if note else "")
    return None
