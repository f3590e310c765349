"""Environments whose episodes never end, which would keep those who wait for one for ever."""

from tfbaselines.errors import warn

# Steps without an end after which there is a warning, and an error.
LONG_EPISODE, LONGEST_EPISODE = 10**5, 10**6
ADVICE = "give max_ep_len, or max_episode_steps where the environment is registered"


def require_end(steps: int) -> None:
    """ValueError when an episode is too long to ever end, and a warning long before.

    Args:
        steps: of the longest episode so far; called with every number of them.
    """
    if steps == LONG_EPISODE:
        warn(f"an episode has not ended within {steps:,} steps: if it never does, {ADVICE}")
    if steps > LONGEST_EPISODE:
        raise ValueError(f"an episode has not ended within {LONGEST_EPISODE:,} steps: {ADVICE}")
