"""Learning curves from log directories: find runs, group seeds of one experiment, read their numbers.

Files may come from strangers: only regular files are opened, their sizes are checked before, and a run with a file that
cannot be read keeps a line about it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tfbaselines.errors import UsageError, unknown
from tfbaselines.files import read_document
from tfbaselines.plot.columns import EPISODE_RETURNS
from tfbaselines.plot.readers import READERS

if TYPE_CHECKING:
    import pandas

# The seed at the end of a directory's name: pong-2, pong_s2, seed2.
SEED = re.compile(r"(^|[-_.])(s|seed|run)?[-_.]?\d+$")
# CleanRL's names of directories end in the seed and the time: CartPole-v1__ppo__1__1711111111.
SEED_AND_TIME = re.compile(r"__\d+__\d{9,}$")

# Single episodes are noisy: average this many, unless the user chooses another number.
EPISODES_SMOOTHED = 21
MAX_POINTS = 1000
# Runs that end within this fraction of the longest one end together.
SAME_END = 0.02

LARGEST_CONFIG = 2**20
LONGEST_REASON = 400
# Damaged files that an error names.
MOST_PROBLEMS = 3
# Larger numbers do not fit on an axis.
LARGEST_NUMBER = 1e100
# Directories that the name of a group lists.
NAMES_SHOWN = 3

# Entries of config.json that differ between the seeds of one experiment, or that do not change the numbers.
OF_ONE_RUN = {
    *("given", "command", "arguments", "started", "versions", "git_commit", "host", "platform", "exp_name", "env.env"),
    *("env.worker", "env.env_threads", "env.in_series", "env.step_timeout", "env.restart_workers"),
    *("seed", "env.seed", "learn.checkpoint_path", "logger", "logger_kwargs", "output_dir", "env_id", "env_name"),
    # CleanRL's arguments that do not change the numbers.
    *("learn.track", "learn.wandb_project_name", "learn.wandb_entity", "learn.capture_video", "learn.save_model"),
    *("learn.torch_deterministic", "learn.cuda", "learn.upload_model", "learn.hf_entity"),
}


class Run(NamedTuple):
    """One directory with logs.

    Attributes:
        dirname: path of the directory.
        group: parts of the experiment's path, or its name alone; runs of one group are its seeds.
        tables: frames with rows, by kind, in the order of readers.READERS.
        env: id of the environment; empty if no file has it.
        label: shortest distinct name of the group; see `labelled`.
        settings: names and values of the configuration without the seed; runs with others are not its seeds.
        named: the user named the group, by --legend or exp_name, so that equal settings do not join it to another.
        problems: a line for each file that cannot be read.
        config: configuration; empty if no file has it.
    """

    dirname: str
    group: tuple[str, ...]
    tables: dict[str, "pandas.DataFrame"]
    env: str = ""
    label: str = ""
    settings: frozenset[tuple[str, str]] = frozenset()
    named: bool = False
    problems: tuple[str, ...] = ()
    config: Mapping[str, Any] = MappingProxyType({})


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


def file_in_first(path: str, name: str) -> str:
    """Return the path of a file in a directory, or, for a prefix of several directories, in their parent."""
    first, *others = expand(path)
    return os.path.join(os.path.dirname(first) if others else first, name)


def find_runs(root: str, legend: str | None = None) -> list[Run]:
    """Find the runs in `root` and below it; `legend` names their group, by default the experiment."""
    runs: list[Run] = []
    logged: set[str] = set()
    for dirname, subdirs, files in os.walk(root):
        subdirs.sort()
        # TensorBoard's files in a directory below a run's logs repeat them.
        kinds = [kind for kind in READERS if kind != "events" or os.path.dirname(dirname) not in logged]
        tables, problems = _read(dirname, files, kinds)
        if tables or problems:
            runs.append(_run(dirname, tables, problems, legend))
            logged.add(dirname)
    return runs


def find_all(roots: Sequence[str], names: Sequence[str | None]) -> tuple[list[Run], list[str]]:
    """Find the runs in and below several directories, each run once.

    Args:
        roots: directories.
        names: for each the name of its group, or None.

    Returns:
        Runs with tables, and a line for each file that cannot be read and each directory without logs. Without any run
        with a table it is a UsageError.
    """
    found: dict[str, Run] = {}
    bare: list[str] = []
    for root, name in zip(roots, names, strict=True):
        runs = find_runs(root, name)
        bare += [] if runs else [root]
        for run in runs:
            found.setdefault(os.path.realpath(run.dirname), run)
    problems = [line for run in found.values() for line in run.problems]
    readable = [run for run in found.values() if run.tables]
    if not readable:
        nothing = f"no progress.csv, progress.txt, progress.json or monitor files with rows: {', '.join(bare)}"
        raise UsageError("; ".join(problems[:MOST_PROBLEMS]) or nothing)
    return readable, problems + [f"nothing to plot yet in {root}" for root in bare]


def _read(dirname: str, files: Sequence[str], kinds: Sequence[str]) -> tuple[dict[str, "pandas.DataFrame"], list[str]]:
    """Read the tables of a directory that have rows; a line for each file that cannot be read."""
    tables: dict[str, pandas.DataFrame] = {}
    problems: list[str] = []
    for kind in kinds:
        # TensorBoard's files beside another log repeat it too.
        if kind == "events" and tables:
            continue
        try:
            with np.errstate(all="ignore"):
                table = READERS[kind](dirname, files)
        # A damaged table makes pandas raise almost anything.
        except Exception as error:
            why = " ".join(str(error)[:LONGEST_REASON].split()) or type(error).__name__
            problems.append(why if dirname in why else f"the {kind} of {dirname} cannot be read: {why}")
        else:
            tables |= {kind: table} if table is not None and len(table) else {}
    return tables, problems


def _run(dirname: str, tables: dict[str, "pandas.DataFrame"], problems: list[str], legend: str | None) -> Run:
    events = tables.get("events")
    config = read_config(dirname) or ({} if events is None else events.attrs["config"])
    group = (legend,) if legend else group_of(dirname, config)
    named = bool(legend) or isinstance(config.get("exp_name"), str)
    env = _environment(config, tables)
    return Run(dirname, group, tables, env, "", settings_of(config), named, tuple(problems), config)


def read_config(dirname: str) -> dict[str, Any]:
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
    """Find the environment's id in the configuration or in the monitor files."""
    env = config.get("env")
    names = [env.get("env") if isinstance(env, dict) else env, config.get("env_name"), config.get("env_id")]
    if "monitor" in tables:
        names += [header.get("env_id") for header in tables["monitor"].headers]
    return next((name for name in names if isinstance(name, str)), "")


def group_of(dirname: str, config: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Find a run's experiment: exp_name of its configuration, or the parts of its path without the seed.

    `logs/pong-2`, `logs/pong_s2`, `logs/pong/seed2`, `logs/pong/2` and `logs/seed2/pong` are all `logs/pong`.
    """
    name = (read_config(dirname) if config is None else config).get("exp_name")
    if isinstance(name, str):
        return (name,)
    path = Path(dirname).resolve()
    # A parent directory is dropped only if its whole name is a seed: 'lr-3' is a setting.
    parts = [part for part in path.parent.parts[1:] if SEED.sub("", part)]
    name = SEED_AND_TIME.sub("", path.name) if SEED_AND_TIME.search(path.name) else SEED.sub("", path.name)
    return tuple(part for part in (*parts, name) if part) or (path.name,)


def labelled(runs: Sequence[Run]) -> list[Run]:
    """Label runs by the shortest end of their group's path that no other group has, and by settings that differ."""
    runs = grouped_by_settings(runs)
    labels = shortest_ends({run.group for run in runs})
    settings = {group: {run.settings for run in runs if run.group == group} for group in labels}
    differing = {group: differing_settings(of_group) for group, of_group in settings.items()}
    words = [[labels[run.group], *settings_shown(run.settings, differing[run.group])] for run in runs]
    return [run._replace(label=" ".join(own)) for run, own in zip(runs, words, strict=True)]


def grouped_by_settings(runs: Sequence[Run]) -> list[Run]:
    """Put runs of one environment with equal settings into one group, named after all their directories."""
    labels = shortest_ends({run.group for run in runs})
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
    labels = shortest_ends(set(paths))
    return [
        run._replace(label=f"{run.label}: {labels[path]}" if named else labels[path])
        for run, path in zip(runs, paths, strict=True)
    ]


def shortest_ends(paths: set[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
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
                single = kind == "monitor" or value in EPISODE_RETURNS
                width = smooth or (EPISODES_SMOOTHED if single else 1)
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
    grid, ys, runs = aligned(curves)
    mean, std = np.nanmean(ys, axis=0), np.nanstd(ys, axis=0)
    line = {"mean": np.nanmean, "max": np.nanmax, "min": np.nanmin}[estimate](ys, axis=0)
    return Curve(label, grid, line, mean - std, mean + std, runs=runs)


def aligned(curves: Sequence[Series], most: int = MAX_POINTS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Put the curves of several seeds on one grid.

    Returns:
        grid [N]; values [S, N], NaN before a run's first, and its last value after its end; number of runs [N] that
        had not ended.
    """
    xs = [curve.x for curve in curves]
    same = all(np.array_equal(x, xs[0]) for x in xs[1:])
    grid = xs[0] if same else np.unique(np.concatenate(xs))
    if len(grid) > most and not same:
        grid = np.linspace(grid[0], grid[-1], most)
    ys = np.array([c.y if same else np.interp(grid, c.x, c.y, left=np.nan) for c in curves])
    ends = np.array([x[-1] for x in xs])
    ends[ends >= grid[-1] - SAME_END * (grid[-1] - grid[0])] = grid[-1]
    return grid, ys, (ends[:, None] >= grid).sum(axis=0)
