"""Running a trained policy: what --play and evaluate share."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tfbaselines.envs.vec import VecEnv


def episodes(model: Any, env: VecEnv, deterministic: bool = False, render: bool = False) -> Iterator[dict[str, Any]]:
    """Act for ever; yields the info entry of each episode that ends: 'r' the environment's own return, 'l', 't'.

    Args:
        model: what acts.
        env: the environments, wrapped as in training.
        deterministic: take the most likely actions.
        render: show the environments after each step.
    """
    obs = env.reset()
    state, dones = model.policy.initial_state(env.num_envs), np.zeros(env.num_envs, bool)
    while True:
        actions, state = model.act(obs, state, deterministic, dones)
        obs, _, dones, infos = env.step(actions)
        if render:
            env.render()
        for i in np.flatnonzero(dones):
            if "episode" in infos[i]:
                yield infos[i]["episode"]
