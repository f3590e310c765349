"""Targets and statistics of batches of single steps and of sequences, against slow loops."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.learn.losses import mean, spread, target_actions, targets, td_errors, views, weighted_mean
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.replay import Replay

BOX = spaces.Box(-np.inf, np.inf, (1,), np.float32)
BOUNDED = spaces.Box(np.array([[-1.0, 2.0]], np.float32), np.array([[3.0, 2.5]], np.float32))


def make(**kwargs):
    env = SimpleNamespace(observation_space=BOX, action_space=BOUNDED)
    return build_actor_critic(env, "dense", head=DeterministicHead, critics=2, hidden_sizes=(4,), **kwargs)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def tensors(**arrays):
    return {name: tf.constant(array) for name, array in arrays.items()}


def test_single_steps_go_on_from_the_next_observation():
    batch = tensors(rewards=numbers(5), discount=numbers(5, seed=1))
    values = numbers(5, seed=2)
    expected = batch["rewards"] + batch["discount"] * values
    np.testing.assert_allclose(targets(batch, tf.constant(values)), expected, rtol=1e-6)


@pytest.mark.parametrize("jit", [None, False, True], ids=["eager", "graph", "jit"])
def test_rows_of_sequences_go_on_from_the_row_that_is_named(jit):
    rng, (sequences, rows) = np.random.default_rng(0), (3, 5)
    rewards, discounts, values = numbers(15), numbers(15, seed=1), numbers(15, seed=2)
    next_rows = rng.integers(rows, size=(sequences, rows)).astype(np.int32)
    expected = []
    for sequence in range(sequences):
        for row in range(rows):
            place = sequence * rows + row
            value = values[sequence * rows + next_rows[sequence, row]]
            expected.append(rewards[place] + discounts[place] * value)
    batch = tensors(rewards=rewards, discount=discounts, next_rows=next_rows)
    function = targets if jit is None else tf.function(targets, jit_compile=jit)
    np.testing.assert_allclose(function(batch, tf.constant(values)), expected, rtol=1e-6)


@pytest.mark.parametrize("n_step", [1, 3])
def test_targets_of_replayed_sequences_are_returns(n_step):
    """Observations and rewards are the time, episodes end or are cut; the value of an observation is its square."""
    gamma, env = 0.5, SimpleNamespace(num_envs=1, observation_space=BOX, action_space=spaces.Discrete(2))
    replay = Replay(env, 100, gamma, n_step)
    rng, ends = np.random.default_rng(0), {}
    for t in range(60):
        over, cut = rng.random() < 0.2, rng.random() < 0.5
        ends[t] = "truncated" if over and cut else "end" if over else ""
        infos = [{"TimeLimit.truncated": cut, "final_observation": np.array([-1.0])}]
        obs, following, reward = ([[t]], [[t + 1]], np.array([t], np.float32))
        replay.put(np.array(obs, np.float32), np.zeros(1, int), reward, np.array(following), np.array([over]), infos)
    length = 8
    drawn = replay.sample_sequences(rng, 1, 30, length)
    batch = {name: tf.constant(array[0]) for name, array in drawn.items()}
    found = targets(batch, tf.square(batch["obs"][:, 0]))
    whole = 0
    for place, (time, weight, target) in enumerate(zip(batch["obs"][:, 0], batch["valid"], found, strict=True)):
        t, expected, known = int(time), 0.0, place % (length + 1) < length
        for k in range(min(n_step, length - place % (length + 1))):
            expected += gamma**k * (t + k)
            if ends[t + k]:
                known = known and ends[t + k] == "end"
                break
        else:
            expected += gamma ** (k + 1) * (t + k + 1) ** 2 if known else 0.0
        assert weight == known
        assert not known or float(target) == pytest.approx(expected)
        whole += known
    assert whole > 150


@pytest.mark.parametrize("valid", [None, [1.0, 0.0, 1.0, 1.0, 0.0], [0.0] * 5, [0.0, 0.0, 1.0, 0.0, 0.0]])
def test_statistics_are_over_rows_of_which_everything_is_known(valid):
    values = np.array([3.0, 99.0, -1.0, 0.5, -99.0], np.float32)
    batch = {} if valid is None else {"valid": tf.constant(valid)}
    counted = values if valid is None else values[np.array(valid) > 0]
    found = spread("Q", batch, tf.constant(values))
    assert list(found) == ["Q", "Q:std", "Q:min", "Q:max"]
    assert float(mean(batch, tf.constant(values))) == pytest.approx(counted.mean() if len(counted) else 0.0)
    if len(counted):
        expected = [counted.mean(), counted.std(), counted.min(), counted.max()]
        np.testing.assert_allclose(list(found.values()), expected, rtol=1e-5, atol=1e-6)
    assert np.isfinite(list(found.values())).all()


def test_rows_of_which_not_all_is_known_have_no_gradient():
    values = tf.Variable(numbers(4))
    with tf.GradientTape() as tape:
        loss = mean(tensors(valid=np.array([1.0, 0.0, 0.0, 1.0], np.float32)), tf.square(values))
    np.testing.assert_allclose(tape.gradient(loss, values), values * [1.0, 0.0, 0.0, 1.0], rtol=1e-6)


def test_importance_weighs_rows_and_validity_counts_them():
    values, weights = numbers(4), np.array([0.5, 0.1, 1.0, 0.2], np.float32)
    valid = np.array([1.0, 0.0, 1.0, 1.0], np.float32)
    batch = tensors(weights=weights)
    assert float(weighted_mean(batch, tf.constant(values))) == pytest.approx(np.mean(weights * values))
    # Statistics stay those of the rows themselves.
    assert float(mean(batch, tf.constant(values))) == pytest.approx(values.mean())
    assert float(spread("Q", batch, tf.constant(values))["Q"]) == pytest.approx(values.mean())
    both = tensors(weights=weights, valid=valid)
    expected = (weights * values * valid).sum() / valid.sum()
    assert float(weighted_mean(both, tf.constant(values))) == pytest.approx(expected)
    plain = tensors(valid=valid)
    assert float(weighted_mean(plain, tf.constant(values))) == float(mean(plain, tf.constant(values)))


def test_errors_are_reported_of_rows_that_were_drawn_by_priority():
    q, aims = numbers(4), numbers(4, seed=1)
    assert td_errors(tensors(targets=aims), tf.constant(q)) == {}
    found = td_errors(tensors(targets=aims, weights=np.ones(4, np.float32)), tf.constant(q))
    np.testing.assert_allclose(found["td_errors"], np.abs(q - aims))


def test_single_steps_have_two_views():
    policy, batch = make(), tensors(obs=numbers(3, 1), next_obs=numbers(3, 1, seed=1))
    seen = views(policy, batch)
    for name, obs in (("now", "obs"), ("next", "next_obs")):
        np.testing.assert_array_equal(seen[name].encoded, batch[obs])
        assert seen[name].episode_start is seen[name].states is None


def test_sequences_have_one_view_with_memory():
    policy = make(memory_size=4)
    batch = tensors(obs=numbers(6, 1), episode_start=np.eye(1, 6, 2, np.float32)[0], states=numbers(2, 8))
    seen = views(policy, batch)
    assert seen["now"] is seen["next"]
    np.testing.assert_array_equal(seen["now"].episode_start, batch["episode_start"])
    np.testing.assert_array_equal(policy.act(seen["now"]), policy.forward(*batch.values()).flat)


def test_a_targets_actions_have_noise_inside_of_their_bounds():
    policy, obs = make(), numbers(4, 1)
    view, noise = policy.view(tf.constant(obs)), 3 * numbers(4, 2, seed=1)
    plain = target_actions(policy, view, None)
    assert plain.shape == (4, 2)
    np.testing.assert_allclose(plain, np.reshape(policy.head.mode(policy.act(view)), (4, 2)), atol=1e-6)
    moved = target_actions(policy, view, tf.constant(noise))
    np.testing.assert_allclose(moved, np.clip(plain + noise, [-1.0, 2.0], [3.0, 2.5]), rtol=1e-6, atol=1e-6)
    assert np.any(moved == [-1.0, 2.0]) or np.any(moved == [3.0, 2.5])
