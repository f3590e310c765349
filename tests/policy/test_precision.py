"""bfloat16 inside networks only."""

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.policy.policy import build_policy
from tfbaselines.policy.precision import OPTION, set_precision


class Env:
    observation_space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
    action_space = spaces.Discrete(6)
    num_envs = 1


class Steered(Env):
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)


@pytest.fixture(autouse=True)
def back_to_float32():
    yield
    set_precision("float32")


def test_precision_is_switched_on_and_off():
    for precision, expected in (("bfloat16", True), ("float32", False)):
        set_precision(precision)
        assert tf.config.optimizer.get_experimental_options()[OPTION] == expected


def actor_and_critic():
    return build_actor_critic(Steered(), "cnn_small", head=DeterministicHead, critics=2)


@pytest.mark.parametrize("build", [lambda: build_policy(Env(), "cnn_small"), actor_and_critic])
def test_what_is_computed_from_outputs_is_float32(build):
    """A difference from a number of more than eight bits would be rounded with it."""
    set_precision("bfloat16")
    policy = build()

    @tf.function
    def advantage(obs):
        outputs = policy.forward(obs)
        return (3.14159 + 1e-4 * outputs.value) - 3.0, tf.reduce_mean(outputs.flat * 0.3333)

    obs = np.random.default_rng(0).integers(0, 255, (8, 84, 84, 4)).astype(np.uint8)
    seen, mean = advantage(obs)
    np.testing.assert_allclose(seen, 0.14159, atol=1e-3)
    assert tf.cast(tf.cast(mean, tf.bfloat16), tf.float32) != mean
