"""Columns of steps, times, episodes and returns in the logs of algorithms and libraries, and their readable names."""

from tfbaselines.logs.formats import STEPS

# Columns in order of preference. After the columns of this package, baselines and Spinning Up come columns of
# Stable-Baselines3 (time/, rollout/, eval/) and CleanRL (charts/); `steps` and `r` are columns of monitor files.
XAXES = (*STEPS, "time/total_timesteps", "global_step", "Epoch")
TIMES = (
    *("misc/time_elapsed", "time_elapsed", "TimeElapsed", "Time", "total/duration", "time/time_elapsed"),
    *("seconds", "t"),
)
EPISODES = ("total/episodes", "EpisodesSoFar", "episodes", "time/episodes")
# Short names of x-axes.
SHORT_XAXES = {"steps": XAXES[: len(STEPS) + 2], "time": TIMES, "episodes": EPISODES}
# Returns of single episodes are noisy.
EPISODE_RETURNS = ("charts/episodic_return", "r")
RETURNS = (
    *("eprewmean", "EpTrueRewMean", "EpRewMean", "AverageTestEpRet", "AverageEpRet", "mean 100 episode reward"),
    *("mean_episode_reward", "eval/return", "rollout/return", "test_reward"),
    *("rollout/ep_rew_mean", "eval/mean_reward", *EPISODE_RETURNS),
)
# her's measure, which is no return.
SUCCESS = "test/success_rate"
# Spinning Up's name for the mean return.
PERFORMANCE = "Performance"
RATES = ("fps", "misc/fps", "total/steps_per_second", "time/fps", "charts/SPS")

# Readable names of columns.
NAMES = {
    "environment steps": (*XAXES[:-1], "misc/serial_timesteps", "global_timesteps"),
    "minutes": TIMES,
    "episodes": (*EPISODES, "iterations"),
    "mean return": (
        *("eprewmean", "EpRewMean", "mean_episode_reward", "mean 100 episode reward", "rollout/return", "AverageEpRet"),
        *("rollout/return_history", "eval_eprewmean", "rollout/ep_rew_mean"),
    ),
    "mean return of tests": (
        *("AverageTestEpRet", "eval/return", "test_reward", "evaluation/return", "eval/mean_reward"),
    ),
    "success rate of tests": ("test/success_rate",),
    "mean episode length (steps)": (
        *("eplenmean", "EpLenMean", "mean_episode_length", "EpLen", "rollout/episode_steps", "rollout/ep_len_mean"),
    ),
    "episode return": EPISODE_RETURNS,
    "episode length (steps)": ("l", "charts/episodic_length"),
    "environment steps per second": RATES,
    "updates": ("misc/nupdates", "nupdates"),
    "epochs": ("Epoch", "total/epochs"),
}
IN_WORDS = {column: words for words, columns in NAMES.items() for column in columns}
SECONDS_IN = {"minutes": 60.0}


def readable(column: str) -> str:
    """Return a column's readable name, or the column itself."""
    return IN_WORDS.get(column, column)
