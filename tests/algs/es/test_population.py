"""Members of a population act as policies with their parameters do, all of them in one call."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from tfbaselines.algs.es.population import GraphPopulation, NumpyPopulation, flat_parameters, make_population
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.policy import DirectPolicy, build_policy

BOX = spaces.Box(-3.0, 3.0, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
MOVES = spaces.Box(-1.0, 1.0, (2,), np.float32)
MEMBERS = 5
CASES = {
    "mlp": ("mlp", {}, BOX, MOVES),
    "layer_norm": ("mlp", {"layer_norm": True, "activation": "relu"}, BOX, MOVES),
    "discrete": ("mlp", {"num_layers": 1}, spaces.Discrete(6, start=2), spaces.Discrete(4)),
    "normalised": ("dense", {"hidden_sizes": [8]}, BOX, spaces.MultiBinary(3)),
    "elu": ("mlp", {"activation": "elu"}, BOX, MOVES),
    "cnn_small": ("cnn_small", {}, IMAGE, MOVES),
    "lstm": ("lstm", {"nlstm": 6}, BOX, MOVES),
    "lnlstm": ("lstm", {"nlstm": 6, "layer_norm": True}, BOX, MOVES),
}
IN_NUMPY = {"mlp", "layer_norm", "discrete", "normalised"}


def make(case):
    network, kwargs, obs, action = CASES[case]
    policy = DirectPolicy(
        obs, action, get_network_builder(network)(**kwargs), normalize_observations=case == "normalised"
    )
    if policy.normalizer:
        policy.normalizer.update(np.random.default_rng(3).normal(1, 2, (50, *obs.shape)))
    return policy


def parameters_of(policy, seed=0):
    own = flat_parameters(policy)
    return own + 0.3 * np.random.default_rng(seed).normal(size=(MEMBERS, own.size)).astype(np.float32)


def one_by_one(policy, parameters, obs, states, episode_start):
    """Each member through the policy itself."""
    actions, new_states = [], []
    for member, own in enumerate(parameters):
        sizes = np.cumsum([int(np.prod(variable.shape)) for variable in policy.trainable_variables])
        for variable, part in zip(policy.trainable_variables, np.split(own, sizes[:-1]), strict=True):
            variable.assign(part.reshape(variable.shape))
        row = slice(member, member + 1)
        memory = (None, None) if states is None else (states[row], episode_start[row])
        action, new_state = make_actor(policy).choose(obs[row], *memory, None)
        actions.append(action)
        new_states.append(new_state)
    return np.concatenate(actions), None if states is None else np.concatenate(new_states)


@pytest.mark.parametrize("case", CASES)
def test_members_act_as_the_policy_with_their_parameters(case):
    policy = make(case)
    population, parameters = make_population(policy, MEMBERS), parameters_of(policy)
    assert isinstance(population, NumpyPopulation if case in IN_NUMPY else GraphPopulation)
    for member, own in enumerate(parameters):
        population.place(member, own)
    population.ready()
    policy.observation_space.seed(0)
    obs = np.stack([policy.observation_space.sample() for _ in range(MEMBERS)])
    states, episode_start = policy.initial_state(MEMBERS), np.zeros(MEMBERS, bool)
    if states is not None:
        states = np.random.default_rng(2).normal(size=states.shape).astype(np.float32)
        episode_start[2] = True
    actions, new_states = population.choose(obs, states, episode_start)
    wanted, wanted_states = one_by_one(policy, parameters, obs, states, episode_start)
    assert actions.dtype == wanted.dtype and actions.shape == wanted.shape
    np.testing.assert_allclose(actions, wanted, rtol=1e-4, atol=1e-5)
    assert (new_states is None) == (wanted_states is None)
    if states is not None:
        np.testing.assert_allclose(new_states, wanted_states, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", ["mlp", "lstm"])
def test_a_member_placed_anew_takes_nothing_from_the_one_before(case):
    policy = make(case)
    population, parameters = make_population(policy, MEMBERS), parameters_of(policy)
    for member in range(MEMBERS):
        population.place(member, parameters[0])
    obs = np.tile(np.float32([[1.0, -1.0, 0.5]]), (MEMBERS, 1))
    memory = policy.initial_state(MEMBERS), np.ones(MEMBERS, bool)
    before = population.choose(obs, *memory)[0]
    # In the graph the last bit may depend on the place in the batch.
    close = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(before, np.broadcast_to(before[0], before.shape), **close)
    population.place(3, parameters[1])
    after = population.choose(obs, *memory)[0]
    assert np.abs(after[3] - before[3]).max() > 1e-3
    np.testing.assert_allclose(np.delete(after, 3, 0), np.delete(before, 3, 0), **close)


def test_a_gaussian_policy_of_the_gradient_algorithms_can_be_searched_too():
    env = SimpleNamespace(observation_space=BOX, action_space=MOVES)
    policy = build_policy(env, "mlp", num_hidden=8)
    population, parameters = make_population(policy, MEMBERS), parameters_of(policy)
    for member, own in enumerate(parameters):
        population.place(member, own)
    obs = np.random.default_rng(0).normal(size=(MEMBERS, 3)).astype(np.float32)
    wanted, _ = one_by_one(policy, parameters, obs, None, None)
    np.testing.assert_allclose(population.choose(obs, None, None)[0], wanted, rtol=1e-4, atol=1e-5)
