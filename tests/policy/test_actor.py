import itertools

import keras
import numpy as np
import pytest
from acting import ACTIONS, BOX, DISCRETE, OBSERVATIONS, PIXELS, batch, make, masked, noise_of
from gymnasium import spaces

from tfbaselines.algs.deepq.q_network import QNetwork
from tfbaselines.envs.vec.observations import MASK, ONLY, is_image
from tfbaselines.envs.vec.packed import PackedSpace
from tfbaselines.policy.actor import GraphActor, NumpyActor, make_actor
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.networks import get_network_builder

VARIANTS = {
    "copy": {"value_network": "copy"},
    "layer_norm": {"layer_norm": True},
    "relu": {"activation": "relu", "num_layers": 3},
    "linear": {"activation": "linear", "layer_norm": True},
    "no head": {"num_hidden": 4},
    "normalised": {"normalize_observations": True},
    "q": {"estimate_q": True},
}


def assert_equal(policy):
    """Both actors give the same step, sampled and most likely, and the same values."""
    ours, graph = NumpyActor(policy), GraphActor(policy)
    obs = batch(policy.observation_space)
    for noise in (noise_of(policy), None):
        one, other = (actor.step(obs, None, None, noise) for actor in (ours, graph))
        assert one.states is other.states is None
        for name in ("actions", "values", "neglogps"):
            a, b = getattr(one, name), getattr(other, name)
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=name)
            assert a.dtype == b.dtype == (policy.head.action_dtype if name == "actions" else np.float32), name
    np.testing.assert_allclose(ours.value(obs), graph.value(obs), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(graph.value(obs), one.values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("obs", OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_numpy_acts_on_every_observation_as_the_graph_does(obs):
    policy = make(obs=obs)
    if is_image(obs):
        # It reaches the network through convolutions.
        assert isinstance(make_actor(policy), GraphActor)
    else:
        assert_equal(policy)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_numpy_takes_every_action_as_the_graph_does(action):
    assert_equal(make(action=action, value_network="copy"))


@pytest.mark.parametrize("kwargs", VARIANTS.values(), ids=VARIANTS)
def test_numpy_repeats_every_dense_network(kwargs):
    policy = make(**kwargs)
    assert isinstance(make_actor(policy), NumpyActor)
    assert_equal(policy)


def chain(*layers):
    """A builder of a network of layers in a row."""
    return lambda: lambda shape: keras.Sequential([keras.Input(shape), *(layer() for layer in layers)])


def skipping():
    def network_fn(shape):
        inputs = keras.Input(shape)
        return keras.Model(inputs, keras.layers.Concatenate()([inputs, keras.layers.Dense(2)(inputs)]))

    return network_fn


def twice_the_same():
    def network_fn(shape):
        inputs, layer = keras.Input(shape), keras.layers.Dense(shape[0])
        return keras.Model(inputs, layer(layer(inputs)))

    return network_fn


def q_network(space, action):
    return QNetwork(space.parts, action, get_network_builder("mlp")())


def actor_critic(space, action):
    return ActorCritic(space.parts, action, get_network_builder("mlp")(), head=make_pdtype, critics=1)


@pytest.mark.parametrize(
    ("make_policy", "action", "widths"),
    [
        (lambda space, action: make(obs=space, action=action), DISCRETE, (4,)),
        (lambda space, action: make(obs=space, action=action, value_network="copy"), ACTIONS["multidiscrete"], (3, 2)),
        (actor_critic, DISCRETE, (4,)),
        (actor_critic, ACTIONS["multidiscrete"], (3, 2)),
        (q_network, DISCRETE, (4,)),
    ],
)
def test_numpy_keeps_to_action_masks_as_the_graph_does(make_policy, action, widths):
    policy, obs, mask = masked(make_policy, action, widths)
    ours, graph = make_actor(policy), GraphActor(policy)
    assert isinstance(ours, NumpyActor)
    for noise in (noise_of(policy, 50), None):
        one, other = (actor.step(obs, None, None, noise) for actor in (ours, graph))
        np.testing.assert_array_equal(one.actions, other.actions)
        np.testing.assert_allclose(one.values, other.values, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(one.neglogps, other.neglogps, rtol=1e-4, atol=1e-5)
        choices = one.actions.reshape(50, -1) - np.ravel(action.start) + np.cumsum([0, *widths[:-1]])
        assert np.take_along_axis(mask, choices, axis=1).all()
    if make_policy is not q_network:
        # Of a Q-network advantages stand for values.
        flats = [actor.behave(obs, None, None, noise_of(policy, 50))[1] for actor in (ours, graph)]
        np.testing.assert_allclose(*flats, rtol=1e-4, atol=1e-5)


def test_masks_beside_several_parts_act_in_the_graph():
    parts = {"a": BOX, "b": BOX, MASK: spaces.MultiBinary(4)}
    assert isinstance(make_actor(make(obs=PackedSpace(spaces.Dict(parts)))), GraphActor)


def test_q_networks_over_several_parts_act_in_numpy():
    parts = spaces.Dict([("b", BOX), ("a", spaces.Discrete(3)), (MASK, spaces.MultiBinary(4))])
    policy = QNetwork(parts, DISCRETE, get_network_builder("mlp")())
    ours, graph, noise = make_actor(policy), GraphActor(policy), noise_of(policy, 50)
    assert isinstance(ours, NumpyActor)
    rng = np.random.default_rng(0)
    mask = rng.permuted(np.array([[1, 1, 0, 0]] * 50, np.int8), axis=1)
    obs = {"b": batch(BOX, 50), "a": rng.integers(0, 3, 50), MASK: mask}
    found = ours.choose(obs, None, None, noise)[0]
    np.testing.assert_array_equal(found, graph.choose(obs, None, None, noise)[0])
    assert mask[np.arange(50), found - DISCRETE.start].all()


L = keras.layers
MIRRORED = {
    "no bias": chain(lambda: L.Dense(5, use_bias=False)),
    "activation first": chain(lambda: L.Activation("relu"), lambda: L.Dense(5)),
    "activation last": chain(lambda: L.Dense(5), lambda: L.Activation("tanh")),
    "flatten": chain(L.Flatten, lambda: L.Dense(5)),
    "norm": chain(L.LayerNormalization, lambda: L.Dense(5)),
}
NOT_MIRRORED = {
    "other activation": chain(lambda: L.Dense(5, activation="elu")),
    "other layer": chain(lambda: L.Dense(5), L.LeakyReLU),
    "norm without scale": chain(lambda: L.LayerNormalization(scale=False)),
    "norm without centre": chain(lambda: L.LayerNormalization(center=False)),
    "norm over rows": chain(lambda: L.LayerNormalization(axis=1), L.Flatten),
    "skipping": skipping,
    "twice the same": twice_the_same,
}


@pytest.mark.parametrize("network", MIRRORED.values(), ids=MIRRORED)
def test_numpy_repeats_chains_of_dense_layers(network):
    policy = make(network)
    assert isinstance(make_actor(policy), NumpyActor)
    assert_equal(policy)


@pytest.mark.parametrize("network", NOT_MIRRORED.values(), ids=NOT_MIRRORED)
def test_other_networks_act_in_the_graph(network):
    policy = make(network, OBSERVATIONS["doubles"] if network is NOT_MIRRORED["norm over rows"] else BOX)
    actor = make_actor(policy)
    assert isinstance(actor, GraphActor)
    obs = batch(policy.observation_space)
    np.testing.assert_allclose(actor.value(obs), policy.forward(obs).value, rtol=1e-5, atol=1e-6)


def test_an_action_mask_beside_an_image_is_obeyed():
    masked = spaces.Dict({ONLY: PIXELS, MASK: spaces.MultiBinary(4)})
    policy = make("cnn_small", masked)
    actor = make_actor(policy)
    assert type(actor) is GraphActor
    for allowed in range(4):
        obs = {ONLY: batch(PIXELS, 1), MASK: np.eye(4, dtype=np.int8)[[allowed]]}
        for noise in (noise_of(policy, 1), None):
            assert actor.choose(obs, None, None, noise)[0] == [allowed - 1]


def test_an_unusual_value_network_acts_in_the_graph():
    assert isinstance(make_actor(make(value_network=skipping)), GraphActor)


@pytest.mark.parametrize("network", [*MIRRORED.values(), "mlp"], ids=[*MIRRORED, "mlp"])
def test_acting_leaves_observations_alone(network):
    actor, obs = NumpyActor(make(network)), batch()
    before = obs.copy()
    actor.step(obs, None, None, None)
    actor.value(obs)
    np.testing.assert_array_equal(obs, before)


def test_numpy_copies_the_weights_on_refresh():
    policy = make(normalize_observations=True, value_network="copy", action=ACTIONS["box"])
    actor, obs = NumpyActor(policy), batch()
    before = actor.step(obs, None, None, None)
    for variable in policy.trainable_variables:
        variable.assign(variable + 0.3)
    policy.normalizer.update(batch() + 9.0)
    same = actor.step(obs, None, None, None)
    np.testing.assert_array_equal(same.values, before.values)
    np.testing.assert_array_equal(same.neglogps, before.neglogps)
    actor.refresh()
    assert np.abs(actor.value(obs) - before.values).min() > 1e-3
    assert_equal(policy)


def test_the_graph_reads_the_policys_own_weights():
    policy = make()
    actor, obs = GraphActor(policy), batch()
    before = actor.value(obs)
    policy.vf_layer.bias.assign(policy.vf_layer.bias + 7.0)
    np.testing.assert_allclose(actor.value(obs), before + 7.0, rtol=1e-5, atol=1e-6)


def test_a_block_is_evaluated_as_its_steps_were():
    policy = make(action=ACTIONS["box"])
    actor, obs = NumpyActor(policy), batch(rows=6)
    steps = [actor.step(obs[k : k + 2], None, None, noise_of(policy, 2)) for k in (0, 2, 4)]
    values, neglogps = actor.evaluate(obs, np.concatenate([step.actions for step in steps]))
    np.testing.assert_allclose(values, np.concatenate([step.values for step in steps]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(neglogps, np.concatenate([step.neglogps for step in steps]), rtol=1e-5, atol=1e-6)


def test_acting_alone_chooses_the_actions_of_a_step_to_the_bit():
    for action, normalized in itertools.product(("box", "wide box", "multidiscrete"), (False, True)):
        space = BOX if action == "wide box" else ACTIONS[action]
        policy = make(action=space, normalize_observations=normalized)
        for variable in policy.trainable_variables:
            variable.assign(variable + 0.1)
        actor, obs = NumpyActor(policy), batch()
        for noise in (noise_of(policy), None):
            np.testing.assert_array_equal(actor.act(obs, noise), actor.step(obs, None, None, noise).actions, action)


@pytest.mark.parametrize("value_network", [None, "copy"])
def test_recurrent_steps_are_the_policys_sequence(value_network):
    policy = make("lstm", value_network=value_network, nlstm=4)
    actor, envs, steps = GraphActor(policy), 2, 5
    obs = batch(rows=envs * steps)
    episode_start = np.zeros((envs, steps), bool)
    episode_start[0, 3] = episode_start[1, 0] = True
    first = states = np.random.default_rng(1).normal(size=(envs, policy.state_size)).astype(np.float32)
    values = []
    for t in range(steps):
        step = actor.step(obs[t::steps], states, episode_start[:, t], None)
        np.testing.assert_allclose(
            actor.value(obs[t::steps], states, episode_start[:, t]), step.values, rtol=1e-5, atol=1e-6
        )
        states = step.states
        values.append(step.values)
    outputs = policy.forward(obs, episode_start.ravel(), first)
    np.testing.assert_allclose(np.stack(values, 1).ravel(), outputs.value, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(states, outputs.states, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kwargs", [{}, {"network": "lstm", "nlstm": 4}], ids=["mlp", "lstm"])
def test_batches_of_any_size_share_one_trace(kwargs):
    policy, traces = make(**kwargs), []
    forward = policy.forward
    policy.forward = lambda *inputs: traces.append(0) or forward(*inputs)
    actor = GraphActor(policy)
    for rows in (1, 3, 5):
        states, episode_start = policy.initial_state(rows), np.zeros(rows, bool)
        assert actor.step(batch(rows=rows), states, episode_start, noise_of(policy, rows)).actions.shape == (rows,)
    assert len(traces) == 1
