"""Policies without chance: of every action space, with and without memory, in numpy as in the graph."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs import es
from tfbaselines.policy.actor import GraphActor, NumpyActor, make_actor
from tfbaselines.policy.base import BasePolicy, Head, SamplingActor
from tfbaselines.policy.policy import CertainHead, DirectPolicy
from tfbaselines.training.model import PolicyModel

BOX = spaces.Box(-3.0, 3.0, (3,), np.float32)
ACTIONS = [
    spaces.Discrete(4, start=-1),
    spaces.MultiDiscrete([3, 2], start=[1, 0]),
    spaces.MultiBinary(3),
    spaces.Box(-1.0, 1.0, (2, 2), np.float32),
]


def make(action=ACTIONS[0], network="mlp", seed=0, **kwargs):
    env = SimpleNamespace(observation_space=BOX, action_space=action)
    policy = es.make_policy(network, env, es.Config.of(kwargs))
    rng = np.random.default_rng(seed)
    for variable in policy.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    return policy


def observations(count=40):
    return np.random.default_rng(1).normal(size=(count, 3)).astype(np.float32)


@pytest.mark.parametrize("action", ACTIONS, ids=str)
def test_an_action_is_the_mode_with_and_without_noise(action):
    policy, obs = make(action, num_hidden=8), observations()
    assert isinstance(policy, BasePolicy) and isinstance(policy.head, Head)
    ours, graph = make_actor(policy), GraphActor(policy)
    assert isinstance(ours, NumpyActor) and isinstance(ours, SamplingActor)
    noise = policy.head.draw_noise(np.random.default_rng(0), (len(obs),))
    found = [actor.choose(obs, None, None, given)[0] for actor in (ours, graph) for given in (noise, None)]
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, rtol=1e-5, atol=1e-5)
    assert all(action.contains(one.astype(action.dtype)) or isinstance(action, spaces.Box) for one in found[0])
    assert found[0].shape == (40, *action.shape) and len(np.unique(found[0])) > 1
    model = PolicyModel(policy)
    assert not model.value(obs).any() and not model.step(obs)[3].any()


def test_nothing_is_drawn():
    rng = np.random.default_rng(0)
    CertainHead(ACTIONS[0]).draw_noise(rng, (5,))
    assert rng.random() == np.random.default_rng(0).random()


def test_a_box_has_no_deviation_to_learn():
    shapes = [tuple(variable.shape) for variable in make(ACTIONS[3], num_layers=1, num_hidden=8).trainable_variables]
    assert shapes == [(3, 8), (8,), (8, 4), (4,)]


def test_a_policy_with_memory_keeps_it():
    policy, obs = make(network="lstm", nlstm=4), observations(2)
    model = PolicyModel(policy)
    first, states = model.act(obs, model.initial_states(2))
    assert isinstance(policy, DirectPolicy) and states.shape == (2, 8) and states.any()
    again, cleared = model.act(obs, states, mask=np.ones(2, bool))
    np.testing.assert_array_equal(cleared, states)
    np.testing.assert_array_equal(again, first)


def test_an_exported_policy_gives_the_same_answers(tmp_path):
    model, obs = PolicyModel(make(ACTIONS[3], num_hidden=8)), observations()
    model.export(tmp_path / "served")
    answers = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"](observations=obs)
    np.testing.assert_allclose(answers["actions"], model.act(obs)[0], rtol=1e-5, atol=1e-5)
    assert not np.any(answers["values"])
