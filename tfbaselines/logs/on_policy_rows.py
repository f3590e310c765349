"""The columns that on-policy algorithms share, under the names of baselines."""

from typing import Any


def columns(run: Any) -> dict[str, Any]:
    """Of a2c and its family.

    Args:
        run: the run, whose counters and episodes these are.
    """
    return {"nupdates": run.update, "total_timesteps": run.timesteps, "fps": run.fps} | episodes(run)


def misc_columns(run: Any) -> dict[str, Any]:
    """Of ppo2; run as for `columns`."""
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
