"""Policies of every kind of observation and action, and what they act on."""

from types import SimpleNamespace

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.observations import ONLY
from tfbaselines.envs.vec.packed import MASK, PackedSpace
from tfbaselines.policy.encoding import observation_dtype
from tfbaselines.policy.policy import build_policy

BOX = spaces.Box(-3, 3, (3,), np.float32)
DISCRETE = spaces.Discrete(4, start=-1)
PIXELS = spaces.Box(0, 255, (36, 36, 1), np.uint8)
OBSERVATIONS = {
    "box": BOX,
    "doubles": spaces.Box(-3, 3, (2, 3), np.float64),
    "bytes": spaces.Box(0, 255, (4,), np.uint8),
    "image": spaces.Box(0, 255, (4, 4, 2), np.uint8),
    "discrete": DISCRETE,
    "multidiscrete": spaces.MultiDiscrete([3, 2], start=[1, 0]),
    "multibinary": spaces.MultiBinary([2, 2]),
}
ACTIONS = {
    "discrete": DISCRETE,
    "multidiscrete": spaces.MultiDiscrete([3, 2], start=[1, 0]),
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "table": spaces.Box(-1, 1, (2, 2), np.float32),
    "multibinary": spaces.MultiBinary(3),
}


def make(network="mlp", obs=BOX, action=DISCRETE, value_network=None, **kwargs):
    env = SimpleNamespace(observation_space=obs, action_space=action)
    policy = build_policy(env, network, value_network, **kwargs)
    rng = np.random.default_rng(0)
    for variable in policy.trainable_variables:
        variable.assign(variable.numpy() + rng.normal(scale=0.1, size=variable.shape))
    if policy.normalizer:
        policy.normalizer.update(rng.normal(1, 2, (50, *obs.shape)))
    return policy


def batch(space=BOX, rows=5):
    space.seed(0)
    return np.stack([space.sample() for _ in range(rows)]).astype(observation_dtype(space))


def noise_of(policy, rows=5):
    return policy.head.draw_noise(np.random.default_rng(0), (rows,))


def masked(make_policy, action, widths):
    """A policy of observations with action masks, a batch of them, and its masks: a choice of each part is allowed."""
    space = PackedSpace(spaces.Dict({ONLY: BOX, MASK: spaces.MultiBinary(sum(widths))}))
    mask = np.random.default_rng(1).integers(0, 2, (50, sum(widths)), dtype=np.int8)
    mask[:, np.cumsum([0, *widths[:-1]])] = 1
    policy = make_policy(space, action)
    obs = {ONLY: batch(rows=50), MASK: mask}
    return policy, space.pack(obs) if isinstance(policy.observation_space, PackedSpace) else obs, mask
