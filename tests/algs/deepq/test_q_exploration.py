"""Exploration around a Q-network: epsilon over time, noisy layers, and noise in the parameters of the right size."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.algs.deepq.exploration import FIRST_STDDEV, EpsilonGreedy, ParameterNoise
from tfbaselines.algs.deepq.q_network import QNetwork
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.networks import mlp

OBS = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
START, GOES_ON = np.ones(4, bool), np.zeros(4, bool)


def make(**kind):
    space = spaces.Box(-3, 3, (3,), np.float32)
    return QNetwork(space, spaces.Discrete(5), mlp(num_hidden=8), hiddens=(8,), **kind)


def greedy(epsilon, **kind):
    policy = make(**kind)
    model = SimpleNamespace(policy=policy, actor=make_actor(policy))
    return EpsilonGreedy(model, epsilon, np.random.default_rng(0))


def noise(epsilon=lambda t: 0.1, policy=None):
    policy = policy or make()
    return policy, ParameterNoise(policy, make, epsilon, np.random.default_rng(0))


def test_epsilon_is_that_of_the_step():
    asked = []

    def epsilon(t):
        asked.append(t)
        return 1.0 if t < 40 else 0.0

    explore = greedy(epsilon)
    actions = np.stack([explore(OBS, None, GOES_ON)[0] for _ in range(60)])
    # Four environments take a step each.
    assert asked == list(range(0, 240, 4)) and explore.steps == 240
    assert all(len(set(column)) > 2 for column in actions[:10].T)
    expected = explore._model.actor.choose(OBS, None, None, None)[0]
    assert (actions[10:] == expected).all()


def test_the_steps_go_on_in_a_resumed_run():
    one, other = greedy(lambda t: 0.0), greedy(lambda t: 0.0)
    one(OBS, None, GOES_ON)
    other.restore(one.state())
    assert other.steps == 4


def test_noisy_layers_draw_anew_in_every_step():
    explore = greedy(lambda t: 0.0, noisy=True)
    drawn = []
    for _ in range(50):
        actions, states = explore(OBS, None, GOES_ON)
        drawn.append(explore._noisy.noise.numpy())
        assert states is None and actions.shape == (4,)
    drawn = np.array(drawn)
    assert len(np.unique(drawn[:, 0])) == 50 and drawn.std() == pytest.approx(1.0, abs=0.05)
    # The model itself acts without noise.
    assert explore._model.policy.noise is None


def moved(policy, perturbed):
    pairs = zip(policy.trainable_variables, perturbed.policy.trainable_variables, strict=True)
    return [float(np.abs(one.numpy() - other.numpy()).max()) > 0 for one, other in pairs]


def test_noise_is_drawn_for_each_episode_and_only_above_the_network():
    policy, explore = noise()
    explore(OBS, None, START)
    weights = [variable.numpy() for variable in explore.perturbed.policy.trainable_variables]
    assert moved(policy, explore.perturbed) == [False] * 4 + [True] * 8
    explore(OBS, None, GOES_ON)
    for variable, before in zip(explore.perturbed.policy.trainable_variables, weights, strict=True):
        np.testing.assert_array_equal(variable.numpy(), before)
    explore(OBS, None, np.eye(4, dtype=bool)[2])
    assert not np.array_equal(explore.perturbed.policy.trainable_variables[-2].numpy(), weights[-2])


def test_actions_are_those_of_the_copy_with_noise():
    _, explore = noise()
    explore.perturbed.spec.current_stddev = 5.0
    actions, _ = explore(OBS, None, START)
    np.testing.assert_array_equal(actions, explore.perturbed.policy.forward(OBS).flat.numpy().argmax(1))


@pytest.mark.parametrize(("stddev", "grows"), [(1e-6, True), (5.0, False)])
def test_its_size_is_adapted_in_every_step(stddev, grows):
    _, explore = noise()
    explore.perturbed.spec.current_stddev = stddev
    for k in range(3):
        explore(OBS, None, START if k == 0 else GOES_ON)
    factor = 1.01 if grows else 1 / 1.01
    assert explore.perturbed.spec.current_stddev == pytest.approx(stddev * factor**3)


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 0.0])
def test_it_moves_the_policy_as_far_as_epsilon_would(epsilon):
    """-log(1 - epsilon + epsilon / 5) is the divergence of a greedy policy from an epsilon-greedy one."""
    _, explore = noise(lambda t: epsilon)
    explore(OBS, None, START)
    assert explore.perturbed.spec.desired_action_stddev == pytest.approx(-math.log(1 - epsilon + epsilon / 5))


def test_the_divergence_is_between_softmaxes():
    policy, explore = noise()
    measuring = explore.perturbed._measuring
    divergence = explore.perturbed.adapt({"obs": OBS})
    p, q = (np.exp(one.forward(OBS).flat.numpy()) for one in (policy, measuring))
    p, q = (x / x.sum(1, keepdims=True) for x in (p, q))
    assert divergence == pytest.approx((p * np.log(p / q)).sum(1).mean(), rel=1e-3, abs=1e-6)


def test_noise_and_its_size_go_on_in_a_resumed_run():
    (_, one), (_, other) = noise(), noise()
    one(OBS, None, START)
    other.restore(one.state())
    assert other.steps == 4 and other.perturbed.spec.current_stddev != FIRST_STDDEV
    for mine, its in zip(
        other.perturbed.policy.trainable_variables, one.perturbed.policy.trainable_variables, strict=True
    ):
        np.testing.assert_array_equal(mine.numpy(), its.numpy())
    assert not other.perturbed._outdated
