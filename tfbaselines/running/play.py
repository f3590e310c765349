"""Running a trained policy: what --play and evaluate share."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tfbaselines.envs.endless import require_end
from tfbaselines.envs.vec import VecEnv
from tfbaselines.parallel.blas import one_blas_thread
from tfbaselines.settings.algorithm import Algorithm

# Dones without an 'episode' entry after which there is none to be expected: an Atari game has far fewer lives.
MOST_SILENT_DONES = 1000


def limit_as_trained(env: VecEnv, algorithm: Algorithm, arguments: dict[str, Any]) -> None:
    """Cut episodes off where training did.

    Args:
        env: the environments.
        algorithm: that of the run.
        arguments: those that learn was called with.
    """
    most = getattr(algorithm.config.of(arguments), "max_ep_len", None)
    if most is not None:
        env.limit_episodes(most)


def episodes(model: Any, env: VecEnv, deterministic: bool = False, render: bool = False) -> Iterator[dict[str, Any]]:
    """Act for ever; yields the info entry of each episode that ends: 'r' the environment's own return, 'l', 't'.

    Args:
        model: what acts.
        env: the environments, wrapped as in training.
        deterministic: take the most likely actions.
        render: show the environments after each step.
    """
    return (episode for _, episode in _ended(model, env, deterministic, render))


def even_episodes(model: Any, env: VecEnv, count: int, deterministic: bool = False) -> list[dict[str, Any]]:
    """The first episodes of every environment, as many of each as it takes for `count` of them.

    Unlike the first that end, these are not the short ones. Arguments as for `episodes`.
    """
    # More of the first environments where the count does not divide.
    wanted = [len(range(i, count, env.num_envs)) for i in range(env.num_envs)]
    played: list[dict[str, Any]] = []
    for i, episode in _ended(model, env, deterministic):
        if wanted[i]:
            wanted[i] -= 1
            played.append(episode)
        if not any(wanted):
            break
    return played


def _ended(model: Any, env: VecEnv, deterministic: bool, render: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number of an environment, and its info entry, for each episode that ends."""
    with one_blas_thread():
        obs, silent, lengths = env.reset(), 0, np.zeros(env.num_envs, int)
        state, dones = model.initial_states(env.num_envs), np.zeros(env.num_envs, bool)
        while True:
            actions, state = model.act(obs, state, deterministic, dones)
            obs, _, dones, infos = env.step(actions)
            if render:
                env.render()
            lengths = np.where(dones, 0, lengths + 1)
            require_end(int(lengths.max()))
            for i in np.flatnonzero(dones).tolist():
                if "episode" in infos[i]:
                    silent = 0
                    yield i, infos[i]["episode"]
                elif (silent := silent + 1) > MOST_SILENT_DONES:
                    raise ValueError("the environments' infos have no episodes: put a Monitor around each environment")
