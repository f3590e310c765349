"""The columns that algorithms of whole episodes share."""

from typing import Any


def columns(run: Any) -> dict[str, Any]:
    """Counters, the latest episodes of training, and the latest test.

    Args:
        run: the run, whose counters and episodes these are.
    """
    row = {
        "iterations": run.iterations,
        "total_timesteps": run.timesteps,
        "fps": run.fps,
        "time_elapsed": run.elapsed,
        "eprewmean": run.episodes.mean_reward,
        "eplenmean": run.episodes.mean_length,
    }
    if run.eval_env is not None:
        row |= {
            "test_reward": run.eval_episodes.mean_reward,
            "test_reward_std": run.eval_episodes.std_reward,
            "test_length": run.eval_episodes.mean_length,
        }
    return row
