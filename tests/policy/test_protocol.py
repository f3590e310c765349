"""Every policy and actor satisfies the protocols, and a policy of another kind acts through the same code."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.envs.vec.action_mask import MASK
from tfbaselines.envs.vec.observations import ONLY
from tfbaselines.policy.actor import GraphActor, NumpyActor, make_actor
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.bounded import DeterministicHead, SquashedGaussianHead
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.dueling import DuelingPolicy
from tfbaselines.policy.mirror import Mirror
from tfbaselines.policy.networks import mlp
from tfbaselines.policy.policy import Policy, build_policy
from tfbaselines.policy.precision import in_full
from tfbaselines.policy.protocol import ActingPolicy, Actor, BlockActor, Head, Outputs, SamplingActor
from tfbaselines.running.model import PolicyModel

BOX = spaces.Box(-3, 3, (3,), np.float32)
BOUNDED = spaces.Box(-1, 1, (2,), np.float32)
DISCRETE = spaces.Discrete(4, start=-1)
SPACES = [BOUNDED, DISCRETE, spaces.MultiDiscrete([3, 2]), spaces.MultiBinary(3)]
EPSILON = 0.3
# Larger than any difference of values: the noise alone chooses the action.
OVERWHELMING = 1e6


class GreedyHead:
    """Actions of the largest value; with probability EPSILON any action."""

    action_shape, action_dtype, mode_noise = (), np.dtype(np.int64), 0.0

    def __init__(self, space):
        self.param_size, self._start = int(space.n), int(space.start)
        self.noise_shape = (self.param_size,)

    def draw_noise(self, rng, batch):
        explores = rng.random((*batch, 1)) < EPSILON
        return (OVERWHELMING * explores * rng.random((*batch, self.param_size))).astype(np.float32)

    def distribution(self, flat):
        return SimpleNamespace(
            sample=lambda noise: tf.argmax(flat + noise, axis=-1) + self._start,
            mode=lambda: tf.argmax(flat, axis=-1) + self._start,
            neglogp=lambda actions: tf.zeros(tf.shape(flat)[0]),
        )

    def sample_numpy(self, flat, noise):
        return (flat + noise).argmax(axis=-1) + self._start

    def mode_numpy(self, flat):
        return flat.argmax(axis=-1) + self._start

    def neglogp_numpy(self, flat, actions):
        return np.zeros(len(flat), np.float32)


class QNetwork(BasePolicy):
    """Values of all discrete actions."""

    def __init__(self, **kwargs):
        super().__init__(BOX, DISCRETE, GreedyHead(DISCRETE), **kwargs)
        self.network, self.q_layer = mlp(num_hidden=8)((3,)), keras.layers.Dense(4, name="q")
        self.q_layer.build((None, 8))

    @property
    def modules(self):
        return [self.network, self.q_layer]

    @property
    def trainable_variables(self):
        return [variable for module in self.modules for variable in module.trainable_variables]

    def mirror(self):
        return Mirror([self.network, self.q_layer])

    def forward(self, obs, episode_start=None, states=None):
        q = in_full(self.q_layer(self.network(self.preprocess(obs))))
        return Outputs(q, tf.reduce_max(q, axis=-1))


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
    "q_network": lambda: QNetwork(normalize_observations=True),
}


@pytest.mark.parametrize("kind", POLICIES)
def test_every_policy_and_its_actor_satisfy_the_protocols(kind):
    policy = POLICIES[kind]()
    actor, in_numpy = make_actor(policy), kind not in ("lstm", "memory", "masked")
    assert isinstance(policy, ActingPolicy) and isinstance(policy.head, Head)
    assert isinstance(actor, Actor) and isinstance(actor, SamplingActor)
    assert isinstance(actor, NumpyActor) == isinstance(actor, BlockActor) == in_numpy


@pytest.mark.parametrize("missing", ["head", "forward", "mirror", "modules", "restore", "state_size"])
def test_a_policy_without_one_of_the_members_does_not_satisfy_the_protocol(missing):
    members = [name for name in dir(Policy) if not name.startswith("__")]
    whole = dict.fromkeys([*members, "observation_space", "action_space", "head", "normalizer", "clip"], True)
    assert isinstance(SimpleNamespace(**whole), ActingPolicy)
    del whole[missing]
    assert not isinstance(SimpleNamespace(**whole), ActingPolicy)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_head_satisfies_the_protocol(space):
    assert isinstance(make_pdtype(space), Head)
    if isinstance(space, spaces.Box):
        assert isinstance(SquashedGaussianHead(space), Head) and isinstance(DeterministicHead(space), Head)


def test_each_kind_of_policy_derives_from_the_base_alone():
    for kind in ("mlp", "actor_critic", "q_network"):
        assert type(POLICIES[kind]()).__bases__ == (BasePolicy,)


def test_a_q_network_acts_in_numpy_as_in_the_graph():
    policy = QNetwork(normalize_observations=True)
    policy.normalizer.update(np.random.default_rng(0).normal(1, 2, (50, 3)))
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
    model, other = PolicyModel(QNetwork()), PolicyModel(QNetwork())
    obs = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    model.save(tmp_path / "model")
    other.load(tmp_path / "model")
    actions, states = other.act(obs, deterministic=True)
    np.testing.assert_array_equal(model.act(obs, deterministic=True)[0], actions)
    assert states is None and model.step(obs)[1].shape == (50,)
    model.export(tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    np.testing.assert_array_equal(served(observations=tf.constant(obs))["actions"], actions)
