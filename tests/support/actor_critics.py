"""Actors with critics over many spaces, for the tests of policy/actor_critic.py."""

from types import SimpleNamespace

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK, ONLY
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import SquashedGaussianHead
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.encoding import observation_dtype

BOX = spaces.Box(-3, 3, (3,), np.float32)
CAMERA = spaces.Box(0, 255, (12, 12, 2), np.uint8)
PICTURE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
SEVERAL = spaces.Dict(camera=CAMERA, speed=BOX)
DISCRETE, MULTI = spaces.Discrete(5, start=-1), spaces.MultiDiscrete([3, 2], start=[1, -4])
BOUNDED = spaces.Box(np.array([-1.0, 2.0], np.float32), np.array([3.0, 2.5], np.float32))
ACTIONS = {"box": BOUNDED, "discrete": DISCRETE, "multidiscrete": MULTI}
OBSERVATIONS = {
    "vector": BOX,
    "doubles": spaces.Box(-3, 3, (2, 2), np.float64),
    "discrete": spaces.Discrete(4),
    "camera": CAMERA,
    "several": SEVERAL,
    "masked": spaces.Dict({ONLY: BOX, MASK: spaces.MultiBinary(5)}),
    "masked camera": spaces.Dict({ONLY: CAMERA, MASK: spaces.MultiBinary(5)}),
    "masked parts": spaces.Dict({**SEVERAL, MASK: spaces.MultiBinary(5)}),
}
# Names of networks, with their own arguments, for observations that they take.
WHOLE = {
    "lstm": (BOX, {"nlstm": 3}),
    "cnn": (PICTURE, {}),
    "cnn_small": (PICTURE, {}),
    "cnn_lstm": (PICTURE, {"nlstm": 3}),
}
ROWS = 6


def make(obs=BOX, action=BOUNDED, network="dense", head=None, critics=2, shaken=True, **kwargs):
    """A policy none of whose weights is at its first value."""
    if network in ("dense", "mlp"):
        kwargs = ({"hidden_sizes": (8, 7)} if network == "dense" else {"num_hidden": 8}) | kwargs
    elif not kwargs:
        kwargs = WHOLE[network][1]
    keras.utils.set_random_seed(0)
    env = SimpleNamespace(observation_space=obs, action_space=action)
    head = head or (SquashedGaussianHead if isinstance(action, spaces.Box) else make_pdtype)
    policy = build_actor_critic(env, network, head=head, critics=critics, **kwargs)
    if shaken:
        shake(policy)
    return policy


def shake(policy, seed=0):
    rng = np.random.default_rng(seed)
    for variable in policy.trainable_variables:
        variable.assign(variable.numpy() + rng.normal(scale=0.1, size=variable.shape))


def batch(space, rows=ROWS, seed=0):
    if isinstance(space, spaces.Dict):
        return {name: mask(rows, part.n) if name == MASK else batch(part, rows, seed) for name, part in space.items()}
    space.seed(seed)
    return np.stack([space.sample() for _ in range(rows)]).astype(observation_dtype(space))


def mask(rows, width):
    """At least one choice of every part of an action is allowed."""
    allowed = np.random.default_rng(0).random((rows, width)) < 0.3
    allowed[:, [0, 3]] = True
    return allowed.astype(np.int8)


def memory_of(policy, envs=2, rows=ROWS):
    """episode_start and states of several environments' rows; nothing without memory."""
    if not policy.recurrent:
        return ()
    rng = np.random.default_rng(1)
    episode_start = np.zeros(rows, np.float32)
    episode_start[1] = 1.0
    return tf.constant(episode_start), tf.constant(rng.normal(size=(envs, policy.state_size)).astype(np.float32))


def shown(policy):
    """A batch of observations as tensors, with episode_start and states of a recurrent policy."""
    return tf.nest.map_structure(tf.constant, batch(policy.observation_space)), *memory_of(policy)


def view_of(policy):
    return policy.view(*shown(policy))


def copied(policy, source):
    """The policy with another's weights."""
    for variable, value in zip(policy.trainable_variables, source.trainable_variables, strict=True):
        variable.assign(value)
    return policy


def noise_of(policy, rows=ROWS):
    return policy.head.draw_noise(np.random.default_rng(2), (rows,))


def assert_alike(one, other):
    """Two policies have the same outputs."""
    a, b = (policy.forward(*shown(policy)) for policy in (one, other))
    for name in ("flat", "value", "states"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def assert_whole(policy):
    """Outputs of a policy have the right shapes and depend on observations."""
    action = policy.action_space
    view = view_of(policy)
    outputs = policy.forward(*shown(policy))
    assert outputs.flat.shape == (ROWS, policy.head.param_size) and outputs.value.shape == (ROWS,)
    assert np.ptp(outputs.flat, axis=0).max() > 0 and np.ptp(outputs.value) > 0
    np.testing.assert_allclose(policy.act(view), outputs.flat, rtol=1e-5, atol=1e-6)
    qs = policy.q(view, batch(action))
    assert [q.shape for q in qs] == [(ROWS,), (ROWS,)] and np.isfinite(qs).all()
    assert np.abs(qs[0] - qs[1]).min() > 0
    # The value is the smallest of the critics' for the most likely action.
    mode = policy.head.distribution(outputs.flat).mode()
    np.testing.assert_allclose(outputs.value, np.min(policy.q(view, mode), axis=0), rtol=1e-4, atol=1e-5)
    assert mode.shape == (ROWS, *action.shape)
    states = outputs.states
    assert (states is None) if not policy.recurrent else (states.shape == (2, policy.state_size))


KINDS = {
    "vector": {"normalize_observations": True},
    "discrete": {"action": DISCRETE},
    "several": {"obs": SEVERAL, "normalize_observations": True},
    "memory": {"obs": SEVERAL, "memory_size": 4, "action": MULTI},
    "masked": {"obs": OBSERVATIONS["masked parts"], "action": DISCRETE},
    "lstm": {"network": "lstm"},
    "cnn": {"obs": PICTURE, "network": "cnn_small"},
}
