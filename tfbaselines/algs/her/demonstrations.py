"""Demonstrations of reached goals (demo_file), with baselines' names but without pickle.

The file is an npz file (numpy.savez, not compressed) of E episodes of T steps: actions `acs` [E, T, ...], and the
observations from the first to the last: `obs/observation`, `obs/achieved_goal` and `obs/desired_goal` [E, T + 1, ...].
"""

import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from tfbaselines.algs.her import Config
from tfbaselines.algs.her.goal import GoalActorCritic
from tfbaselines.envs.vec import VecEnv
from tfbaselines.envs.wrappers import ACHIEVED, DESIRED, OBSERVATION, ComputeReward
from tfbaselines.errors import bad_argument
from tfbaselines.files import ArrayError, as_declared, check_array, read_archive
from tfbaselines.policy.encoding import observation_dtype
from tfbaselines.replay.hindsight import HindsightReplay

KEYS = (OBSERVATION, ACHIEVED, DESIRED)


class NoDemonstrations:
    """A run without demonstrations."""

    def normalize(self, policy: GoalActorCritic) -> None:
        """Take the demonstrated observations into the policy's running statistics."""

    def added_to(self, block: dict[str, Any]) -> dict[str, Any]:
        """Replace the last rows of batches [K, B, ...] by demonstrations."""
        return block


class Demonstrations(NoDemonstrations):
    """Demonstrations, relabeled with new goals like experience; `count` of them are in each batch."""

    def __init__(self, replay: HindsightReplay, count: int, rng: np.random.Generator) -> None:
        self._replay = replay
        self._count = count
        self._rng = rng

    def normalize(self, policy: GoalActorCritic) -> None:
        shown = self._replay.sample_latest(self._rng, self._replay.steps)["obs"]
        policy.normalizer.update(policy.inputs_numpy(shown))

    def added_to(self, block: dict[str, Any]) -> dict[str, Any]:
        count = self._count
        drawn = self._replay.sample(self._rng, len(block["rewards"]), count)
        return tf.nest.map_structure(lambda rows, last: np.concatenate([rows[:, :-count], last], axis=1), block, drawn)


def make_demonstrations(config: Config, env: VecEnv, rng: np.random.Generator, **new_goals: Any) -> NoDemonstrations:
    """Read the demonstrations of a run; `new_goals` are compute_reward and replay_k of HindsightReplay."""
    if not config.bc_loss:
        return NoDemonstrations()
    replay = replay_of_demonstrations(config.demo_file, config.num_demo, env, config.gamma, **new_goals)
    return Demonstrations(replay, config.demo_batch_size, rng)


def replay_of_demonstrations(
    path: str | os.PathLike, episodes: int, env: Any, gamma: float, *, compute_reward: ComputeReward, replay_k: float
) -> HindsightReplay:
    """Make a replay of the first episodes of a file; the replay treats each as an environment."""
    actions, obs = read_demonstrations(path, episodes, env)
    steps = actions.shape[1]
    places = SimpleNamespace(num_envs=episodes, observation_space=env.observation_space, action_space=env.action_space)
    replay = HindsightReplay(places, episodes * steps, gamma, compute_reward=compute_reward, replay_k=replay_k)
    for t in range(steps):
        before, after = ({name: part[:, moment] for name, part in obs.items()} for moment in (t, t + 1))
        over = t == steps - 1
        infos: list[dict[str, Any]] = [{} for _ in range(episodes)]
        for i, info in enumerate(infos if over else ()):
            last = {name: part[i] for name, part in after.items()}
            info.update({"TimeLimit.truncated": True, "final_observation": last})
        rewards = compute_reward(after[ACHIEVED], before[DESIRED], {})
        replay.put(before, actions[:, t], rewards, after, np.full(episodes, over), infos)
    return replay


def read_demonstrations(path: str | os.PathLike, episodes: int, env: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Read actions [episodes, T, ...] and observations [episodes, T + 1, ...] by name, and check them."""
    try:
        arrays = read_archive(path)
    except FileNotFoundError:
        raise bad_argument("demo_file", path, "there is no such file") from None
    except (OSError, ValueError) as error:
        raise bad_argument("demo_file", path, f"an npz file of numpy.savez without pickled objects ({error})") from None
    try:
        actions = check_array("acs", arrays.get("acs"), ("E", "T", *env.action_space.shape))
        count, steps = actions.shape[:2]
        if count < episodes or not steps:
            raise bad_argument("num_demo", episodes, f"at most {count}, the episodes of '{path}'")
        actions = as_declared("acs", actions, actions.shape, observation_dtype(env.action_space))
        obs = {}
        for name in KEYS:
            space = env.observation_space[name]
            shape = (count, steps + 1, *space.shape)
            obs[name] = as_declared(f"obs/{name}", arrays.get(f"obs/{name}"), shape, observation_dtype(space))
    except ArrayError as error:
        raise bad_argument("demo_file", path, str(error)) from None
    return actions[:episodes], {name: part[:episodes] for name, part in obs.items()}
