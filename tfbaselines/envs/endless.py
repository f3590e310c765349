"""Environments whose episodes never end, which would keep those who wait for one for ever."""

from tfbaselines.errors import warn

# Steps without an end after which there is a warning, and an error.
LONG_EPISODE, LONGEST_EPISODE = 10**5, 10**6
ADVICE = "give max_ep_len, or max_episode_steps where the environment is registered"


def require_end(steps: int) -> None:
    """ValueError when no episode has ended for too many steps of each environment, and a warning long before.

    Args:
        steps: since the last end; called with every number of them.
    """
    if steps == LONG_EPISODE:
        warn(f"no episode ended within {steps:,} steps: if none ever does, {ADVICE}")
    if steps > LONGEST_EPISODE:
        raise ValueError(f"no episode ended within {LONGEST_EPISODE:,} steps: {ADVICE}")
