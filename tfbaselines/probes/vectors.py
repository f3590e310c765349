"""Signs in the vector environment that the learner gets: sizes after normalization, ends by time limit, copies."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np

from tfbaselines.envs.make import build_env
from tfbaselines.envs.vec import VecEnv
from tfbaselines.probes.signs import Sign
from tfbaselines.probes.walks import random_action, row_of

# Time limit of the test, and steps after which it should have come.
LIMIT, PATIENCE = 5, 15
# Copies that are compared, and steps with them.
COPIES, STEPS = 4, 300
# Steps for which a copy is moved beside another one.
SHARED = 8
# Types of environments that take no time limit.
WITHOUT_LIMIT = ("atari", "retro", "unity")


def copies_of(config: dict[str, Any], count: int, **env_kwargs: Any) -> VecEnv:
    """Make copies of a run's environment, normalized as in the run."""
    own = config["env"]
    further = {"num_env": count, "seed": 0, "worker": "dummy", "env_threads": None}
    return build_env(own | further | {"env_kwargs": {**(own.get("env_kwargs") or {}), **env_kwargs}})


def rows_of(env: VecEnv, obs: Any) -> np.ndarray:
    """Return observations of a vector environment as one row each [N, n]."""
    return np.stack([row_of(env.observation_space, one) for one in _each(obs, env.num_envs)])


def _each(obs: Any, count: int) -> Iterator[Any]:
    for i in range(count):
        yield {name: part[i] for name, part in obs.items()} if isinstance(obs, dict) else obs[i]


def seen(env: VecEnv, steps: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
    """Take random steps, equal ones in every copy; return observations [T, N, n] and rewards [T, N]."""
    rng = np.random.default_rng(0)
    rows, rewards = [rows_of(env, env.reset())], []
    for _ in range(steps):
        obs, paid, _, _ = env.step(np.stack([random_action(env.action_space, rng)] * env.num_envs))
        rows.append(rows_of(env, obs))
        rewards.append(paid)
    return np.array(rows), np.array(rewards)


def shared_signs(make: Callable[[], gymnasium.Env]) -> Iterator[Sign]:
    """Judge whether steps of one copy move another one: its course is taken alone, and with the other between."""
    one, other = make(), make()
    try:
        rng = np.random.default_rng(0)
        actions = [random_action(one.action_space, rng) for _ in range(SHARED)]
        alone, again, between = [], [], []
        for rows, moves in ((alone, False), (again, False), (between, True)):
            one.reset(seed=0)
            if moves:
                other.reset(seed=1)
            for action in actions:
                obs, reward, terminated, truncated, _ = one.step(action)
                rows.append(np.append(row_of(one.observation_space, obs), reward))
                if moves and not (terminated or truncated):
                    truncated = any(other.step(action)[2:4])
                if terminated or truncated:
                    break
    finally:
        one.close()
        other.close()
    length = min(len(alone), len(between))
    if len(alone) != len(again) or not np.array_equal(alone, again):
        return
    # Simulators keep traces of others in their last digits.
    apart, deviation = np.abs(np.subtract(alone[:length], between[:length])).max(0), np.std(alone, axis=0)
    varied = deviation > 0.1 * deviation.max()
    if varied.any() and (apart > 0.5 * deviation)[varied].mean() > 0.5:
        # Ends and limits of such copies are wrong as well.
        yield Sign("shared_copies", "changes the next observation of another copy", 0.98)


def limit_signs(env: VecEnv) -> Iterator[Sign]:
    """Judge whether ends by a time limit of LIMIT steps are reported as truncations."""
    rng = np.random.default_rng(0)
    env.reset()
    lengths, flags = np.zeros(env.num_envs, int), []
    for _ in range(PATIENCE):
        dones, infos = env.step(np.stack([random_action(env.action_space, rng) for _ in range(env.num_envs)]))[2:]
        lengths += 1
        flags += [bool(infos[i].get("TimeLimit.truncated")) for i in np.flatnonzero(dones & (lengths == LIMIT))]
        if (lengths > LIMIT).any():
            yield Sign("no_ends", f"a time limit of {LIMIT} steps ended nothing in {int(lengths.max())} steps", 0.97)
            return
        lengths[dones] = 0
    if len(flags) >= 3 and not any(flags):
        yield Sign(
            "limit_as_end", f"{len(flags)} ends by a time limit of {LIMIT} steps were reported as real ends", 0.97
        )
