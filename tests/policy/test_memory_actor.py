"""LSTMs act in numpy as they do in the graph."""

from functools import partial

import keras
import numpy as np
import pytest
from acting import ACTIONS, BOX, DISCRETE, OBSERVATIONS, PIXELS, batch, make, masked, noise_of
from gymnasium import spaces

from tfbaselines.policy.actor import GraphActor, MemoryActor, make_actor
from tfbaselines.policy.recurrent import MaskedLSTM


def other_cell(units=4):
    """A recurrent network that is not the registered one."""

    def network_fn(shape):
        inputs = [keras.Input(shape), keras.Input(()), keras.Input((2 * units,))]
        dense = keras.layers.Dense(3)(inputs[0])
        model = keras.Model(inputs, MaskedLSTM(units)([dense, *inputs[1:]]))
        model.state_size = 2 * units
        return model

    return network_fn


IN_THE_GRAPH = {
    "impala_cnn": ("impala_cnn", PIXELS, {}),
    "cnn_lstm": ("cnn_lstm", PIXELS, {}),
    "memory above a layer": (other_cell(), BOX, {}),
    "values without memory": ("lstm", BOX, {"value_network": "mlp"}),
}


@pytest.mark.parametrize(("network", "obs", "kwargs"), IN_THE_GRAPH.values(), ids=IN_THE_GRAPH)
def test_unusual_recurrent_and_residual_networks_act_in_the_graph(network, obs, kwargs):
    assert type(make_actor(make(network, obs, **kwargs))) is GraphActor


REMEMBERING = {
    "lstm": {},
    "lnlstm, copy": {"layer_norm": True, "value_network": "copy"},
    "table": {"obs": OBSERVATIONS["doubles"], "value_network": "copy"},
    "box": {"action": ACTIONS["box"], "normalize_observations": True},
    "q": {"estimate_q": True},
    "no head": {"action": spaces.Discrete(5)},
}


@pytest.mark.parametrize("kwargs", REMEMBERING.values(), ids=REMEMBERING)
def test_numpy_remembers_as_the_graph_does(kwargs):
    policy = make("lstm", nlstm=5, **kwargs)
    actor, graph, rows = make_actor(policy), GraphActor(policy), 4
    assert type(actor) is MemoryActor
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    states = np.random.default_rng(1).normal(size=(rows, policy.state_size)).astype(np.float32)
    for episode_start in np.eye(rows, dtype=bool)[:3]:
        obs, noise = batch(policy.observation_space, rows), noise_of(policy, rows)
        step, expected = (one.step(obs, states, episode_start, noise) for one in (actor, graph))
        close(step.actions, expected.actions)
        assert step.actions.dtype == expected.actions.dtype and step.states.dtype == np.float32
        for name in ("values", "states", "neglogps"):
            close(getattr(step, name), getattr(expected, name))
        for found, wanted in zip(
            actor.behave(obs, states, episode_start, noise),
            graph.behave(obs, states, episode_start, noise),
            strict=True,
        ):
            close(found, wanted)
        close(actor.value(obs, states, episode_start), graph.value(obs, states, episode_start))
        mode, after = actor.choose(obs, states, episode_start, None)
        close(mode, graph.choose(obs, states, episode_start, None)[0])
        close(after, expected.states)
        states = step.states


def test_memory_in_numpy_keeps_to_action_masks():
    policy, obs, mask = masked(lambda space, action: make("lstm", space, action, nlstm=5), DISCRETE, (4,))
    states, episode_start, noise = policy.initial_state(50), np.zeros(50, bool), noise_of(policy, 50)
    ours, graph = make_actor(policy), GraphActor(policy)
    assert type(ours) is MemoryActor
    one, other = (actor.step(obs, states, episode_start, noise) for actor in (ours, graph))
    np.testing.assert_array_equal(one.actions, other.actions)
    np.testing.assert_allclose(one.neglogps, other.neglogps, rtol=1e-4, atol=1e-5)
    assert mask[np.arange(50), one.actions - DISCRETE.start].all()


def test_memory_in_numpy_copies_the_weights_on_refresh():
    policy = make("lstm", nlstm=5)
    actor, states, obs = make_actor(policy), policy.initial_state(5), batch()
    before = actor.value(obs, states, np.zeros(5, bool))
    for variable in policy.trainable_variables:
        variable.assign(variable.numpy() + 0.1)
    np.testing.assert_array_equal(actor.value(obs, states, np.zeros(5, bool)), before)
    actor.refresh()
    after = actor.value(obs, states, np.zeros(5, bool))
    assert not np.allclose(after, before)
    np.testing.assert_allclose(after, GraphActor(policy).value(obs, states, np.zeros(5, bool)), rtol=1e-4, atol=1e-5)
