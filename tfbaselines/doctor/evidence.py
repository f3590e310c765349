"""Evidence of a run: what the rules read, from its files or from the rows of a run that goes on."""

import csv
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfbaselines.doctor.columns import (
    FILES,
    MOST_COPIES,
    QUANTITIES,
    Copy,
    Series,
    Table,
    read_episodes,
    read_table,
    series,
    steps_of,
)
from tfbaselines.doctor.settings import Settings
from tfbaselines.errors import UsageError
from tfbaselines.files import read_document

HERE = Path(__file__).parent
LARGEST_CONFIG = 2**20
# Episodes below which returns show no trend.
FEWEST_EPISODES = 20


class Environment(NamedTuple):
    """A known environment: returns and lengths of a random policy, its time limit, and the best known score or nan."""

    return_low: float
    return_high: float
    return_mean: float
    length_low: float
    length_high: float
    limit: float
    best: float


class Episodes(NamedTuple):
    """Episodes in the order of their ends: steps of all copies so far, returns and lengths, [N] each."""

    steps: np.ndarray
    returns: np.ndarray
    lengths: np.ndarray


class Trend(NamedTuple):
    """Mean return of the first and of the last episodes, the best mean between, and the deviation of an episode."""

    early: float
    late: float
    best: float
    deviation: float

    @property
    def gain(self) -> float:
        """Late minus early, in deviations of an episode."""
        return (self.late - self.early) / max(self.deviation, 1e-9 * (1 + abs(self.late)))


class Evidence:
    """Facts about one run, from its files.

    Attributes:
        settings: the run's settings.
        table: the rows of its log.
        copies: episodes of each copy of its environment.
        read: names of the files that were read.
        problems: a line for each file that cannot be read.

    Args:
        episodes: episodes in their order, where there are no files of copies.
    """

    def __init__(
        self,
        settings: Settings,
        table: Table,
        copies: list[Copy],
        *,
        read: tuple[str, ...] = (),
        problems: tuple[str, ...] = (),
        episodes: Episodes | None = None,
    ) -> None:
        self.settings = settings
        self.table = table
        self.copies = copies
        self.read = read
        self.problems = problems
        self._episodes = episodes

    @functools.cached_property
    def steps(self) -> float:
        """Environment steps so far."""
        rows = steps_of(self.table)
        rows = rows[np.isfinite(rows)]
        if len(rows) and "steps" not in self.lacking:
            return float(rows[-1])
        return float(self.episodes.steps[-1]) if len(self.episodes.steps) else 0.0

    @functools.cached_property
    def planned(self) -> float | None:
        """Environment steps that the run was to take; None if they are unknown."""
        return self.settings.number("total_timesteps")

    @property
    def whole(self) -> float:
        """Environment steps of the whole run, also if it goes on."""
        return max(self.steps, self.planned or 0.0)

    @functools.cached_property
    def lacking(self) -> list[str]:
        """Quantities that the run's table has no column of."""
        return [name for name, columns in QUANTITIES.items() if not set(columns) & self.table.columns.keys()]

    def series(self, quantity: str) -> Series | None:
        """Return the values of a quantity that are numbers; None without any."""
        return series(self.table, quantity)

    def late(self, quantity: str) -> Series | None:
        """Return the second half of a quantity's rows; None for fewer than four rows."""
        found = self.series(quantity)
        if found is None or len(found.values) < 4:
            return None
        half = len(found.values) // 2
        return Series(found.column, found.steps[half:], found.values[half:])

    @functools.cached_property
    def episodes(self) -> Episodes:
        """Episodes of all copies, in the order of the steps at which they ended."""
        if self._episodes is not None:
            return self._episodes
        ends = [np.cumsum(copy.lengths) * copy.stride * max(1, len(self.copies)) for copy in self.copies]
        if not ends:
            return Episodes(*[np.empty(0)] * 3)
        order = np.argsort(np.concatenate(ends), kind="stable")
        returns = np.concatenate([copy.returns for copy in self.copies])[order]
        lengths = np.concatenate([copy.lengths for copy in self.copies])[order]
        return Episodes(np.concatenate(ends)[order], returns, lengths)

    @functools.cached_property
    def known(self) -> Environment | None:
        """Facts about the run's environment; None for an unknown one."""
        return environments().get(self.settings.env.rpartition(":")[2])

    @functools.cached_property
    def trend(self) -> Trend | None:
        """Change of the returns, by episodes or else by the column of mean returns; None for too few of them."""
        returns = self.episodes.returns
        if len(returns) < FEWEST_EPISODES:
            column = self.series("return")
            if column is None or len(column.values) < 5:
                return None
            returns = column.values
        tenth = max(2, len(returns) // 10)
        means = np.convolve(returns, np.ones(tenth) / tenth, "valid")
        early, late = returns[: 2 * tenth], returns[-2 * tenth :]
        # Differences of neighbors have the deviation of an episode, without the trend.
        deviation = float(np.median(np.abs(np.diff(returns)))) / 0.954
        deviation = max(deviation, float(np.std(early)) / 2)
        return Trend(float(early.mean()), float(late.mean()), float(means.max()), deviation)

    @property
    def learned(self) -> bool:
        """True if returns clearly rose."""
        return self.trend is not None and self.trend.gain > 1.0

    @functools.cached_property
    def reward(self) -> float | None:
        """Typical size of a step's reward, from returns and lengths of episodes; None without episodes."""
        lengths, returns = self.episodes.lengths, self.episodes.returns
        if not len(lengths):
            of_rows, length = self.series("return"), self.series("length")
            if of_rows is None or length is None:
                return None
            lengths, returns = np.array([np.median(length.values)]), np.array([np.median(np.abs(of_rows.values))])
        return float(np.median(np.abs(returns) / np.maximum(lengths, 1)))

    @functools.cached_property
    def length(self) -> float | None:
        """Median length of an episode; None without episodes."""
        if len(self.episodes.lengths):
            return float(np.median(self.episodes.lengths))
        column = self.series("length")
        return None if column is None else float(np.median(column.values))

    @property
    def takes_steps(self) -> bool:
        """False if the run's steps are recorded ones: of demonstrations or a data set."""
        return self.settings.alg != "bc" and not self.settings.value("offline")

    @functools.cached_property
    def num_env(self) -> int:
        """Number of copies of the environment."""
        given = self.settings.env_settings.get("num_env")
        return given if isinstance(given, int) and given > 0 else max(1, len(self.copies))

    @property
    def normalizes_rewards(self) -> bool:
        """True if the run divides rewards by a running deviation."""
        normalize = self.settings.env_settings.get("normalize")
        mujoco = self.settings.env.endswith(("-v4", "-v5"))
        return normalize in ("rewards", "both") or (normalize is True and mujoco)


@functools.cache
def environments() -> dict[str, Environment]:
    """Return what is known of environments, by their ids (tests/doctor/environments.py)."""
    with open(HERE / "environments.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        row["env"]: Environment(**{name: float(row[name] or "nan") for name in Environment._fields}) for row in rows
    }


def of_directory(directory: Path, defaults: Callable[[str], Mapping[str, Any]]) -> Evidence:
    """Read the files of a run; UsageError if there is none.

    Args:
        directory: the run's log directory.
        defaults: function of an algorithm's name that returns its arguments' defaults.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory: give the log directory of a run (--log_path)")
    read: list[str] = []
    problems: list[str] = []

    def tried(path: Path, reader: Callable[[Path], Any]) -> Any:
        try:
            content = reader(path)
        except (OSError, ValueError) as error:
            problems.append(f"{path.name} cannot be read: {' '.join(str(error).split())[:300]}")
            return None
        read.append(path.name)
        return content

    found = [(directory / name, separator) for name, separator in FILES.items() if (directory / name).exists()]
    tables = [tried(path, functools.partial(read_table, separator=separator)) for path, separator in found]
    monitors = sorted(directory.glob("*monitor.csv"))[:MOST_COPIES]
    copies = [copy for copy in (tried(path, read_episodes) for path in monitors) if copy is not None]
    config = directory / "config.json"
    document = tried(config, functools.partial(read_document, largest=LARGEST_CONFIG)) if config.exists() else {}
    if not read:
        nothing = f"{directory} has no progress.csv, progress.txt, config.json or monitor.csv: it is no run"
        raise UsageError("; ".join(problems) or nothing)
    config = document if isinstance(document, dict) else {}
    settings = Settings(config, defaults(config["alg"] if isinstance(config.get("alg"), str) else ""))
    settings.env = settings.env or next((copy.env for copy in copies if copy.env), "")
    table = next((table for table in tables if table is not None), Table({}, 0))
    return Evidence(settings, table, copies, read=tuple(read), problems=tuple(problems))
