"""Learning curves from log directories: find runs, group seeds of one experiment, read their numbers.

Files may come from strangers: only regular files are opened, their sizes are checked before, and a run with a file that
cannot be read keeps a line about it.
"""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tfbaselines.envs.monitor import LoadMonitorResultsError
from tfbaselines.errors import UsageError, unknown
from tfbaselines.files import read_document
from tfbaselines.logs.formats import STEPS, read_csv, read_json
from tfbaselines.plot.plot_util import check_file, load_episodes

if TYPE_CHECKING:
    import pandas

# The algorithms' columns of steps and returns, in order of preference; `steps` and `r` are columns of monitor files.
XAXES = (*STEPS, "Epoch")
TIMES = ("misc/time_elapsed", "time_elapsed", "TimeElapsed", "Time", "total/duration", "t")
EPISODES = ("total/episodes", "EpisodesSoFar", "episodes")
# Short names of x-axes.
SHORT_XAXES = {"steps": STEPS, "time": TIMES, "episodes": EPISODES}
RETURNS = (
    *("eprewmean", "EpTrueRewMean", "EpRewMean", "AverageTestEpRet", "AverageEpRet", "mean 100 episode reward"),
    *("mean_episode_reward", "eval/return", "rollout/return", "test_reward", "r"),
)
# her's measure, which is no return.
SUCCESS = "test/success_rate"
# Spinning Up's name for the mean return.
PERFORMANCE = "Performance"

# The seed at the end of a directory's name: pong-2, pong_s2, seed2.
SEED = re.compile(r"(^|[-_.])(s|seed|run)?[-_.]?\d+$")

# Single episodes are noisy: average this many, unless the user chooses another number.
EPISODES_SMOOTHED = 21
MAX_POINTS = 1000
# Runs that end within this fraction of the longest one end together.
SAME_END = 0.02

LARGEST_CONFIG = 2**20
LONGEST_REASON = 400
# Larger numbers do not fit on an axis.
LARGEST_NUMBER = 1e100
# Directories that the name of a group lists.
NAMES_SHOWN = 3

# Entries of config.json that differ between the seeds of one experiment, or that do not change the numbers.
OF_ONE_RUN = {
    *("given", "command", "arguments", "started", "versions", "git_commit", "host", "platform", "exp_name", "env.env"),
    *("env.worker", "env.env_threads", "env.step_timeout", "env.restart_workers"),
    *("seed", "env.seed", "learn.checkpoint_path", "logger", "logger_kwargs", "output_dir"),
}
READERS: dict[str, Callable[..., "pandas.DataFrame"]] = {
    "progress.csv": read_csv,
    "progress.txt": lambda path: read_csv(path, separator="\t"),
    "progress.json": read_json,
}


class Run(NamedTuple):
    """One directory with logs.

    Attributes:
        dirname: path of the directory.
        group: parts of the experiment's path, or its name alone; runs of one group are its seeds.
        tables: frames with rows, by kind ('progress' before 'monitor').
        env: id of the environment; empty if no file has it.
        label: shortest distinct name of the group; see `labelled`.
        settings: names and values of its configuration without the seed; runs with others are not its seeds.
        named: the user named the group, by --legend or exp_name, so that equal settings do not join it to another.
        problems: a line for each file that cannot be read.
    """

    dirname: str
    group: tuple[str, ...]
    tables: dict[str, "pandas.DataFrame"]
    env: str = ""
    label: str = ""
    settings: frozenset[tuple[str, str]] = frozenset()
    named: bool = False
    problems: tuple[str, ...] = ()


class Series(NamedTuple):
    """Numbers of one run: [N] x ascending, [N] y, and the names of their columns."""

    x: np.ndarray
    y: np.ndarray
    x_name: str
    y_name: str


class Curve(NamedTuple):
    """One line of a plot.

    Attributes:
        label: entry of the legend.
        x, y: points, [N] each.
        low, high: band around the line, [N] each.
        experiment: name that decides the line's color and style in all panels; empty for the label.
        runs: [N] number of runs that had not ended before x; None for all.
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    experiment: str = ""
    runs: np.ndarray | None = None


def expand(path: str) -> list[str]:
    """Return a directory itself, or all directories with this prefix, as Spinning Up completes them."""
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        return [path]
    parent, prefix = os.path.split(path)
    names = sorted(os.listdir(parent or ".")) if os.path.isdir(parent or ".") else []
    found = [os.path.join(parent, name) for name in names if prefix and name.startswith(prefix)]
    found = [name for name in found if os.path.isdir(name)]
    if not found:
        raise UsageError(f"{path} is not a directory, and no directory begins with it")
    return found


def find_runs(root: str, legend: str | None = None) -> list[Run]:
    """Find the runs in `root` and below it; `legend` names their group, by default the experiment."""
    runs = []
    for dirname, subdirs, files in os.walk(root):
        subdirs.sort()
        tables, problems = {}, []
        for kind, read in (("progress", _read_progress), ("monitor", _read_monitor)):
            try:
                with np.errstate(all="ignore"):
                    table = read(dirname, files)
            # A damaged table makes pandas raise almost anything.
            except Exception as error:
                why = " ".join(str(error)[:LONGEST_REASON].split()) or type(error).__name__
                problems.append(why if dirname in why else f"the {kind} of {dirname} cannot be read: {why}")
            else:
                tables |= {kind: table} if table is not None and len(table) else {}
        if tables or problems:
            config = _config(dirname)
            group = (legend,) if legend else group_of(dirname)
            env = _environment(config, tables)
            named = bool(legend) or isinstance(config.get("exp_name"), str)
            runs.append(Run(dirname, group, tables, env, "", settings_of(config), named, tuple(problems)))
    return runs


def _read_progress(dirname: str, files: Sequence[str]) -> "pandas.DataFrame | None":
    for name, read in READERS.items():
        if name in files:
            return read(check_file(os.path.join(dirname, name)))
    return None


def _read_monitor(dirname: str, files: Sequence[str]) -> "pandas.DataFrame | None":
    """Read the episodes, with the number of steps up to the end of each."""
    try:
        episodes = load_episodes(dirname)
    except LoadMonitorResultsError:
        return None
    episodes["timesteps"] = episodes["l"].cumsum()
    episodes["episodes"] = np.arange(1, len(episodes) + 1)
    return episodes


def _config(dirname: str) -> dict[str, Any]:
    """Read a run's config.json; empty if it is missing or damaged."""
    try:
        config = read_document(os.path.join(dirname, "config.json"), LARGEST_CONFIG)
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def settings_of(config: dict[str, Any], prefix: str = "") -> frozenset[tuple[str, str]]:
    """Return the names and values that are equal for all seeds of an experiment."""
    found: set[tuple[str, str]] = set()
    for name, value in config.items():
        path = f"{prefix}{name}"
        # A later version may know more about environments, which is None by default.
        if path in OF_ONE_RUN or (prefix == "env." and value is None):
            continue
        if isinstance(value, dict):
            found |= settings_of(value, f"{path}.")
        elif " at 0x" not in str(value):
            found.add((path, str(value)))
    return frozenset(found)


def _environment(config: dict[str, Any], tables: dict[str, "pandas.DataFrame"]) -> str:
    """Find the environment's id in config.json or in the monitor files."""
    env = config.get("env")
    names = [env.get("env") if isinstance(env, dict) else None]
    if "monitor" in tables:
        names += [header.get("env_id") for header in tables["monitor"].headers]
    return next((name for name in names if isinstance(name, str)), "")


def group_of(dirname: str) -> tuple[str, ...]:
    """Find a run's experiment: exp_name of its config.json, or the parts of its path without the seed.

    `logs/pong-2`, `logs/pong_s2`, `logs/pong/seed2`, `logs/pong/2` and `logs/seed2/pong` are all `logs/pong`.
    """
    name = _config(dirname).get("exp_name")
    if isinstance(name, str):
        return (name,)
    path = Path(dirname).resolve()
    # A parent directory is dropped only if its whole name is a seed: 'lr-3' is a setting.
    parts = [part for part in path.parent.parts[1:] if SEED.sub("", part)]
    return tuple(part for part in (*parts, SEED.sub("", path.name)) if part) or (path.name,)


def labelled(runs: Sequence[Run]) -> list[Run]:
    """Label runs by the shortest end of their group's path that no other group has, and by settings that differ."""
    runs = _grouped_by_settings(runs)
    labels = _told_apart({run.group for run in runs})
    settings = {group: {run.settings for run in runs if run.group == group} for group in labels}
    differing = {group: differing_settings(of_group) for group, of_group in settings.items()}
    words = [[labels[run.group], *settings_shown(run.settings, differing[run.group])] for run in runs]
    return [run._replace(label=" ".join(own)) for run, own in zip(runs, words, strict=True)]


def _grouped_by_settings(runs: Sequence[Run]) -> list[Run]:
    """Put runs of one environment with equal settings into one group, named after all their directories."""
    labels = _told_apart({run.group for run in runs})
    names: dict[Any, dict[str, None]] = {}
    for run in (run for run in runs if not run.named):
        names.setdefault((run.env, run.settings), {})[labels[run.group]] = None
    grouped = []
    for run in runs:
        found = [] if run.named else list(names[run.env, run.settings])
        if run.settings and len(found) > 1:
            name = ", ".join([*found[:NAMES_SHOWN], *(["..."] if len(found) > NAMES_SHOWN else [])])
            run = run._replace(group=(name,))
        grouped.append(run)
    return grouped


def differing_settings(settings: set[frozenset[tuple[str, str]]]) -> frozenset[tuple[str, str]]:
    """Return the settings that not all of several runs have."""
    return frozenset.union(*settings) - frozenset.intersection(*settings)


def settings_shown(settings: frozenset[tuple[str, str]], differing: frozenset[tuple[str, str]]) -> list[str]:
    """Return a run's values of the settings that differ."""
    return [f"{name.removeprefix('learn.')}={value}" for name, value in sorted(settings & differing)]


def labelled_each(runs: Sequence[Run], named: bool) -> list[Run]:
    """Label each run by the shortest distinct end of its path, after its group's label if that was `named`."""
    paths = [Path(run.dirname).resolve().parts for run in runs]
    labels = _told_apart(set(paths))
    return [
        run._replace(label=f"{run.label}: {labels[path]}" if named else labels[path])
        for run, path in zip(runs, paths, strict=True)
    ]


def _told_apart(paths: set[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Map each path to the shortest end that no other path has."""

    def ending(path: tuple[str, ...]) -> str:
        for count in range(1, len(path) + 1):
            if sum(other[-count:] == path[-count:] for other in paths) == 1:
                return "/".join(path[-count:])
        return "/".join(path)

    return {path: ending(path) for path in paths}


def check_column(runs: Sequence[Run], name: str, option: str) -> None:
    """Check that some run has a column; the error suggests the nearest."""
    columns = {str(column): None for run in runs for table in run.tables.values() for column in table.columns}
    if name not in columns:
        raise unknown(f"column in {option}", name, columns)


def series(run: Run, xaxes: Sequence[str], values: Sequence[str], smooth: int | None = None) -> Series | None:
    """Read a run's curve; None if no table of the run has numbers for it.

    Args:
        run: the run.
        xaxes: columns for x; the first in the value's table is used.
        values: columns for y; the first in the run's tables is used.
        smooth: width of a moving average; None smooths single episodes only.
    """
    for value in values:
        for kind, table in run.tables.items():
            x_name = next((name for name in xaxes if name in table.columns), None)
            if value not in table.columns or x_name is None:
                continue
            x, y = (_numbers(table[name], run.dirname) for name in (x_name, value))
            # The mean return is NaN until the first episode ends, and NaN fails the comparison.
            kept = (np.abs(x) < LARGEST_NUMBER) & (np.abs(y) < LARGEST_NUMBER)
            if kept.any():
                x, y = x[kept], y[kept]
                order = np.argsort(x, kind="stable")
                width = smooth or (EPISODES_SMOOTHED if kind == "monitor" else 1)
                return Series(x[order], moving_average(y[order], width), x_name, value)
    return None


def moving_average(y: np.ndarray, width: int) -> np.ndarray:
    """Compute the centered moving average over `width` values; near the ends, of the values within the window."""
    if width <= 1 or len(y) == 0:
        return np.asarray(y, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    sums = np.concatenate([[0.0], np.cumsum(y)])
    index = np.arange(len(y))
    first = np.maximum(index - (width - 1) // 2, 0)
    last = np.minimum(index + width // 2 + 1, len(y))
    return (sums[last] - sums[first]) / (last - first)


def _numbers(column: Any, dirname: str) -> np.ndarray:
    try:
        return column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"the column '{column.name}' in {dirname} does not hold numbers") from None


def merge(label: str, curves: Sequence[Series], estimate: str = "mean") -> Curve:
    """Merge the curves of several seeds, with a band of one standard deviation around their mean.

    A run that ends before others keeps its last value, so that the line does not jump there.

    Args:
        label: name of the curve.
        curves: one curve for each seed; their x may differ, and some may be shorter.
        estimate: 'mean', 'max' or 'min' over the seeds that have begun at x.
    """
    xs = [curve.x for curve in curves]
    same = all(np.array_equal(x, xs[0]) for x in xs[1:])
    grid = xs[0] if same else np.unique(np.concatenate(xs))
    if len(grid) > MAX_POINTS and not same:
        grid = np.linspace(grid[0], grid[-1], MAX_POINTS)
    ys = np.array([c.y if same else np.interp(grid, c.x, c.y, left=np.nan) for c in curves])
    mean, std = np.nanmean(ys, axis=0), np.nanstd(ys, axis=0)
    line = {"mean": np.nanmean, "max": np.nanmax, "min": np.nanmin}[estimate](ys, axis=0)
    ends = np.array([x[-1] for x in xs])
    ends[ends >= grid[-1] - SAME_END * (grid[-1] - grid[0])] = grid[-1]
    runs = (ends[:, None] >= grid).sum(axis=0)
    return Curve(label, grid, line, mean - std, mean + std, runs=runs)
