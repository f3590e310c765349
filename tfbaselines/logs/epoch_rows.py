"""Rows of the logs of Spinning Up's off-policy algorithms."""

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
        """Remember the statistics of gradient steps; see optim/blocks.py."""
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
