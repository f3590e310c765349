"""Rows of the logs of Spinning Up's on-policy algorithms."""

from typing import Any

from tfbaselines.logs.epoch_rows import begin_row, finished_row, make_table


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
