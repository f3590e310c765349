"""Every policy and actor satisfies the protocols, and a policy of another kind acts through the same code."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.algs.acer.loss import DuelingPolicy
from tfbaselines.algs.deepq.loss import QuantileReturn
from tfbaselines.algs.deepq.q_network import QNetwork
from tfbaselines.envs.vec.observations import MASK, ONLY
from tfbaselines.policy.actor import GraphActor, NumpyActor, make_actor
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.base import Actor, BasePolicy, BlockActor, Head, SamplingActor
from tfbaselines.policy.bounded import DeterministicHead, SquashedGaussianHead
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.networks import mlp
from tfbaselines.policy.policy import build_policy
from tfbaselines.training.model import PolicyModel

BOX = spaces.Box(-3, 3, (3,), np.float32)
BOUNDED = spaces.Box(-1, 1, (2,), np.float32)
DISCRETE = spaces.Discrete(4, start=-1)
SPACES = [BOUNDED, DISCRETE, spaces.MultiDiscrete([3, 2]), spaces.MultiBinary(3)]
EPSILON = 0.3


def q_network(**kwargs):
    return QNetwork(BOX, DISCRETE, mlp(num_hidden=8), epsilon=EPSILON, hiddens=(8,), **kwargs)


def environment(obs=BOX, action=DISCRETE):
    return SimpleNamespace(observation_space=obs, action_space=action)


def actor_critic(obs=BOX, action=DISCRETE, **kwargs):
    head = SquashedGaussianHead if isinstance(action, spaces.Box) else make_pdtype
    return build_actor_critic(environment(obs, action), "dense", head=head, critics=2, hidden_sizes=(8,), **kwargs)


POLICIES = {
    "mlp": lambda: build_policy(environment(), "mlp", normalize_observations=True),
    "lstm": lambda: build_policy(environment(), "lstm", nlstm=4),
    "dueling": lambda: build_policy(environment(action=BOUNDED), "mlp", policy_class=DuelingPolicy),
    "actor_critic": lambda: actor_critic(action=BOUNDED),
    "memory": lambda: actor_critic(memory_size=4),
    "masked": lambda: actor_critic(spaces.Dict({ONLY: BOX, MASK: spaces.MultiBinary(4)})),
    "q_network": q_network,
    "distributional": lambda: q_network(returns=QuantileReturn(3)),
    "noisy": lambda: q_network(noisy=True).with_noise(),
}


@pytest.mark.parametrize("kind", POLICIES)
def test_every_policy_and_its_actor_satisfy_the_protocols(kind):
    policy = POLICIES[kind]()
    actor, in_numpy = make_actor(policy), kind not in ("lstm", "memory")
    assert isinstance(policy, BasePolicy) and isinstance(policy.head, Head)
    assert isinstance(actor, Actor) and isinstance(actor, SamplingActor)
    assert isinstance(actor, NumpyActor) == isinstance(actor, BlockActor) == in_numpy


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_head_satisfies_the_protocol(space):
    assert isinstance(make_pdtype(space), Head)
    if isinstance(space, spaces.Box):
        assert isinstance(SquashedGaussianHead(space), Head) and isinstance(DeterministicHead(space), Head)


def test_each_kind_of_policy_derives_from_the_base_alone():
    for kind in ("mlp", "actor_critic", "q_network"):
        assert BasePolicy in type(POLICIES[kind]()).__mro__[1:3]


def test_a_q_network_acts_in_numpy_as_in_the_graph():
    policy = q_network()
    obs = np.random.default_rng(1).normal(size=(200, 3)).astype(np.float32)
    ours, graph = make_actor(policy), GraphActor(policy)
    noise = policy.head.draw_noise(np.random.default_rng(2), (200,))
    for given in (noise, None):
        one, other = (actor.step(obs, None, None, given) for actor in (ours, graph))
        np.testing.assert_array_equal(one.actions, other.actions)
        np.testing.assert_allclose(one.values, other.values, rtol=1e-5, atol=1e-6)
    greedy = policy.forward(obs).flat.numpy().argmax(axis=1) - 1
    np.testing.assert_array_equal(ours.choose(obs, None, None, None)[0], greedy)
    explored = np.mean(ours.choose(obs, None, None, noise)[0] != greedy)
    assert explored == pytest.approx(EPSILON * 3 / 4, abs=0.1)


def test_a_q_network_is_saved_loaded_and_exported_as_any_policy(tmp_path):
    model, other = PolicyModel(q_network()), PolicyModel(q_network())
    obs = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    model.save(tmp_path / "model")
    other.load(tmp_path / "model")
    actions, states = other.act(obs, deterministic=True)
    np.testing.assert_array_equal(model.act(obs, deterministic=True)[0], actions)
    assert states is None and model.step(obs)[1].shape == (50,)
    model.export(tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    np.testing.assert_array_equal(served(observations=tf.constant(obs))["actions"], actions)
