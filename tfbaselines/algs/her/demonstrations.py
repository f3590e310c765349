"""Demonstrations of how goals are reached, under the names of baselines' demo_file, as arrays without pickle.

An npz file (numpy.savez, not compressed) of E episodes of T steps: `acs` [E, T, ...], and what was observed, from the
first observation to the last: `obs/observation`, `obs/achieved_goal` and `obs/desired_goal`, [E, T + 1, ...].
"""

import os
import zipfile
from types import SimpleNamespace
from typing import Any

import numpy as np

from tfbaselines.arrays import read_archive
from tfbaselines.envs.wrappers import ACHIEVED, DESIRED, OBSERVATION, ComputeReward
from tfbaselines.errors import bad_argument
from tfbaselines.policy.encoding import observation_dtype
from tfbaselines.replay.hindsight import HindsightReplay

KEYS = (OBSERVATION, ACHIEVED, DESIRED)


def replay_of_demonstrations(
    path: str | os.PathLike, episodes: int, env: Any, gamma: float, *, compute_reward: ComputeReward, replay_k: float
) -> HindsightReplay:
    """A replay of the first episodes of a file, each in a place of its own.

    Args:
        path: of the file.
        episodes: how many.
        env: has the spaces.
        gamma: see HindsightReplay.
        compute_reward: see HindsightReplay.
        replay_k: see HindsightReplay.
    """
    actions, obs = read_demonstrations(path, episodes, env)
    steps = actions.shape[1]
    places = SimpleNamespace(num_envs=episodes, observation_space=env.observation_space, action_space=env.action_space)
    replay = HindsightReplay(places, episodes * steps, gamma, compute_reward=compute_reward, replay_k=replay_k)
    for t in range(steps):
        before, after = ({name: part[:, moment] for name, part in obs.items()} for moment in (t, t + 1))
        over = t == steps - 1
        infos = [
            {"TimeLimit.truncated": True, "final_observation": {name: part[i] for name, part in after.items()}}
            if over
            else {}
            for i in range(episodes)
        ]
        rewards = compute_reward(after[ACHIEVED], before[DESIRED], {})
        replay.put(before, actions[:, t], rewards, after, np.full(episodes, over), infos)
    return replay


def read_demonstrations(path: str | os.PathLike, episodes: int, env: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Actions [episodes, T, ...] and observations [episodes, T + 1, ...] by name; ValueError for what does not fit."""
    try:
        arrays = read_archive(path)
    except FileNotFoundError:
        raise bad_argument("demo_file", path, "there is no such file") from None
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise bad_argument("demo_file", path, f"an npz file of numpy.savez without pickled objects ({error})") from None
    spaces = {"acs": env.action_space} | {f"obs/{name}": env.observation_space[name] for name in KEYS}
    if not set(spaces) <= set(arrays):
        raise bad_argument("demo_file", path, f"a file with the arrays {', '.join(spaces)}")
    count, steps = arrays["acs"].shape[:2] if arrays["acs"].ndim > 1 else (0, 0)
    if count < episodes or not steps:
        raise bad_argument("num_demo", episodes, f"at most {count}, the episodes of '{path}'")
    for name, space in spaces.items():
        wanted = (count, steps + (name != "acs"), *space.shape)
        if arrays[name].shape != wanted:
            raise bad_argument("demo_file", path, f"{name} of shape {wanted}, not {arrays[name].shape}")
        if arrays[name].dtype.kind not in "biuf" or not np.isfinite(arrays[name]).all():
            raise bad_argument("demo_file", path, f"{name} of finite numbers")
    kept = {name: arrays[name][:episodes].astype(observation_dtype(space)) for name, space in spaces.items()}
    return kept.pop("acs"), {name.removeprefix("obs/"): part for name, part in kept.items()}
