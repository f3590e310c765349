"""When rows of the logs are due, and how fast the run was since the last one."""

from tfbaselines.running.plan import Plan


class RowClock:
    """Rows by updates, or by episodes.

    Args:
        plan: of the run.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._steps = self._time = self._episodes = 0

    def begin(self, timesteps: int, now: float, episodes: int) -> None:
        """Count from here.

        Args:
            timesteps: environment steps so far.
            now: seconds on any clock.
            episodes: episodes so far.
        """
        self._steps, self._time, self._episodes = timesteps, now, episodes

    def due(self, update: int, num_updates: int, episodes: int) -> bool:
        """Whether an update ends with a row.

        Args:
            update: its number.
            num_updates: of the whole run.
            episodes: episodes so far.
        """
        plan = self._plan
        if plan.log_episodes is not None:
            before, self._episodes = self._episodes, episodes
            first = episodes < plan.log_episodes and update == num_updates
            return first or episodes // plan.log_episodes > before // plan.log_episodes
        # Of epochs the last one may be a part of one; without them the first row comes early.
        extra = 1 if plan.log_first else num_updates
        return update == extra or update % plan.log_interval == 0

    def speed(self, timesteps: int, now: float) -> int:
        """Environment steps per second since the last row; a row is logged now."""
        steps, seconds = timesteps - self._steps, now - self._time
        self._steps, self._time = timesteps, now
        return int(steps / max(seconds, 1e-9))
