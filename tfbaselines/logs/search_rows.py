"""The columns that algorithms of whole episodes share."""

from typing import Any


def columns(run: Any) -> dict[str, Any]:
    """Counters, the latest episodes of training, and the latest test.

    Args:
        run: the run, whose counters and episodes these are.
    """
    training = {"eprewmean": run.episodes.mean_reward, "eplenmean": run.episodes.mean_length}
    return counters(run) | training | tests(run)


def columns_without_episodes(run: Any) -> dict[str, Any]:
    """Of an algorithm that takes no steps of its own; run as for `columns`."""
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
