"""Readers of the log files of a directory, of this package and of others, as tables of rows.

Each reader takes a directory and the names of its files and returns a table, or None where there is nothing to read.
Files may come from strangers: only regular files are opened, and their sizes are checked before.
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfbaselines.envs.monitor import LoadMonitorResultsError
from tfbaselines.files import check_array, open_regular, read_archive
from tfbaselines.logs.formats import read_csv, read_json
from tfbaselines.plot.plot_util import check_file, load_episodes

if TYPE_CHECKING:
    import pandas

PROGRESS: dict[str, Callable[..., "pandas.DataFrame"]] = {
    "progress.csv": read_csv,
    "progress.txt": lambda path: read_csv(path, separator="\t"),
    "progress.json": read_json,
}
# Stable-Baselines3's file of tests during training.
EVALUATIONS = "evaluations.npz"
# Beginning of the names of TensorBoard's files.
EVENTS = "events.out.tfevents."


def read_progress(dirname: str, files: Sequence[str]) -> "pandas.DataFrame | None":
    """Read the table of the first log file among `files`."""
    for name, read in PROGRESS.items():
        if name in files:
            return read(check_file(os.path.join(dirname, name)))
    return None


def read_monitor(dirname: str, files: Sequence[str]) -> "pandas.DataFrame | None":
    """Read the episodes, with the number of steps up to the end of each."""
    try:
        episodes = load_episodes(dirname)
    except LoadMonitorResultsError:
        return None
    episodes["timesteps"] = episodes["l"].cumsum()
    episodes["episodes"] = np.arange(1, len(episodes) + 1)
    return episodes


def read_evaluations(dirname: str, files: Sequence[str]) -> "pandas.DataFrame | None":
    """Read Stable-Baselines3's evaluations.npz: the mean return of the episodes of each test."""
    import pandas

    if EVALUATIONS not in files:
        return None
    path = os.path.join(dirname, EVALUATIONS)
    # A pipe would never end.
    open_regular(path).close()
    arrays = read_archive(path)
    steps = check_array("timesteps", arrays.get("timesteps"), ("T",))
    results = check_array("results", arrays.get("results"), (len(steps), ...))
    means = results.reshape(len(steps), -1).mean(axis=1) if results.size else []
    return pandas.DataFrame({"timesteps": steps[: len(means)], "eval/mean_reward": means})


def read_events(dirname: str, files: Sequence[str]) -> "pandas.DataFrame | None":
    """Read TensorBoard's files of a directory; the module that does loads TensorFlow's or TensorBoard's formats."""
    names = sorted(name for name in files if name.startswith(EVENTS))
    if not names:
        return None
    from tfbaselines.plot.events import scalars

    return scalars([os.path.join(dirname, name) for name in names])


READERS = {
    "progress": read_progress,
    "evaluations": read_evaluations,
    "events": read_events,
    "monitor": read_monitor,
}
