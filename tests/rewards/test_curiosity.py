"""Curiosity: the forward model's error shrinks with experience; encodings keep what actions change."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.config.groups import Curiosity as Arguments
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.rewards.novelty import Curiosity, forward_error, inverse_error

# The first number is what actions change; the second is noise.
WORLD = spaces.Box(-np.inf, np.inf, (2,), np.float32)


def make(observation_space=WORLD, action_space=None, **kwargs):
    env = SimpleNamespace(observation_space=observation_space, action_space=action_space or spaces.Discrete(2))
    return Curiosity(env, Arguments(**{"encoding_size": 16, "learning_rate": 3e-3} | kwargs))


def moved(rows=256, seed=0):
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(rows, 2)).astype(np.float32)
    actions = rng.integers(2, size=rows)
    next_obs = np.stack([obs[:, 0] + 2.0 * actions - 1.0, rng.normal(size=rows)], -1).astype(np.float32)
    return {"obs": obs, "actions": actions, "next_obs": next_obs}


def test_errors():
    predicted, encoding = np.array([[1.0, 2.0], [0.0, 0.0]], np.float32), np.array([[1.0, 0.0], [3.0, 4.0]], np.float32)
    np.testing.assert_allclose(forward_error(predicted, encoding), [2.0, 12.5])
    box = spaces.Box(-1, 1, (1, 2), np.float32)
    output, taken = tf.constant([[0.5, 1.0]]), tf.constant([[[0.5, -1.0]]])
    np.testing.assert_allclose(inverse_error(output, taken, box, make_pdtype(box)), [2.0])
    several = spaces.MultiDiscrete([2, 2])
    logits = tf.constant([[0.0, 0.0, np.log(3.0), 0.0]])
    error = inverse_error(logits, tf.constant([[1, 0]]), several, make_pdtype(several))
    np.testing.assert_allclose(error, [np.log(2.0) + np.log(4.0 / 3.0)], rtol=1e-6)


def test_the_loss_is_of_both_models_and_the_reward_the_forward_models_error():
    signal, seen = make(), moved(8)
    loss, statistics = signal.loss(seen)
    forward, inverse = (float(statistics[name]) for name in ("forward_loss", "inverse_loss"))
    assert float(loss) == pytest.approx(0.2 * forward + 0.8 * inverse)
    rewards = signal.rewards(**seen)
    assert rewards.shape == (8,) and rewards.mean() == pytest.approx(forward)
    other = signal.rewards(seen["obs"], 1 - seen["actions"], seen["next_obs"])
    assert np.abs(other - rewards).min() > 0


def test_it_learns_what_actions_do():
    signal, seen = make(), moved()
    signal.take_in(seen)
    indices = np.random.default_rng(0).integers(256, size=(400, 64)).astype(np.int32)
    held_out = moved(seed=1)
    before = signal.loss(held_out)[1]["inverse_loss"]
    signal.update(seen, indices)
    assert before > 0.5 and signal.loss(held_out)[1]["inverse_loss"] < 0.1
    # The wrong action's outcome surprises.
    wrong = held_out | {"actions": 1 - held_out["actions"]}
    assert signal.rewards(**wrong).mean() > 2 * signal.rewards(**held_out).mean()


BOX = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 0.5], np.float32))


@pytest.mark.parametrize(
    "actions", [spaces.Discrete(3, start=5), spaces.MultiDiscrete([3, 2], start=[1, -4]), spaces.MultiBinary(3), BOX]
)
def test_every_kind_of_actions(actions, eager):
    signal = make(action_space=actions)
    actions.seed(0)
    taken = np.array([actions.sample() for _ in range(6)])
    obs = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)
    seen = {"obs": obs[:-1], "actions": taken, "next_obs": obs[1:]}
    rewards = signal.rewards(obs[:-1].reshape(2, 3, 2), taken.reshape(2, 3, *actions.shape), obs[1:].reshape(2, 3, 2))
    np.testing.assert_allclose(rewards.ravel(), signal.rewards(**seen), rtol=1e-5)
    losses = [signal.update(seen)["inverse_loss"] for _ in range(60)]
    assert losses[-1] < losses[0]


def test_actions_beyond_their_bounds_are_those_that_the_environment_takes():
    signal = make(action_space=BOX)
    obs = np.zeros((1, 2), np.float32)
    beyond, within = (signal.rewards(obs, np.array([a], np.float32), obs) for a in ([9.0, 9.0], [1.0, 0.5]))
    assert beyond == within


def test_what_was_learnt_survives(eager):
    signal, other, seen = make(), make(), moved(16)
    signal.take_in(seen)
    signal.update(seen)
    other.restore(signal.state())
    assert other.update(seen) == signal.update(seen)
    np.testing.assert_array_equal(other.rewards(**seen), signal.rewards(**seen))
