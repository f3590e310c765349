"""Readers of other programs' demonstrations: baselines' expert files, and Minari datasets."""

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from tfbaselines.arrays import check_array
from tfbaselines.errors import UsageError

# Prefix of a Minari dataset's name in place of a file's path.
MINARI = "minari:"

OF_BASELINES = ("acs", "ep_rets", "rews", "obs")


class Episodes(NamedTuple):
    """The arrays of Demonstrations, not yet checked."""

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    lengths: np.ndarray
    terminated: np.ndarray
    last_obs: np.ndarray | None = None


def of_baselines(
    arrays: dict[str, np.ndarray], observation_space: spaces.Space, action_space: spaces.Space
) -> Episodes:
    """Convert an expert file: episodes of equal length, obs [E, L, ...], acs [E, L, ...], rews [E, L].

    The file has neither the cause of an episode's end nor the observation after the last step.

    Args:
        arrays: by name.
        observation_space: of one environment.
        action_space: of one environment.
    """
    missing = [name for name in OF_BASELINES if name not in arrays]
    if missing:
        raise UsageError(f"it has no array '{missing[0]}' and no entry 'about': neither this format nor baselines'")
    obs = check_array("obs", arrays["obs"], ("E", "L", *observation_space.shape))
    shape = count, length = obs.shape[:2]
    # baselines omits the axis of an action that is one number.
    one_number = action_space.shape == (1,) and arrays["acs"].shape == shape
    actions = check_array("acs", arrays["acs"], shape if one_number else (*shape, *action_space.shape))
    rewards = check_array("rews", arrays["rews"], shape)
    steps = count * length
    return Episodes(
        obs=obs.reshape(steps, *observation_space.shape),
        actions=actions.reshape(steps, *action_space.shape),
        rewards=rewards.reshape(steps),
        lengths=np.full(count, length),
        terminated=np.zeros(count, bool),
    )


def of_minari(name: str) -> Episodes:
    """Convert a Minari dataset on this machine; Dict and Tuple observations are flattened.

    Args:
        name: the dataset's id, such as mujoco/hopper/expert-v0.
    """
    if not name:
        raise UsageError("it names no dataset: write minari:ID, such as minari:mujoco/hopper/expert-v0")
    try:
        import minari
    except ImportError:
        raise UsageError('Minari is not installed: pip install "tfbaselines[demos]"') from None
    try:
        dataset = minari.load_dataset(name)
    except Exception as error:  # The backends of file formats raise many types.
        raise UsageError(f"Minari cannot load it ({error}); `minari download {name}` fetches public ones") from None
    episodes = list(dataset.iterate_episodes())
    if not episodes:
        raise UsageError("there is no episode, or an episode without steps")
    seen = [_flattened(dataset.observation_space, episode.observations) for episode in episodes]
    return Episodes(
        obs=np.concatenate([obs[:-1] for obs in seen]),
        actions=np.concatenate([np.asarray(episode.actions) for episode in episodes]),
        rewards=np.concatenate([np.asarray(episode.rewards) for episode in episodes]),
        lengths=np.array([len(episode.rewards) for episode in episodes]),
        terminated=np.array([bool(episode.terminations[-1]) for episode in episodes]),
        last_obs=np.stack([obs[-1] for obs in seen]),
    )


def _flattened(space: spaces.Space, obs: Any) -> np.ndarray:
    """Flatten an episode's observations [L + 1, ...] as algorithms take them."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return np.asarray(obs)
    names = space.spaces.keys() if isinstance(space, spaces.Dict) else range(len(space.spaces))
    parts = [_flattened_rows(space[name], obs[name]) for name in names]
    return np.concatenate(parts, axis=1)


def _flattened_rows(space: spaces.Space, obs: Any) -> np.ndarray:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _flattened(space, obs)
    return np.stack([spaces.flatten(space, row) for row in np.asarray(obs)])
