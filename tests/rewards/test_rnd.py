"""Random network distillation: the error on what is seen often shrinks, and is divided by its running deviation."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.config.groups import Rnd as Arguments
from tfbaselines.rewards.novelty import Rnd

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
ARGUMENTS = Arguments(encoding_size=16, learning_rate=1e-2)


def make(observation_space=BOX):
    return Rnd(SimpleNamespace(observation_space=observation_space, action_space=spaces.Discrete(2)), ARGUMENTS)


def batch(rows, seed=0, space=BOX):
    space.seed(seed)
    obs = np.array([space.sample() for _ in range(2 * rows)])
    return {"obs": obs[:rows], "actions": np.zeros(rows, np.int64), "next_obs": obs[rows:]}


def test_the_error_is_of_the_next_observation_and_the_random_network_stays():
    signal, seen = make(), batch(32)
    target = [variable.numpy() for variable in signal.target.trainable_variables]
    first = signal.rewards(**seen)
    assert first.shape == (32,) and (first > 0).all()
    np.testing.assert_array_equal(signal.rewards(seen["obs"] + 5, seen["actions"] + 1, seen["next_obs"]), first)
    indices = np.tile(np.arange(32, dtype=np.int32), (300, 1))
    losses = signal.update(seen, indices)["loss"], signal.update(seen)["loss"]
    assert signal.rewards(**seen).mean() < 0.05 * first.mean() and losses[1] < losses[0]
    other = batch(32, seed=1)
    assert signal.rewards(**other).mean() > 2 * signal.rewards(**seen).mean()
    for before, now in zip(target, signal.target.trainable_variables, strict=True):
        np.testing.assert_array_equal(before, now.numpy())


def test_rewards_are_errors_over_the_deviation_of_all_errors():
    signal = make()
    errors = []
    for seed in range(3):
        own = batch(64, seed)
        signal.observations.take_in(own["next_obs"])
        signal.observations.take_in = lambda _: None
        errors.append(super(Rnd, signal).rewards(**own))
        signal.take_in(own)
        rewards = signal.rewards(**own)
        np.testing.assert_allclose(rewards, errors[-1] / np.std(np.concatenate(errors)), rtol=1e-5)


def test_numbers_are_normalised_by_what_was_seen():
    signal = make(spaces.Box(-np.inf, np.inf, (3,), np.float32))
    far = {"obs": np.zeros((50, 3), np.float32), "actions": np.zeros(50, np.int64)}
    far["next_obs"] = np.random.default_rng(0).normal(1000.0, 200.0, (50, 3)).astype(np.float32)
    before = signal.rewards(**far)
    # All beyond the clip.
    assert np.ptp(before) == 0
    signal.take_in(far)
    assert np.ptp(signal.rewards(**far)) > 0


def test_rollouts_keep_their_shape_and_images_pass_through_convolutions():
    signal = make(spaces.Box(0, 255, (36, 36, 1), np.uint8))
    obs = np.random.default_rng(0).integers(0, 255, (2, 3, 36, 36, 1), dtype=np.uint8)
    rewards = signal.rewards(obs, np.zeros((2, 3), np.int64), obs)
    assert rewards.shape == (2, 3) and np.unique(rewards).size == 6
    rows = {"obs": obs[0], "actions": np.zeros(3, np.int64), "next_obs": obs[0]}
    signal.take_in(rows)
    assert np.isfinite(signal.update(rows)["loss"])


@pytest.mark.parametrize("space", [spaces.Discrete(4), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(3)])
def test_other_observations(space):
    signal, seen = make(space), batch(20, space=space)
    signal.take_in(seen)
    rewards = signal.rewards(**seen)
    same = (seen["next_obs"] == seen["next_obs"][0]).reshape(20, -1).all(-1)
    np.testing.assert_allclose(rewards[same], rewards[0], rtol=1e-5)


def test_what_was_learnt_survives(eager):
    signal, other, seen = make(), make(), batch(16)
    signal.take_in(seen)
    signal.update(seen)
    other.restore(signal.state())
    np.testing.assert_array_equal(other.rewards(**seen), signal.rewards(**seen))
    assert other.update(seen) == signal.update(seen)
    np.testing.assert_array_equal(other.rewards(**seen), signal.rewards(**seen))
    with pytest.raises(ValueError, match="the saved model has no reward signal 'rnd'"):
        other.restore({"curiosity": {}})
