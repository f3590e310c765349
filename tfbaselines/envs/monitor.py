"""Record the reward, length and time of every episode in a `monitor.csv` file.

The format is baselines': a line with a JSON header, then one CSV row per episode.

    # {"t_start": 1795224733.17, "env_id": "CartPole-v1"}
    r,l,t
    23.0,23,0.364196
"""

import contextlib
import csv
import json
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from glob import escape, glob
from typing import TYPE_CHECKING, Any, SupportsFloat

import gymnasium
import numpy as np

from tfbaselines.errors import UsageError, bad_argument, unknown, warn
from tfbaselines.files import drop_torn_line

if TYPE_CHECKING:
    import pandas

EXTENSION = "monitor.csv"
COLUMNS = ("r", "l", "t")

# Keys of the infos: whether the episode's goal is achieved.
SUCCESS = ("is_success", "success")


class LoadMonitorResultsError(Exception):
    """A directory has no monitor files."""


class Monitor(gymnasium.Wrapper):
    """Count an episode's reward and length; its last info gets `episode` = {'r', 'l', 't', ...}.

    If the info has an entry on the episode's success, `episode` has 'is_success', 1 or 0. Monitor is meant to be the
    innermost wrapper, where rewards are unchanged; only wrappers that end episodes, such as TimeLimit, belong inside.

    Args:
        env: the environment.
        filename: path of the file; a directory, or a name that does not end in `monitor.csv`, is completed.
            None writes no file.
        allow_early_resets: whether reset() may end an episode before it is over; such an episode is not recorded.
        reset_keywords: required arguments of reset() (or entries of `options`) that are written with the episode.
        info_keywords: keys of the last info that are written with the episode.
        append: continue the file and the clock of an earlier run.
    """

    EXT = EXTENSION

    def __init__(
        self,
        env: gymnasium.Env,
        filename: str | os.PathLike | None,
        allow_early_resets: bool = False,
        reset_keywords: Sequence[str] = (),
        info_keywords: Sequence[str] = (),
        append: bool = False,
    ):
        super().__init__(env)
        self.t_start = time.time()
        self.results_writer: ResultsWriter | None = None
        if filename is not None:
            self.results_writer = ResultsWriter(
                filename,
                header={"t_start": self.t_start, "env_id": env.spec.id if env.spec else None},
                extra_keys=(*reset_keywords, *info_keywords),
                append=append,
            )
            self.t_start = self.results_writer.header.get("t_start", self.t_start)
        self.allow_early_resets = allow_early_resets
        self.reset_keywords = tuple(reset_keywords)
        self.info_keywords = tuple(info_keywords)
        self._of_reset: dict[str, Any] = {}
        self._reward: float = 0
        self._length = 0
        self._needs_reset = True
        self._finished_steps = 0
        self._rewards: list[float] = []
        self._lengths: list[int] = []
        self._times: list[float] = []

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with the environment's arguments (`seed`, `options`)."""
        if not (self._needs_reset or self.allow_early_resets):
            raise RuntimeError(
                "the environment was reset before the end of its episode: put Monitor around wrappers that end "
                "episodes, Monitor(TimeLimit(env, ...)), or, if early resets are intended, give allow_early_resets=True"
            )
        options = kwargs.get("options") or {}
        for key in self.reset_keywords:
            if key not in kwargs and key not in options:
                raise UsageError(f"reset() needs '{key}', which is one of the monitor's reset_keywords")
            self._of_reset[key] = kwargs[key] if key in kwargs else options[key]
        begun = self.env.reset(**kwargs)
        self._finished_steps += self._length
        self._reward = 0
        self._length = 0
        self._needs_reset = False
        return begun

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a step. Until the episode ends this only sums and counts, since it is the hot path."""
        if self._needs_reset:
            raise RuntimeError("the environment was stepped after its episode's end; it needs reset() first")
        obs, reward, terminated, truncated, info = self.env.step(action)
        # The sum has double precision, also of float32 rewards.
        self._reward += reward if reward.__class__ is float else _number(reward)
        self._length += 1
        if terminated or truncated:
            info = self.end_episode(info)
        return obs, reward, terminated, truncated, info

    def close(self) -> None:
        super().close()
        if self.results_writer is not None:
            self.results_writer.close()

    def get_total_steps(self) -> int:
        return self._finished_steps + self._length

    def get_episode_rewards(self) -> list[float]:
        return self._rewards

    def get_episode_lengths(self) -> list[int]:
        return self._lengths

    def get_episode_times(self) -> list[float]:
        """Return the end of each finished episode in seconds after the monitor's start."""
        return self._times

    def progress(self) -> tuple[float, int]:
        """Return the sum of rewards and the number of steps of the current episode."""
        return self._reward, self._length

    def set_progress(self, reward: float, length: int) -> None:
        """Set the result of `progress`, after steps that another object took and counted."""
        self._reward = reward
        self._length = length

    def end_episode(self, info: dict[str, Any]) -> dict[str, Any]:
        """Record the episode that ended; return its last info with the entry `episode`."""
        self._needs_reset = True
        elapsed = time.time() - self.t_start
        self._rewards.append(self._reward)
        self._lengths.append(self._length)
        self._times.append(elapsed)
        episode = {"r": round(self._reward, 6), "l": self._length, "t": round(elapsed, 6)}
        for key in self.info_keywords:
            if key not in info:
                raise unknown("info_keywords entry, not in the last step's info,", key, map(str, info))
            episode[key] = info[key]
        episode.update(self._of_reset)
        if self.results_writer is not None:
            self.results_writer.write_row(episode)
        # The file has no column for it.
        success = success_of(info)
        if success is not None:
            episode["is_success"] = success
        # The environment may return the same dictionary in every step.
        return info | {"episode": episode}


def success_of(info: Mapping[str, Any]) -> float | None:
    """Return the success in an info as 1 or 0, None without one; UsageError for a value that is no number."""
    for key in SUCCESS:
        value = info.get(key)
        if value is None:
            continue
        # Lists of different lengths make no array.
        with contextlib.suppress(ValueError):
            number = np.asarray(value)
            if number.size == 1 and number.dtype.kind in "biuf":
                return float(number.item())
        shown = " ".join(repr(value).split())
        raise UsageError(f"the info's '{key}' is {shown:.100}: it must be True, False or a number")
    return None


def _number(reward: Any) -> float:
    """Return a reward of any numeric type as a Python number."""
    try:
        return reward.item()
    except AttributeError:
        return reward


class ResultsWriter:
    """Write episodes to a monitor file; each row is in the file when write_row returns.

    Args:
        filename: path; a directory, or a name that does not end in `monitor.csv`, is completed.
        header: the first line: a mapping, written as JSON, or text.
        extra_keys: columns after r, l and t.
        append: continue an existing file with the same columns; its header stays.
    """

    def __init__(
        self,
        filename: str | os.PathLike,
        header: Mapping[str, Any] | str = "",
        extra_keys: Sequence[str] = (),
        append: bool = False,
    ):
        self.filename = _completed(os.fspath(filename))
        self.fieldnames = (*COLUMNS, *extra_keys)
        self.header: dict[str, Any] = dict(header) if isinstance(header, Mapping) else {}
        self._text = header if isinstance(header, str) else None
        self._warned = False
        try:
            self._open(append)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise bad_argument("monitor file", self.filename, f"a path that can be written to ({why})") from None

    def write_row(self, epinfo: Mapping[str, Any]) -> None:
        """Write an episode: a mapping with exactly the file's columns.

        The first failure, such as a full disk, prints a warning. A file that was removed is made again, with a warning.
        """
        try:
            if not os.path.exists(self.filename):
                if not self._warned:
                    warn(f"{self.filename} was removed: a new file begins")
                removed = self._file
                self._open(append=False)
                removed.close()
            self._writer.writerow(epinfo)
            self._file.flush()
        except OSError as error:
            if not self._warned:
                self._warned = True
                warn(f"{self.filename} cannot be written to ({error})")

    def close(self) -> None:
        self._file.close()

    def _open(self, append: bool) -> None:
        os.makedirs(os.path.dirname(self.filename) or ".", exist_ok=True)
        continued = append and self._continue()
        self._file = open(self.filename, "a" if continued else "w", encoding="utf-8", newline="")  # noqa: SIM115
        self._writer = csv.DictWriter(self._file, fieldnames=self.fieldnames, lineterminator="\r\n")
        if not continued:
            self._file.write(f"# {json.dumps(self.header)} \n" if self._text is None else self._text)
            self._writer.writeheader()
            self._file.flush()

    def _continue(self) -> bool:
        """Read the header of a file to continue; return whether there is one. Other columns are a UsageError."""
        drop_torn_line(self.filename)
        if not os.path.isfile(self.filename) or os.path.getsize(self.filename) == 0:
            return False
        with open(self.filename, encoding="utf-8", newline="") as file:
            header, line = _split_header(file.readline(), self.filename)
            columns = tuple(next(csv.reader([line or file.readline()]), ()))
        if not columns:
            return False
        if columns != self.fieldnames:
            raise UsageError(
                f"{self.filename} has the columns {','.join(columns)} and cannot be continued with "
                f"{','.join(self.fieldnames)}"
            )
        self.header = header or self.header
        return True


def _split_header(first_line: str, filename: str) -> tuple[dict[str, Any], str]:
    """Return the JSON header of a file's first line, and the line if it is no header."""
    if not first_line.startswith("#"):
        return {}, first_line
    try:
        return json.loads(first_line[1:]), ""
    except json.JSONDecodeError:
        raise UsageError(f"{filename} is not a monitor file: its first line is no JSON header") from None


def _completed(filename: str) -> str:
    if not filename.strip():
        raise bad_argument("monitor file", filename, "the name of a file or directory")
    if filename.endswith(EXTENSION):
        return filename
    return os.path.join(filename, EXTENSION) if os.path.isdir(filename) else f"{filename}.{EXTENSION}"


def get_monitor_files(dir: str | os.PathLike) -> list[str]:
    """Return the monitor files of a directory, sorted."""
    return sorted(glob(os.path.join(escape(os.fspath(dir)), f"*{EXTENSION}")))


def load_results(dir: str | os.PathLike) -> "pandas.DataFrame":
    """Read all episodes of a directory's monitor files, in the order of their ends.

    Returns:
        A frame with r, l, t (seconds since the earliest file's start) and the files' other columns. Its attribute
        `headers` lists the files' headers.
    """
    import pandas

    files = get_monitor_files(dir)
    if not files:
        raise LoadMonitorResultsError(f"no monitor files of the form *{EXTENSION} in {os.fspath(dir)}")
    frames, headers = [], []
    for filename in files:
        with open(filename, encoding="utf-8", newline="") as file:
            first = file.readline()
            if not first:
                continue
            header, line = _split_header(first, filename)
            if line:
                file.seek(0)
            try:
                frame = pandas.read_csv(file, index_col=None)
            except pandas.errors.EmptyDataError:
                continue
            except pandas.errors.ParserError:
                raise UsageError(f"{filename} is not a monitor file: its rows have different lengths") from None
        if not {*COLUMNS} <= {*frame.columns}:
            raise UsageError(f"{filename} is not a monitor file: it lacks the columns {','.join(COLUMNS)}")
        frame["t"] += header.get("t_start", 0.0)
        frames.append(frame)
        headers.append(header)
    if not frames:
        raise LoadMonitorResultsError(f"the monitor files in {os.fspath(dir)} are empty")
    episodes = pandas.concat(frames, ignore_index=True).sort_values("t", kind="stable").reset_index(drop=True)
    episodes["t"] -= min(header.get("t_start", 0.0) for header in headers)
    with warnings.catch_warnings():
        # pandas warns that a list in an attribute is no column.
        warnings.simplefilter("ignore", UserWarning)
        episodes.headers = headers
    return episodes
