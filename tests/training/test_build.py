"""Policies and models from an algorithm's arguments, alike wherever they are built."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.algs import get, ppo2, sac
from tfbaselines.algs.acer.loss import DuelingPolicy
from tfbaselines.parallel.mpi import Communicator
from tfbaselines.training.build import check_network, make_actor_critic, make_policy, saved_model

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
BOUNDED = spaces.Box(-1.0, 1.0, (2,), np.float32)


def env_of(action_space):
    return SimpleNamespace(observation_space=BOX, action_space=action_space)


def shapes(policy):
    return [tuple(variable.shape) for variable in policy.trainable_variables]


def test_networks_arguments_reach_their_builder():
    small, copied = (
        make_policy("mlp", env_of(BOUNDED), ppo2.Config.of({"num_hidden": 5, "num_layers": 1} | own))
        for own in ({}, {"value_network": "copy"})
    )
    assert shapes(small)[0] == (3, 5) and len(shapes(copied)) == len(shapes(small)) + 2


def test_arguments_of_the_policy_come_from_the_config():
    config = ppo2.Config.of({"normalize_observations": True})
    assert make_policy("mlp", env_of(BOUNDED), config).normalizer is not None
    assert make_policy("mlp", env_of(BOUNDED), ppo2.Config()).normalizer is None


def test_statistics_of_observations_are_averaged_over_the_ranks_given():
    class Counting(Communicator):
        size, sums = 2, 0

        def sum(self, array):
            self.sums += 1
            return np.asarray(array)

    comm = Counting()
    policy = make_policy("mlp", env_of(BOUNDED), ppo2.Config.of({"normalize_observations": True}), comm)
    policy.normalizer.update(np.ones((4, 3), np.float32))
    assert comm.sums > 0


def test_actors_with_critics_take_the_config_unless_the_algorithm_decides():
    config = sac.Config.of({"hidden_sizes": [4], "memory_size": 6, "normalize_observations": True})
    own = {"head": sac.SquashedGaussianHead, "critics": 2}
    policy = make_actor_critic("dense", env_of(BOUNDED), config, **own)
    assert policy.recurrent and policy.normalizer is not None and len(policy.critics) == 2
    other = make_actor_critic("dense", env_of(BOUNDED), config, **own, normalize_observations=False)
    assert other.normalizer is None


@pytest.mark.parametrize("make", [make_policy, make_actor_critic])
def test_unknown_arguments_are_refused_before_anything_is_built(make):
    config = (ppo2 if make is make_policy else sac).Config.of({"num_hiden": 3})
    with pytest.raises(ValueError, match="unknown argument 'num_hiden'"):
        make("mlp", env_of(BOUNDED), config)


def test_a_builder_may_take_any_argument_but_none_of_the_algorithms():
    def anything(**kwargs):
        return lambda shape: keras.Sequential([keras.Input(shape), keras.layers.Dense(kwargs.get("width", 2))])

    def clashing(lam=0.5):
        return anything()

    check_network(anything, ppo2.Config.of({"width": 3}))
    assert shapes(make_policy(anything, env_of(BOUNDED), ppo2.Config.of({"width": 7})))[0] == (3, 7)
    with pytest.raises(ValueError, match="network 'clashing' and the algorithm both have an argument 'lam'"):
        check_network(clashing, ppo2.Config())


@pytest.mark.parametrize(
    ("alg", "network", "actions", "arguments"),
    [
        ("ppo2", "lstm", spaces.Discrete(3), {"nlstm": 4, "nsteps": 16}),
        ("acer", "mlp", spaces.Discrete(3), {"num_hidden": 4}),
        ("acer", "mlp", BOUNDED, {"num_hidden": 4}),
        ("sac", "dense", spaces.Discrete(3), {"hidden_sizes": [4]}),
        ("td3", "dense", BOUNDED, {"hidden_sizes": [4], "memory_size": 4}),
        ("ddpg", "mlp", BOUNDED, {"num_hidden": 4, "twin_q": True}),
    ],
)
def test_a_saved_model_has_the_policy_that_was_trained(alg, network, actions, arguments):
    module, env = get(alg).module, env_of(actions)
    model = saved_model(get(alg), network, env, arguments)
    trained = getattr(module, "make_policy", make_policy)(network, env, module.Config.of(arguments))
    assert shapes(model.policy) == shapes(trained) and type(model.policy) is type(trained)
    assert isinstance(model.policy, DuelingPolicy) == (alg == "acer" and actions is BOUNDED)
    model.policy.restore(trained.state())
    obs = np.ones((2, 3), np.float32)
    assert len(model.act(obs, deterministic=True)[0]) == 2
