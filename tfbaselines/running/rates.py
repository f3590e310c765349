"""The arguments of a run that change while it trains, and their present values."""

from collections.abc import Callable
from typing import Any

from tfbaselines.errors import bad_argument
from tfbaselines.settings.config import Config
from tfbaselines.settings.schedules import is_schedule


class Rates:
    """Learning rates and other arguments as functions of the fraction of training left.

    Args:
        algorithm: its name, for errors.
        config: its arguments.
        ends: the run has a number of steps, of which a part is left.
    """

    def __init__(self, algorithm: str, config: Config, ends: bool) -> None:
        self._algorithm, self._ends = algorithm, ends
        self._take(config)

    def follow(self, name: str, schedule: Any) -> None:
        """Let an argument follow a schedule.

        Args:
            name: the argument's.
            schedule: a number, text, or a function of the fraction of training left; see settings/schedules.py.
        """
        schedulable = self._config.schedulable()
        if name not in schedulable:
            accepted = f"an argument of {self._algorithm} that can change in a run: {', '.join(schedulable)}"
            raise bad_argument("argument", name, accepted)
        value = getattr(self._config, name)
        if isinstance(value, str) and "str" in schedulable[name].kinds and not is_schedule(value):
            raise bad_argument(name, value, "a number where it is to follow a schedule")
        self._take(self._config.at({name: schedulable[name].checked(schedule)}))

    def at(self, fraction_left: float) -> dict[str, float]:
        """What updates are called with, by name."""
        return {name: rate(fraction_left) for name, rate in self._schedules.items()}

    def config(self, fraction_left: Callable[[], float]) -> Config:
        """The arguments with the present values of those that change.

        Args:
            fraction_left: called where some do.
        """
        return self._config.at(self.at(fraction_left())) if self._changing else self._config

    def _take(self, config: Config) -> None:
        self._config, self._schedules = config, config.schedules()
        # Learning rates reach updates by name only.
        self._changing = any(config.schedulable()[name].coefficient for name in self._schedules)
        values = {name: getattr(config, name) for name in self._schedules}
        changing = [name for name, value in values.items() if is_schedule(value)]
        if changing and not self._ends:
            accepted = "a number in a run without total_timesteps, of which no fraction is left"
            raise bad_argument(changing[0], values[changing[0]], accepted)
