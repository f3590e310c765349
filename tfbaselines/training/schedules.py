"""Arguments of a run that follow schedules, and their present values."""

from collections.abc import Callable
from typing import Any

from tfbaselines.config.config import Config
from tfbaselines.config.schedules import is_schedule
from tfbaselines.errors import bad_argument


class Rates:
    """Give learning rates and other scheduled arguments as functions of the fraction of training left.

    Args:
        algorithm: name of the algorithm, for errors.
        config: arguments of the algorithm.
        ends: the run has a known length, so that a fraction of it is left.
    """

    def __init__(self, algorithm: str, config: Config, ends: bool) -> None:
        self._algorithm = algorithm
        self._ends = ends
        self._take(config)

    def follow(self, name: str, schedule: Any) -> None:
        """Let an argument follow a schedule.

        Args:
            name: name of the argument.
            schedule: a number, text, or a function of the fraction of training left; see config/schedules.py.
        """
        schedulable = self._config.schedulable()
        if name not in schedulable:
            accepted = f"an argument of {self._algorithm} that can change in a run: {', '.join(schedulable)}"
            raise bad_argument("argument", name, accepted)
        value = getattr(self._config, name)
        if isinstance(value, str) and "str" in schedulable[name].kinds and not is_schedule(value):
            raise bad_argument(name, value, "a number if it should follow a schedule")
        self._take(self._config.at({name: schedulable[name].checked(schedule)}))

    def at(self, fraction_left: float) -> dict[str, float]:
        """Return the value of each scheduled argument by name."""
        return {name: rate(fraction_left) for name, rate in self._schedules.items()}

    def config(self, fraction_left: Callable[[], float]) -> Config:
        """Return the arguments with the present values of the scheduled coefficients.

        Args:
            fraction_left: returns the fraction of training left; called only if a coefficient changes.
        """
        return self._config.at(self.at(fraction_left())) if self._changing else self._config

    def _take(self, config: Config) -> None:
        self._config = config
        self._schedules = config.schedules()
        # Learning rates reach updates by name only.
        self._changing = any(config.schedulable()[name].coefficient for name in self._schedules)
        values = {name: getattr(config, name) for name in self._schedules}
        changing = [name for name, value in values.items() if is_schedule(value)]
        if changing and not self._ends:
            accepted = "a number: a run without total_timesteps has no fraction left for a schedule"
            raise bad_argument(changing[0], values[changing[0]], accepted)
