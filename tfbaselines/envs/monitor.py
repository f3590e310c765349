"""Records the reward, length and time of every episode in a `monitor.csv` file.

The file is baselines': a line with a JSON header, then one CSV row per episode.

    # {"t_start": 1795224733.17, "env_id": "CartPole-v1"}
    r,l,t
    23.0,23,0.364196
"""

import contextlib
import csv
import json
import os
import time
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

# Names in the infos of whether an episode's goal is achieved.
SUCCESS = ("is_success", "success")


class LoadMonitorResultsError(Exception):
    """A directory has no monitor files."""


class Monitor(gymnasium.Wrapper):
    """Counts an episode's reward and length; its last step's info gets `episode` = {'r', 'l', 't', ...}.

    Where the info says whether the episode's goal is achieved, so does `episode`, as 'is_success', 1 or 0.

    Meant to be the innermost wrapper, where the rewards are still those of the environment; only wrappers that end
    episodes, such as TimeLimit, belong inside of it.

    Args:
        env: the environment.
        filename: path of the file; a directory, or a name that does not end in `monitor.csv`, is completed.
            None writes no file.
        allow_early_resets: whether reset() may end an episode before it is over (it is then not recorded).
        reset_keywords: names that every reset() must be given (directly or in `options`), written with the episode.
        info_keywords: names of the last step's info that are written with the episode.
        append: continue the file of an earlier run, and its clock.
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
        """Begin an episode; `kwargs` are the environment's (`seed`, `options`)."""
        if not (self._needs_reset or self.allow_early_resets):
            raise RuntimeError(
                "the environment was reset before its episode was over: put Monitor around wrappers that end episodes, "
                "Monitor(TimeLimit(env, ...)), or, if early resets are intended, give allow_early_resets=True"
            )
        options = kwargs.get("options") or {}
        for key in self.reset_keywords:
            if key not in kwargs and key not in options:
                raise UsageError(f"reset() needs '{key}', which is one of the monitor's reset_keywords")
            self._of_reset[key] = kwargs[key] if key in kwargs else options[key]
        begun = self.env.reset(**kwargs)
        self._finished_steps += self._length
        self._reward, self._length, self._needs_reset = 0, 0, False
        return begun

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """One step of the environment. The hot path: a sum, a count, and nothing else until the episode ends."""
        if self._needs_reset:
            raise RuntimeError("the environment was stepped after its episode's end; it needs reset() first")
        obs, reward, terminated, truncated, info = self.env.step(action)
        # NumPy's float32 must not decide the precision of the sum.
        self._reward += reward if reward.__class__ is float else _number(reward)
        self._length += 1
        if terminated or truncated:
            info = self._end_episode(info)
        return obs, reward, terminated, truncated, info

    def close(self) -> None:
        """Close the environment and the file."""
        super().close()
        if self.results_writer is not None:
            self.results_writer.close()

    def get_total_steps(self) -> int:
        """Steps taken so far, in all episodes."""
        return self._finished_steps + self._length

    def get_episode_rewards(self) -> list[float]:
        """Total reward of each finished episode."""
        return self._rewards

    def get_episode_lengths(self) -> list[int]:
        """Steps of each finished episode."""
        return self._lengths

    def get_episode_times(self) -> list[float]:
        """Seconds after the monitor's start at which each episode ended."""
        return self._times

    def _end_episode(self, info: dict[str, Any]) -> dict[str, Any]:
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
        # Beside the columns of the file.
        success = success_of(info)
        if success is not None:
            episode["is_success"] = success
        # The environment may hand out the same dictionary in every step.
        return info | {"episode": episode}


def success_of(info: Mapping[str, Any]) -> float | None:
    """1 or 0 where an info says whether the episode's goal is achieved; ValueError where what it says is no number."""
    for key in SUCCESS:
        value = info.get(key)
        if value is None:
            continue
        # Lists of different lengths are no array.
        with contextlib.suppress(ValueError):
            number = np.asarray(value)
            if number.size == 1 and number.dtype.kind in "biuf":
                return float(number.item())
        shown = " ".join(repr(value).split())
        raise UsageError(f"the info's '{key}' is {shown:.100}: it must be True, False or a number")
    return None


def _number(reward: Any) -> float:
    """A reward of any numeric kind as a Python number."""
    try:
        return reward.item()
    except AttributeError:
        return reward


class ResultsWriter:
    """Writes rows of episodes to a monitor file; each row is on disk when write_row returns.

    Args:
        filename: path; a directory, or a name that does not end in `monitor.csv`, is completed.
        header: the first line: a mapping, written as JSON, or text as it is.
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
        """Write an episode: a mapping with exactly the keys of the file. A full disk is a warning, once.

        A file that was removed begins anew, with a warning.
        """
        try:
            if not os.path.exists(self.filename):
                if not self._warned:
                    warn(f"{self.filename} was removed: it begins anew")
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
        """Close the file; a second call does nothing."""
        self._file.close()

    def _open(self, append: bool) -> None:
        """Open the file, and begin it unless it is continued; a directory that has gone is made again."""
        os.makedirs(os.path.dirname(self.filename) or ".", exist_ok=True)
        continued = append and self._continue()
        self._file = open(self.filename, "a" if continued else "w", encoding="utf-8", newline="")  # noqa: SIM115
        self._writer = csv.DictWriter(self._file, fieldnames=self.fieldnames, lineterminator="\r\n")
        if not continued:
            self._file.write(f"# {json.dumps(self.header)} \n" if self._text is None else self._text)
            self._writer.writeheader()
            self._file.flush()

    def _continue(self) -> bool:
        """Whether there is a file to continue; takes over its header, and refuses one with other columns."""
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
    """The JSON header of a file's first line and, when the file has none, that line itself."""
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
    """The monitor files of a directory, sorted."""
    return sorted(glob(os.path.join(escape(os.fspath(dir)), f"*{EXTENSION}")))


def load_results(dir: str | os.PathLike) -> "pandas.DataFrame":
    """All episodes of a directory's monitor files in the order of their end.

    Returns:
        A frame with r, l, t (seconds since the earliest file's start) and the files' further columns; its
        attribute `headers` lists the files' headers.
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
    # Set around pandas, which takes a list in an attribute for a forgotten column.
    object.__setattr__(episodes, "headers", headers)
    return episodes
