"""Tables of TensorBoard's event files, of CleanRL and others."""

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tfbaselines.errors import UsageError
from tfbaselines.files import check_size, in_units
from tfbaselines.logs.services import read_summaries
from tfbaselines.plot.columns import EPISODE_RETURNS, RATES, RETURNS

if TYPE_CHECKING:
    import pandas

# Bytes of the files of a run; each record is decoded in Python.
LARGEST = 2**26
# Memory for a row in multiples of its bytes in the file.
GROWTH = 64
# Columns of a table: those that this package reads, and the first others.
KNOWN = {*RETURNS, *RATES}
MOST_TAGS = 64
# CleanRL writes its arguments as a table of Markdown in a text of this name.
ARGUMENTS = "hyperparameters"
# Entries of the table that name the run.
OF_THE_RUN = ("env_id", "exp_name", "seed")


def scalars(paths: Sequence[str | os.PathLike]) -> "pandas.DataFrame":
    """Read the scalars of a run's event files, a row for each event, NaN for what it lacks.

    The columns are the tags, `steps`, `seconds` since the first event, and `episodes` if an episode's return is among
    the tags. The attribute `config` of the frame has CleanRL's arguments.
    """
    import pandas

    size = sum(os.path.getsize(path) for path in paths)
    if size > LARGEST:
        raise UsageError(f"the event files have {in_units(size)}, at most {in_units(LARGEST)} are read")
    check_size(GROWTH * size)
    rows: list[dict[str, float]] = []
    tags = set(KNOWN)
    config: dict[str, object] = {}
    for seconds, step, values in (event for path in paths for event in read_summaries(path)):
        config |= _arguments(values)
        numbers = {tag: value for tag, value in values.items() if isinstance(value, float) and _kept(tag, tags)}
        if numbers:
            rows.append(numbers | {"steps": step, "seconds": seconds})
    table = pandas.DataFrame(rows)
    if rows:
        table["seconds"] -= table["seconds"].min()
    for tag in EPISODE_RETURNS:
        if tag in table:
            table["episodes"] = table[tag].notna().cumsum()
    table.attrs["config"] = config
    return table


def _kept(tag: str, tags: set[str]) -> bool:
    """Return whether a tag has a column; add a column for a new one while there are few."""
    if tag not in tags and len(tags) < MOST_TAGS:
        tags.add(tag)
    return tag in tags


def _arguments(values: dict[str, float | str]) -> dict[str, object]:
    """Read the arguments in an event, as a config.json has them."""
    texts = (text for tag, text in values.items() if isinstance(text, str) and tag.startswith(ARGUMENTS))
    pairs = dict(_cells(line for text in texts for line in text.splitlines()[2:]))
    learn = {name: value for name, value in pairs.items() if name not in OF_THE_RUN}
    return {name: pairs[name] for name in OF_THE_RUN if name in pairs} | ({"learn": learn} if learn else {})


def _cells(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Yield the two cells of each row of a table of Markdown."""
    for line in lines:
        cells = line.strip().strip("|").split("|", 1)
        if len(cells) == len(("name", "value")):
            yield cells[0].strip(), cells[1].strip()
