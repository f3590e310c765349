"""The rows of ACER's logs, under the original's names."""

from typing import Any

from tfbaselines.logs.episodes import Episodes


class ACERRows:
    """Collects what every worker had last.

    Args:
        run: the run, whose counters and episodes these are.
        workers: how many workers learn side by side.
    """

    def __init__(self, run: Any, workers: int) -> None:
        self._run = run
        self._episodes = [Episodes() for _ in range(workers)]
        self._latest: dict[int, dict[str, float]] = {}
        self._statistics: dict[str, float] = {}

    def add(self, number: int, statistics: dict[str, float], episodes: list[dict[str, Any]]) -> None:
        """Remember a turn of one worker: its statistics, and the infos' 'episode' entries of episodes that ended."""
        self._episodes[number].extend(episodes)
        self._statistics = statistics
        self._latest[number] = statistics | _of_episodes(self._episodes[number])

    def __call__(self) -> dict[str, Any]:
        """A row: the latest turn, and with several workers what each of them had last."""
        run, own = self._run, self._latest if len(self._latest) > 1 else {}
        counters = {"total_timesteps": run.timesteps, "fps": run.fps} | _of_episodes(run.episodes)
        workers = {
            f"worker{number}/{name}": value for number, row in sorted(own.items()) for name, value in row.items()
        }
        return self._statistics | counters | workers


def _of_episodes(episodes: Episodes) -> dict[str, float]:
    return {"mean_episode_length": episodes.mean_length, "mean_episode_reward": episodes.mean_reward}
