"""Tables of a run, read without pandas: the columns of progress files, and episodes of monitor files.

A table of any length is thinned while it is read, so that ten million steps take as long as a million. Files may come
from strangers: only regular files are opened, and what is no number is nan.
"""

import csv
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tfbaselines.errors import UsageError
from tfbaselines.files import open_regular
from tfbaselines.logs.formats import STEPS

# Rows that are kept of a table, and of an episode file besides its first ones.
MOST_ROWS = 4000
FIRST_EPISODES = 300
# Larger files are read in evenly spaced blocks.
LARGEST_WHOLE = 2**26
BLOCK = 2**16
BLOCKS = 256
MOST_COLUMNS = 2000
MOST_COPIES = 64
LONGEST_HEADER = 4096

# Columns of each quantity, by baselines, Spinning Up and Stable-Baselines3, in order of preference.
QUANTITIES: dict[str, tuple[str, ...]] = {
    "steps": (*STEPS, "time/total_timesteps", "total_steps"),
    "return": (
        *("eprewmean", "EpTrueRewMean", "EpRewMean", "AverageEpRet", "mean 100 episode reward", "mean_episode_reward"),
        *("rollout/ep_rew_mean", "rollout/return_history", "rollout/return", "eprew", "AverageTestEpRet"),
    ),
    "length": ("eplenmean", "EpLenMean", "EpLen", "rollout/ep_len_mean", "rollout/episode_steps"),
    "entropy": ("loss/policy_entropy", "policy_entropy", "entropy", "loss_ent", "Entropy", "train/entropy_loss"),
    "explained_variance": (
        *("misc/explained_variance", "explained_variance", "ev_tdlam_before", "train/explained_variance"),
    ),
    "kl": ("loss/approxkl", "meankl", "loss_kl", "KL", "kl", "train/approx_kl"),
    "clip_fraction": ("loss/clipfrac", "ClipFrac", "train/clip_fraction"),
    "value_loss": ("loss/value_loss", "value_loss", "loss_vf_loss", "LossV", "train/value_loss"),
    "gradient_norm": ("grad_norm", "norm_grads", "train/grad_norm"),
    "q": ("AverageQ1Vals", "AverageQVals", "reference_Q_mean", "rollout/Q_mean", "test/mean_Q"),
    "q_largest": ("MaxQ1Vals", "MaxQVals"),
    "q_smallest": ("MinQ1Vals", "MinQVals"),
    "q_loss": ("LossQ1", "LossQ", "train/critic_loss", "train/loss_critic", "train/loss"),
    "log_probability": ("AverageLogPi",),
    "temperature": ("Alpha", "train/ent_coef"),
    "deviation": ("train/std",),
    "exploration": ("% time spent exploring", "epsilon", "rollout/exploration_rate"),
    "rate": ("lr", "train/learning_rate"),
    "updates": ("misc/nupdates", "nupdates", "train/n_updates"),
}
# Columns with the opposite sign.
NEGATED = {"train/entropy_loss"}
PERCENT = {"% time spent exploring"}
FILES = {"progress.csv": ",", "progress.txt": "\t"}


class Table(NamedTuple):
    """Columns of a table [N] by name, and the number of rows that the file has."""

    columns: dict[str, np.ndarray]
    rows: int


class Series(NamedTuple):
    """Values of a quantity that are numbers [N], their environment steps [N], and the name of the column."""

    column: str
    steps: np.ndarray
    values: np.ndarray


class Copy(NamedTuple):
    """Episodes of one copy of the environment.

    Attributes:
        returns, lengths: of every `stride`-th episode, [N].
        first: returns and lengths of the first episodes, [M, 2].
        env: id of the environment; empty if the file has none.
    """

    returns: np.ndarray
    lengths: np.ndarray
    stride: int
    first: np.ndarray
    env: str = ""


def read_table(path: Path, separator: str) -> Table:
    """Read the columns of a progress file; UsageError if it is no table."""
    lines, head, rows = _lines(path)
    names = _cells([head], separator, path)[0] if head else []
    if len(names) > MOST_COLUMNS:
        raise UsageError(f"{path} is not a table of a run: it has {len(names):,} columns")
    kept = thinned(lines, MOST_ROWS)
    # The last row of a run that goes on may be torn.
    cells = [row for row in _cells(kept, separator, path) if len(row) == len(names)]
    values = np.array([[_number(cell) for cell in row] for row in cells]).reshape(-1, len(names))
    return Table({name: values[:, column] for column, name in enumerate(names)}, rows)


def read_episodes(path: Path) -> Copy:
    """Read a monitor file; UsageError if it is none."""
    lines, head, _ = _lines(path)
    names = _cells([head], ",", path)[0] if head else []
    if not {"r", "l"} <= set(names):
        raise UsageError(f"{path} is not a monitor file: it has no columns r and l")
    places = [names.index("r"), names.index("l")]
    stride = max(1, math.ceil(len(lines) / MOST_ROWS))
    first, rows = (_numbers(some, len(names), places, path) for some in (lines[:FIRST_EPISODES], lines[::stride]))
    return Copy(rows[:, 0], rows[:, 1], stride, first, _environment(path))


def _environment(path: Path) -> str:
    """Return the environment's id in the JSON of a monitor file's first line; empty without one."""
    with open_regular(path) as file:
        line = file.readline(LONGEST_HEADER)
    try:
        header = json.loads(line.removeprefix(b"#"))
    except (ValueError, RecursionError):
        return ""
    name = header.get("env_id") if isinstance(header, dict) else None
    return name if isinstance(name, str) else ""


def _numbers(lines: Sequence[str], width: int, places: Sequence[int], path: Path) -> np.ndarray:
    """Read some columns of lines [N, columns]; rows that are torn or have no numbers are left out."""
    cells = [row for row in _cells(lines, ",", path) if len(row) == width]
    values = np.array([[_number(row[place]) for place in places] for row in cells]).reshape(-1, len(places))
    return values[np.isfinite(values).all(axis=1)]


def thinned(lines: list[str], most: int) -> list[str]:
    """Return evenly spaced lines, the first and the last among them."""
    if len(lines) <= most:
        return lines
    return [lines[place] for place in np.linspace(0, len(lines) - 1, most).astype(int)]


def _lines(path: Path) -> tuple[list[str], str, int]:
    """Return the lines of a table below its head, the head, and the number of lines; comments are left out."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= LARGEST_WHOLE:
            text = file.read().decode("utf-8", errors="replace")
            lines = [line for line in text.splitlines() if line and not line.startswith("#")]
            return lines[1:], lines[0] if lines else "", len(lines) - 1
        lines = []
        for place in np.linspace(0, size - BLOCK, BLOCKS).astype(int):
            file.seek(place)
            block = file.read(BLOCK).decode("utf-8", errors="replace").splitlines()
            # All but the first block begin in the middle of a line.
            lines += [line for line in block[0 if place == 0 else 1 : -1] if not line.startswith("#")]
    rows = int(size / (BLOCKS * BLOCK) * len(lines))
    return lines[1:], lines[0] if lines else "", rows


def _cells(lines: Sequence[str], separator: str, path: Path) -> list[list[str]]:
    try:
        return list(csv.reader(lines, delimiter=separator))
    except csv.Error as error:
        raise UsageError(f"{path} is not a table: {error}") from None


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def steps_of(table: Table) -> np.ndarray:
    """Return the environment steps of a table's rows; their numbers if it has no such column."""
    for name in QUANTITIES["steps"]:
        if name in table.columns:
            return table.columns[name]
    return np.arange(1, len(next(iter(table.columns.values()), [])) + 1, dtype=float)


def series(table: Table, quantity: str) -> Series | None:
    """Return a quantity's values in a table; None if the table has no column of it, or no number in the column."""
    for name in QUANTITIES[quantity]:
        if name not in table.columns:
            continue
        values = table.columns[name]
        values = -values if name in NEGATED else values / 100 if name in PERCENT else values
        kept = np.isfinite(values) & np.isfinite(steps_of(table))
        if kept.any():
            return Series(name, steps_of(table)[kept], values[kept])
    return None
