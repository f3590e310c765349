"""Rows of the logs of Spinning Up's off-policy algorithms.

Rows of the logs of Spinning Up's on-policy algorithms.

The columns that trpo_mpi and ppo1 share, under the names of baselines.

The columns that on-policy algorithms share, under the names of baselines.

The columns that algorithms of whole episodes share.

The latest episodes of a run, over which the means of the logs go.
"""

from collections import deque
from typing import Any

import numpy as np

from tfbaselines.errors import unknown
from tfbaselines.logs import logger
from tfbaselines.logs.epoch_logger import EpochLogger, EpochTable, Moments

LOGGER_ARGUMENTS = ("output_dir", "output_fname", "exp_name")


class EpochRows:
    """Rows of the logs as Spinning Up writes them: progress.txt in the log directory, and the run's own outputs.

    Args:
        run: the OffPolicyRun whose rows they are.
        values: statistics with columns for mean, deviation, minimum and maximum.
        losses: statistics with a column for the mean.
        logger_kwargs: output_dir, output_fname and exp_name for Spinning Up's table; by default the log directory.
    """

    def __init__(
        self,
        run: Any,
        values: tuple[str, ...],
        losses: tuple[str, ...],
        logger_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self._run, self._values, self._losses = run, values, losses
        self._table = make_table(run, logger_kwargs)

    @property
    def acting(self) -> list[EpochTable]:
        """What has a state in the middle of an epoch."""
        return [self._table]

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        """Remember episodes that ended."""
        for episode in episodes:
            self._table.store(EpRet=episode["r"], EpLen=episode["l"])

    def learnt(self, statistics: dict[str, np.ndarray]) -> None:
        """Remember the statistics of gradient steps; see learn/engine.py."""
        count = self._run.config.batch_size
        for name in self._values:
            rows = zip(*(statistics[f"{name}{kind}"].tolist() for kind in ("", ":std", ":min", ":max")), strict=True)
            moments = [Moments(count, mean, count * std * std, least, most) for mean, std, least, most in rows]
            self._table.store_moments(name, moments)
        self._table.store(**{name: statistics[name] for name in self._losses})

    def __call__(self) -> dict[str, Any]:
        """End the epoch: test, and give its row."""
        run, table = self._run, self._table
        begin_row(table, run, -(-run.update // run.course.cycles_per_epoch))
        table.log_tabular("TotalEnvInteracts", run.steps_of_all())
        for name in self._values:
            table.log_tabular(name, with_min_and_max=True)
        for name in self._losses:
            table.log_tabular(name, average_only=True)
        table.log_tabular("Time", run.elapsed)
        table.log_tabular("fps", run.fps)
        return finished_row(table)


def begin_row(table: EpochTable, run: Any, epoch: int) -> None:
    """Test, and put the epoch's number and the columns of its episodes into the row.

    Args:
        table: the table.
        run: has test() and eval_env.
        epoch: the number.
    """
    for episode in run.test():
        table.store(TestEpRet=episode["r"], TestEpLen=episode["l"])
    table.log_tabular("Epoch", epoch)
    table.log_tabular("EpRet", with_min_and_max=True)
    if run.eval_env is not None:
        table.log_tabular("TestEpRet", with_min_and_max=True)
    table.log_tabular("EpLen", average_only=True)
    if run.eval_env is not None:
        table.log_tabular("TestEpLen", average_only=True)


def make_table(run: Any, logger_kwargs: dict[str, Any] | None) -> EpochTable:
    """Spinning Up's table of a run, closed at its end; without a directory for it, one that is not written.

    Args:
        run: the run.
        logger_kwargs: output_dir, output_fname and exp_name; by default the log directory.
    """
    directory = logger.configured_dir()
    if directory is None and not logger_kwargs:
        return EpochTable(run.comm)
    arguments = {"output_dir": directory} | _checked(logger_kwargs or {})
    table = EpochLogger(comm=run.comm, resume=run.options.resume is not None, format_strs=(), **arguments)
    run.at_end(table.close)
    return table


def finished_row(table: EpochTable) -> dict[str, Any]:
    """The epoch's row, written if the table is."""
    return table.dump_tabular() if isinstance(table, EpochLogger) else table.take_row()


def _checked(logger_kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of Spinning Up's logger; ValueError for an unknown one."""
    for name in logger_kwargs:
        if name not in LOGGER_ARGUMENTS:
            raise unknown("argument of logger_kwargs", name, LOGGER_ARGUMENTS)
    return logger_kwargs


class SpinupRows:
    """Rows as Spinning Up writes them: progress.txt in the log directory, and the run's own outputs.

    Args:
        run: the run whose rows they are.
        statistics: those of the update, with a column for the mean each.
        logger_kwargs: output_dir, output_fname and exp_name for Spinning Up's table; by default the log directory.
    """

    def __init__(self, run: Any, statistics: tuple[str, ...], logger_kwargs: dict[str, Any] | None = None) -> None:
        self._run, self._statistics = run, statistics
        self._table = make_table(run, logger_kwargs)

    def collected(self, episodes: list[dict[str, Any]]) -> None:
        """Remember episodes that ended."""
        for episode in episodes:
            self._table.store(EpRet=episode["r"], EpLen=episode["l"])

    def store(self, **values: Any) -> None:
        """Remember values of the states visited (VVals) and the update's statistics."""
        self._table.store(**values)

    def __call__(self) -> dict[str, Any]:
        """End the epoch: test, and give its row."""
        run, table = self._run, self._table
        begin_row(table, run, run.update - 1)
        table.log_tabular("VVals", with_min_and_max=True)
        table.log_tabular("TotalEnvInteracts", run.steps_of_all())
        for name in self._statistics:
            table.log_tabular(name, average_only=True)
        table.log_tabular("Time", run.elapsed)
        table.log_tabular("fps", run.fps)
        return finished_row(table)


def iteration_columns(run: Any) -> dict[str, Any]:
    """Episodes and steps of all ranks.

    Args:
        run: the BatchRun, whose counters and episodes these are.
    """
    return {
        "EpLenMean": run.episodes.mean_length,
        "EpRewMean": run.episodes.mean_reward,
        "EpThisIter": run.episodes_in_update,
        "EpisodesSoFar": run.episodes.count,
        "TimestepsSoFar": run.steps_of_all(),
        "TimeElapsed": run.elapsed,
    }


def rollout_columns(run: Any) -> dict[str, Any]:
    """Of a2c and its family.

    Args:
        run: the run, whose counters and episodes these are.
    """
    return {"nupdates": run.update, "total_timesteps": run.timesteps, "fps": run.fps} | episodes(run)


def misc_columns(run: Any) -> dict[str, Any]:
    """Of ppo2; run as for `rollout_columns`."""
    return episodes(run) | {
        "fps": run.fps,
        "misc/serial_timesteps": run.update * run.config.nsteps,
        "misc/nupdates": run.update,
        "misc/total_timesteps": run.timesteps,
        "misc/time_elapsed": run.elapsed,
    }


def episodes(run: Any) -> dict[str, float]:
    """Mean returns and lengths of the latest episodes, and of those of eval_env if there is one."""
    row = {"eprewmean": run.episodes.mean_reward, "eplenmean": run.episodes.mean_length}
    if run.config.eval_env is not None:
        row |= {"eval_eprewmean": run.eval_episodes.mean_reward, "eval_eplenmean": run.eval_episodes.mean_length}
    return row


def search_columns(run: Any) -> dict[str, Any]:
    """Counters, the latest episodes of training, and the latest test.

    Args:
        run: the run, whose counters and episodes these are.
    """
    training = {"eprewmean": run.episodes.mean_reward, "eplenmean": run.episodes.mean_length}
    return counters(run) | training | tests(run)


def columns_without_episodes(run: Any) -> dict[str, Any]:
    """Of an algorithm that takes no steps of its own; run as for `search_columns`."""
    return counters(run) | tests(run)


def counters(run: Any) -> dict[str, Any]:
    """How far the run is."""
    return {
        "iterations": run.iterations,
        "total_timesteps": run.timesteps,
        "fps": run.fps,
        "time_elapsed": run.elapsed,
    }


def tests(run: Any) -> dict[str, float]:
    """The latest test, where there are any."""
    if run.eval_env is None:
        return {}
    return {
        "test_reward": run.eval_episodes.mean_reward,
        "test_reward_std": run.eval_episodes.std_reward,
        "test_length": run.eval_episodes.mean_length,
    }


EPISODES_IN_MEAN = 100


def safe_mean(values: Any) -> float:
    """The mean, or nan of nothing."""
    return float(np.mean(values)) if len(values) else float("nan")


class Episodes:
    """The latest episodes' returns and lengths, over which the logs' means go.

    Args:
        in_mean: how many they are.
    """

    def __init__(self, in_mean: int = EPISODES_IN_MEAN) -> None:
        self._latest: deque[tuple[float, float]] = deque(maxlen=in_mean)
        # Of all there ever were.
        self.count = 0
        self._mean_reward: float | None = None

    def extend(self, episodes: list[dict[str, Any]]) -> None:
        """Take in infos' 'episode' entries."""
        if not episodes:
            return
        self._mean_reward = None
        self.count += len(episodes)
        self._latest.extend((float(episode["r"]), float(episode["l"])) for episode in episodes)

    @property
    def rewards(self) -> list[float]:
        """Returns of the latest episodes."""
        return [reward for reward, _ in self._latest]

    @property
    def mean_reward(self) -> float:
        """Mean return of the latest episodes; nan before the first one ends."""
        if self._mean_reward is None:
            self._mean_reward = safe_mean(self.rewards)
        return self._mean_reward

    @property
    def full(self) -> bool:
        """Whether the means go over as many episodes as they ever do."""
        return len(self._latest) == self._latest.maxlen

    @property
    def std_reward(self) -> float:
        """Standard deviation of the returns of the latest episodes; nan before the first one ends."""
        return float(np.std(self.rewards)) if self._latest else float("nan")

    @property
    def mean_length(self) -> float:
        """Mean length of the latest episodes; nan before the first one ends."""
        return safe_mean([length for _, length in self._latest])

    def state(self) -> dict[str, Any]:
        """The episodes."""
        return {"latest": np.asarray(self._latest, np.float64).reshape(-1, 2), "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        """Take them back."""
        self._mean_reward = None
        self._latest.clear()
        self._latest.extend(tuple(row) for row in state["latest"].tolist())
        self.count = state.get("count", len(self._latest))
