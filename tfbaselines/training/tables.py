"""Spinning Up's table of a run: progress.txt in the log directory, and the same columns in the run's logs."""

from typing import Any

from tfbaselines.errors import unknown
from tfbaselines.logs import logger
from tfbaselines.logs.epoch_logger import EpochLogger, EpochTable
from tfbaselines.training.run import Run

LOGGER_ARGUMENTS = ("output_dir", "output_fname", "exp_name")


def make_table(run: Run, logger_kwargs: dict[str, Any] | None) -> EpochTable:
    """Return the table of a run, which is closed at the run's end; without a directory it writes no file.

    Args:
        run: the run.
        logger_kwargs: output_dir, output_fname and exp_name; by default the log directory.
    """
    for name in logger_kwargs or {}:
        if name not in LOGGER_ARGUMENTS:
            raise unknown("argument of logger_kwargs", name, LOGGER_ARGUMENTS)
    directory = logger.configured_dir()
    if directory is None and not logger_kwargs:
        return EpochTable(run.comm)
    arguments = {"output_dir": directory} | (logger_kwargs or {})
    table = EpochLogger(comm=run.comm, resume=run.options.resume is not None, format_strs=(), **arguments)
    run.at_end(table.close)
    return table


def begin_row(table: EpochTable, run: Run, epoch: int) -> None:
    """Test, and add the epoch's number and the columns of its episodes to the row.

    Args:
        table: values of the epoch.
        run: the run.
        epoch: number of the epoch.
    """
    table.store_episodes(run.test(), "Test")
    tests = run.eval_env is not None
    table.log_tabular("Epoch", epoch)
    table.log_tabular("EpRet", with_min_and_max=True)
    if tests:
        table.log_tabular("TestEpRet", with_min_and_max=True)
    table.log_tabular("EpLen", average_only=True)
    if tests:
        table.log_tabular("TestEpLen", average_only=True)


def end_row(table: EpochTable, run: Run) -> dict[str, Any]:
    """Add the times to the row, write it, and return it; the next epoch begins without values."""
    table.log_tabular("Time", run.elapsed)
    table.log_tabular("fps", run.fps)
    table.forget()
    return table.dump_tabular() if isinstance(table, EpochLogger) else table.take_row()
