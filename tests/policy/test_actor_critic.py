"""Actors with critics over every kind of observation and action."""

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
from tfbaselines.policy.bounded import DeterministicHead, SquashedGaussianHead
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.encoding import observation_dtype
from tfbaselines.running.checkpoint import load_tree, save_tree
from tfbaselines.running.model import PolicyModel

BOX = spaces.Box(-3, 3, (3,), np.float32)
CAMERA = spaces.Box(0, 255, (12, 12, 2), np.uint8)
PICTURE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
SEVERAL = spaces.Dict(camera=CAMERA, speed=BOX)
DISCRETE, MULTI = spaces.Discrete(5, start=-1), spaces.MultiDiscrete([3, 2], start=[1, -4])
BOUNDED = spaces.Box(np.array([-1.0, 2.0], np.float32), np.array([3.0, 2.5], np.float32))
ACTIONS = {"box": BOUNDED, "discrete": DISCRETE, "multidiscrete": MULTI}
OBSERVATIONS = {
    "vector": BOX,
    "doubles": spaces.Box(-3, 3, (2, 2), np.float64),
    "discrete": spaces.Discrete(4),
    "camera": CAMERA,
    "several": SEVERAL,
    "masked": spaces.Dict({ONLY: BOX, MASK: spaces.MultiBinary(5)}),
    "masked camera": spaces.Dict({ONLY: CAMERA, MASK: spaces.MultiBinary(5)}),
    "masked parts": spaces.Dict({**SEVERAL, MASK: spaces.MultiBinary(5)}),
}
# Names of networks, with their own arguments, for observations that they take.
WHOLE = {
    "lstm": (BOX, {"nlstm": 3}),
    "cnn": (PICTURE, {}),
    "cnn_small": (PICTURE, {}),
    "cnn_lstm": (PICTURE, {"nlstm": 3}),
}
ROWS = 6


def make(obs=BOX, action=BOUNDED, network="dense", head=None, critics=2, shaken=True, **kwargs):
    """A policy none of whose weights is at its first value."""
    if network in ("dense", "mlp"):
        kwargs = ({"hidden_sizes": (8, 7)} if network == "dense" else {"num_hidden": 8}) | kwargs
    elif not kwargs:
        kwargs = WHOLE[network][1]
    keras.utils.set_random_seed(0)
    env = SimpleNamespace(observation_space=obs, action_space=action)
    head = head or (SquashedGaussianHead if isinstance(action, spaces.Box) else make_pdtype)
    policy = build_actor_critic(env, network, head=head, critics=critics, **kwargs)
    if shaken:
        shake(policy)
    return policy


def shake(policy, seed=0):
    rng = np.random.default_rng(seed)
    for variable in policy.trainable_variables:
        variable.assign(variable.numpy() + rng.normal(scale=0.1, size=variable.shape))


def batch(space, rows=ROWS, seed=0):
    if isinstance(space, spaces.Dict):
        return {name: mask(rows, part.n) if name == MASK else batch(part, rows, seed) for name, part in space.items()}
    space.seed(seed)
    return np.stack([space.sample() for _ in range(rows)]).astype(observation_dtype(space))


def mask(rows, width):
    """At least one choice of every part of an action is allowed."""
    allowed = np.random.default_rng(0).random((rows, width)) < 0.3
    allowed[:, [0, 3]] = True
    return allowed.astype(np.int8)


def memory_of(policy, envs=2, rows=ROWS):
    """episode_start and states of several environments' rows; nothing without memory."""
    if not policy.recurrent:
        return ()
    rng = np.random.default_rng(1)
    episode_start = np.zeros(rows, np.float32)
    episode_start[1] = 1.0
    return tf.constant(episode_start), tf.constant(rng.normal(size=(envs, policy.state_size)).astype(np.float32))


def shown(policy):
    """A batch of observations as tensors, with episode_start and states of a recurrent policy."""
    return tf.nest.map_structure(tf.constant, batch(policy.observation_space)), *memory_of(policy)


def view_of(policy):
    return policy.view(*shown(policy))


def copied(policy, source):
    """The policy with another's weights."""
    for variable, value in zip(policy.trainable_variables, source.trainable_variables, strict=True):
        variable.assign(value)
    return policy


def noise_of(policy, rows=ROWS):
    return policy.head.draw_noise(np.random.default_rng(2), (rows,))


def assert_alike(one, other):
    """Two policies have the same outputs."""
    a, b = (policy.forward(*shown(policy)) for policy in (one, other))
    for name in ("flat", "value", "states"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def assert_whole(policy):
    """Outputs of a policy have the right shapes and depend on observations."""
    action = policy.action_space
    view = view_of(policy)
    outputs = policy.forward(*shown(policy))
    assert outputs.flat.shape == (ROWS, policy.head.param_size) and outputs.value.shape == (ROWS,)
    assert np.ptp(outputs.flat, axis=0).max() > 0 and np.ptp(outputs.value) > 0
    np.testing.assert_allclose(policy.act(view), outputs.flat, rtol=1e-5, atol=1e-6)
    qs = policy.q(view, batch(action))
    assert [q.shape for q in qs] == [(ROWS,), (ROWS,)] and np.isfinite(qs).all()
    assert np.abs(qs[0] - qs[1]).min() > 0
    # The value is the smallest of the critics' for the most likely action.
    mode = policy.head.distribution(outputs.flat).mode()
    np.testing.assert_allclose(outputs.value, np.min(policy.q(view, mode), axis=0), rtol=1e-4, atol=1e-5)
    assert mode.shape == (ROWS, *action.shape)
    states = outputs.states
    assert (states is None) if not policy.recurrent else (states.shape == (2, policy.state_size))


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("obs", ["vector", "doubles", "discrete", "camera", "several"])
def test_every_observation_goes_with_every_action(obs, action):
    policy = make(OBSERVATIONS[obs], ACTIONS[action])
    assert policy.state_size == 0 and not policy.recurrent
    assert policy.convolutional == (obs in ("camera", "several"))
    assert_whole(policy)


@pytest.mark.parametrize(("obs", "action"), [("vector", "box"), ("several", "multidiscrete"), ("camera", "discrete")])
def test_memory_is_above_every_observation(obs, action):
    policy = make(OBSERVATIONS[obs], ACTIONS[action], memory_size=6)
    assert policy.state_size == 12 and policy.recurrent
    assert_whole(policy)


@pytest.mark.parametrize("obs", ["masked", "masked camera", "masked parts"])
@pytest.mark.parametrize(("action", "memory_size"), [("discrete", None), ("multidiscrete", 6)])
def test_action_masks_go_with_every_observation(obs, action, memory_size):
    policy = make(OBSERVATIONS[obs], ACTIONS[action], memory_size=memory_size)
    assert policy.masked and policy.mirror() is None
    assert_whole(policy)


@pytest.mark.parametrize("action", [BOUNDED, DISCRETE], ids=["box", "discrete"])
@pytest.mark.parametrize("network", WHOLE)
def test_networks_with_convolutions_or_memory_take_the_observation_itself(network, action):
    policy = make(WHOLE[network][0], action, network)
    assert policy.network is None and policy.convolutional == ("cnn" in network)
    assert policy.state_size == (12 if "lstm" in network else 0)
    assert_whole(policy)


@pytest.mark.parametrize("encoder", ["simple", "nature_cnn", "resnet"])
def test_images_go_through_the_named_encoder(encoder):
    policy = make(PICTURE, vis_encode_type=encoder)
    kinds = [layer.name for layer in policy.trunk.modules[0].layers]
    assert ("c3" in kinds) == (encoder == "nature_cnn") and ("layer_0" in kinds) == (encoder == "resnet")
    assert policy.network.input_shape == (None, 512 if encoder == "nature_cnn" else 256)
    assert_whole(policy)


def test_a_network_with_convolutions_takes_the_picture_beside_a_mask():
    space = spaces.Dict({ONLY: PICTURE, MASK: spaces.MultiBinary(5)})
    policy = make(space, DISCRETE, "cnn_small")
    plain = copied(make(PICTURE, DISCRETE, "cnn_small"), policy)
    obs = batch(space) | {MASK: np.ones((ROWS, 5), np.int8)}
    np.testing.assert_allclose(policy.forward(obs).flat, plain.forward(obs[ONLY]).flat, rtol=1e-5, atol=1e-6)


def test_a_critic_of_continuous_actions_takes_them_beside_the_observation():
    policy, obs, actions = make(head=DeterministicHead), batch(BOX), batch(BOUNDED)
    for critic, q in zip(policy.critics, policy.q(view_of(policy), actions), strict=True):
        k0, b0, k1, b1, k2, b2 = (variable.numpy() for variable in critic.trainable_variables)
        rows = np.maximum(np.concatenate([obs, actions], axis=1) @ k0 + b0, 0)
        np.testing.assert_allclose(q, (np.maximum(rows @ k1 + b1, 0) @ k2 + b2)[:, 0], rtol=1e-4, atol=1e-5)
        np.testing.assert_equal([kernel.numpy() for kernel in critic.kernels], [k0, k1])


def test_a_critic_without_hidden_layers_has_no_kernels_of_them():
    policy = make(PICTURE, DISCRETE, "cnn_small")
    assert [critic.kernels for critic in policy.critics] == [[], []]


@pytest.mark.parametrize("action", [DISCRETE, MULTI], ids=["discrete", "multidiscrete"])
def test_a_critic_of_discrete_actions_adds_the_values_of_the_chosen(action):
    policy, actions = make(action=action), batch(action)
    view = view_of(policy)
    columns = (actions[:, None] + 1) if action is DISCRETE else actions - action.start + [0, 3]
    for q, values in zip(policy.q(view, actions), policy.q_all(view), strict=True):
        assert values.shape == (ROWS, 5)
        np.testing.assert_allclose(
            q, np.take_along_axis(values.numpy(), columns, axis=1).sum(axis=1), rtol=1e-5, atol=1e-6
        )
    np.testing.assert_array_equal(policy.choices(actions), np.eye(5)[columns].sum(axis=1))


@pytest.mark.parametrize("action", [DISCRETE, MULTI], ids=["discrete", "multidiscrete"])
def test_probabilities_of_choices_are_those_of_the_head(action):
    policy, actions = make(action=action), batch(action)
    flat = policy.act(view_of(policy))
    logs = policy.log_probabilities(flat)
    parts = [slice(0, 5)] if action is DISCRETE else [slice(0, 3), slice(3, 5)]
    for part in parts:
        np.testing.assert_allclose(np.exp(logs[:, part]).sum(axis=1), 1.0, rtol=1e-5)
    chosen = np.sum(logs * policy.choices(actions), axis=1)
    np.testing.assert_allclose(-chosen, policy.head.distribution(flat).neglogp(actions), rtol=1e-5, atol=1e-6)


def test_critics_and_actor_share_nothing():
    policy = make(SEVERAL, memory_size=4)
    acting, judging = policy.acting_variables, policy.critic_variables
    assert [*acting, *judging] == policy.trainable_variables
    assert len({id(variable) for variable in policy.trainable_variables}) == len(acting) + len(judging)
    held = [variable for module in policy.modules for variable in module.trainable_variables]
    assert sorted(map(id, held)) == sorted(map(id, policy.trainable_variables))
    before = policy.forward(*shown(policy))
    for variable in judging:
        variable.assign(variable + 0.1)
    after = policy.forward(*shown(policy))
    np.testing.assert_array_equal(before.flat, after.flat)
    assert np.abs(before.value - after.value).max() > 1e-3


@pytest.mark.parametrize("action", [BOUNDED, DISCRETE], ids=["box", "discrete"])
def test_gradients_reach_every_variable_that_is_trained(action):
    policy = make(SEVERAL, action, memory_size=4)
    view = view_of(policy)
    with tf.GradientTape(persistent=True) as tape:
        acted, judged = tf.reduce_sum(policy.act(view)), tf.add_n(policy.q(view, batch(action)))
    for output, variables in ((acted, policy.acting_variables), (judged, policy.critic_variables)):
        assert all(gradient is not None for gradient in tape.gradient(output, [v.value for v in variables]))
        others = [v.value for v in policy.trainable_variables if not any(v is own for own in variables)]
        assert all(gradient is None for gradient in tape.gradient(output, others))


@pytest.mark.parametrize("action", [BOUNDED, DISCRETE], ids=["box", "discrete"])
@pytest.mark.parametrize(
    ("network", "kwargs"), [("dense", {"memory_size": 6}), ("lstm", {"nlstm": 3})], ids=["memory_size", "lstm"]
)
def test_one_call_over_a_sequence_is_its_steps_one_by_one(network, kwargs, action):
    policy = make(action=action, network=network, **kwargs)
    obs, (episode_start, first) = batch(BOX), memory_of(policy)
    whole, states, rows = policy.forward(obs, episode_start, first), first, []
    for t in range(3):
        outputs = policy.forward(obs[t::3], episode_start[t::3], states)
        states = outputs.states
        rows.append(outputs)
    for name in ("flat", "value"):
        steps = np.stack([getattr(row, name) for row in rows], axis=1)
        np.testing.assert_allclose(getattr(whole, name), steps.reshape(ROWS, *steps.shape[2:]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(whole.states, states, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kwargs", [{}, {"memory_size": 4}], ids=["steps", "sequences"])
def test_the_view_of_a_batch_is_that_of_its_rows(kwargs):
    policy = make(**kwargs)
    obs, *memory = shown(policy)
    batch = dict(zip(("obs", "episode_start", "states"), (obs, *memory), strict=False)) | {"rewards": tf.zeros(ROWS)}
    for seen, expected in zip(policy.view_of(batch), view_of(policy), strict=True):
        assert (seen is None) == (expected is None)
        if seen is not None:
            np.testing.assert_array_equal(seen, expected)


def test_actor_and_critics_have_memories_of_their_own():
    policy, obs = make(memory_size=6), batch(BOX)
    episode_start, states = memory_of(policy)
    before = policy.forward(obs, episode_start, states)
    for own, other, half in (("flat", "value", slice(6, 12)), ("value", "flat", slice(0, 6))):
        changed = states.numpy()
        changed[:, half] += 1.0
        after = policy.forward(obs, episode_start, changed)
        if own == "flat":
            # The actor does not use the critics' state.
            np.testing.assert_array_equal(before.flat, after.flat)
        assert np.abs(getattr(before, other) - getattr(after, other)).max() > 1e-3
        kept = slice(0, 6) if own == "flat" else slice(6, 12)
        np.testing.assert_array_equal(before.states[:, kept], after.states[:, kept])


def test_episode_start_and_states_may_be_arrays():
    policy, obs = make(memory_size=6), batch(BOX)
    episode_start, states = memory_of(policy)
    expected = policy.forward(obs, episode_start, states)
    given = policy.forward(obs, episode_start.numpy().astype(bool), states.numpy().astype(np.float64))
    np.testing.assert_allclose(given.flat, expected.flat, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("action", [DISCRETE, MULTI], ids=["discrete", "multidiscrete"])
@pytest.mark.parametrize(("name", "memory_size"), [("masked", None), ("masked", 4), ("masked parts", None)])
def test_forbidden_actions_are_never_chosen(name, action, memory_size):
    space = OBSERVATIONS[name]
    policy = make(space, action, memory_size=memory_size)
    policy.pi_layer.bias.assign([0.0, 30.0, 60.0, 0.0, 30.0])
    obs, actor = batch(space, 40), make_actor(policy)
    states, episode_start = policy.initial_state(40), np.ones(40, bool)
    for noise in (None, noise_of(policy, 40)):
        actions, _ = actor.choose(obs, states, episode_start, noise)
        assert np.all(obs[MASK] >= policy.choices(actions))
    memory = (tf.ones(40), tf.constant(states)) if memory_size else ()
    view = policy.view(tf.nest.map_structure(tf.constant, obs), *memory)
    probabilities = np.exp(policy.log_probabilities(policy.act(view)))
    assert not probabilities[obs[MASK] == 0].any()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1 if action is DISCRETE else 2, rtol=1e-5)


def test_a_mask_that_allows_all_changes_nothing():
    masked = make(OBSERVATIONS["masked"], DISCRETE)
    plain = copied(make(BOX, DISCRETE), masked)
    obs = {ONLY: batch(BOX), MASK: np.ones((ROWS, 5), np.int8)}
    np.testing.assert_array_equal(masked.forward(obs).flat, plain.forward(obs[ONLY]).flat)
    np.testing.assert_array_equal(masked.forward(obs).value, plain.forward(obs[ONLY]).value)
    assert isinstance(make_actor(masked), GraphActor)


PLAIN = {
    "box": {},
    "deterministic": {"head": DeterministicHead},
    "multidiscrete": {"action": MULTI},
    "mlp": {"network": "mlp", "layer_norm": True},
    "doubles": {"obs": OBSERVATIONS["doubles"]},
    "from choices": {"obs": OBSERVATIONS["discrete"]},
    "clipped": {"kind": {"clip_observations": 0.5}},
    "normalised and clipped": {"normalize_observations": True, "kind": {"clip_observations": 0.5}},
    "units": {"kind": {"unit_actions": True}},
}


@pytest.mark.parametrize("kwargs", PLAIN.values(), ids=PLAIN)
def test_plain_ones_act_in_numpy_as_in_the_graph(kwargs):
    policy = make(**kwargs)
    if policy.normalizer:
        policy.normalizer.update(np.random.default_rng(0).normal(1, 2, (50, 3)))
    ours, graph, obs = make_actor(policy), GraphActor(policy), batch(policy.observation_space)
    assert isinstance(ours, NumpyActor)
    for _ in range(2):
        for noise in (noise_of(policy), None):
            one, other = (actor.step(obs, None, None, noise) for actor in (ours, graph))
            for name in ("actions", "values", "neglogps"):
                a, b = getattr(one, name), getattr(other, name)
                # Densities near the bounds of an action are as exact as its last digits.
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=0.05 if name == "neglogps" else 1e-5, err_msg=name)
            np.testing.assert_array_equal(ours.choose(obs, None, None, noise)[0], one.actions)
        np.testing.assert_allclose(ours.value(obs), policy.forward(obs).value, rtol=1e-4, atol=1e-5)
        # And again with other weights.
        shake(policy, seed=1)
        ours.refresh()


@pytest.mark.parametrize("kwargs", [{"obs": CAMERA}, {"obs": SEVERAL}, {"memory_size": 4}, {"network": "lstm"}])
def test_others_act_in_the_graph(kwargs):
    policy = make(**kwargs)
    actor, obs = make_actor(policy), batch(policy.observation_space)
    assert isinstance(actor, GraphActor)
    states, episode_start = policy.initial_state(ROWS), np.zeros(ROWS, bool)
    memory = (tf.zeros(ROWS), tf.constant(states)) if policy.recurrent else ()
    expected = policy.forward(tf.nest.map_structure(tf.constant, obs), *memory)
    mode = actor.step(obs, states, episode_start, None)
    np.testing.assert_allclose(mode.actions, policy.head.mode_numpy(expected.flat.numpy()), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(mode.values, expected.value, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(actor.value(obs, states, episode_start), expected.value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kwargs", [{"memory_size": 4}, {"obs": CAMERA}], ids=["memory", "camera"])
def test_a_deterministic_actor_acts_in_the_graph_too(kwargs):
    policy = make(head=DeterministicHead, **kwargs)
    actor, obs = GraphActor(policy), batch(policy.observation_space)
    states, episode_start = policy.initial_state(ROWS), np.zeros(ROWS, bool)
    once, again = (actor.step(obs, states, episode_start, noise) for noise in (noise_of(policy), None))
    np.testing.assert_array_equal(once.actions, again.actions)
    assert not once.neglogps.any() and once.neglogps.shape == (ROWS,)


def test_critics_may_see_actions_in_units_of_their_bounds():
    units = make(kind={"unit_actions": True})
    plain = copied(make(), units)
    actions, view = batch(BOUNDED), view_of(plain)
    inside = (actions - [1.0, 2.25]) / [2.0, 0.25]
    assert np.abs(inside).max() <= 1
    for one, other in zip(units.q(view, actions), plain.q(view, inside.astype(np.float32)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    obs = batch(BOX)
    mode = plain.head.distribution(plain.forward(obs).flat).mode()
    expected = np.min(plain.q(view, tf.cast((mode - [1.0, 2.25]) / [2.0, 0.25], tf.float32)), axis=0)
    np.testing.assert_allclose(units.forward(obs).value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("normalized", [False, True])
def test_clip_observations_bounds_numbers(normalized):
    policy = make(normalize_observations=normalized, kind={"clip_observations": 0.5})
    if normalized:
        policy.normalizer.update(np.random.default_rng(0).normal(1, 2, (500, 3)))
    seen = np.array([[1.1, -3.0, 3.0]], np.float32)
    expected = [[(1.1 - policy.normalizer.mean[0]) / policy.normalizer.std[0]]] if normalized else [[0.5]]
    np.testing.assert_allclose(policy.preprocess(seen)[:, :1], expected, rtol=1e-4)
    np.testing.assert_array_equal(policy.preprocess(seen)[:, 1:], [[-0.5, 0.5]])
    np.testing.assert_array_equal(make().preprocess(seen), seen)


@pytest.mark.parametrize("normalized", [False, True])
def test_numbers_among_several_parts_are_clipped_too(normalized):
    policy = make(SEVERAL, normalize_observations=normalized, kind={"clip_observations": 0.5})
    obs = batch(SEVERAL) | {"speed": np.full((ROWS, 3), 3.0, np.float32)}
    seen = policy.preprocess(obs)
    np.testing.assert_array_equal(seen["speed"], np.full((ROWS, 3), 0.5))
    np.testing.assert_array_equal(seen["camera"], obs["camera"])


def test_numbers_among_several_parts_are_normalised_and_nothing_else():
    space = spaces.Dict({**SEVERAL, "gear": spaces.Discrete(3), MASK: spaces.MultiBinary(5)})
    policy = make(space, DISCRETE, normalize_observations=True)
    rng = np.random.default_rng(0)
    seen = {**batch(space, 500), "speed": rng.normal(3, 2, (500, 3)).astype(np.float32)}
    policy.normalizer.update(seen)
    obs = {**batch(space), "speed": np.array([[3.0, 5.0, 99.0]] * ROWS, np.float32)}
    encoded = policy.preprocess(obs)
    expected = (obs["speed"] - seen["speed"].mean(0)) / seen["speed"].std(0)
    np.testing.assert_allclose(encoded["speed"], np.clip(expected, -5, 5), rtol=1e-2, atol=1e-2)
    np.testing.assert_array_equal(encoded["camera"], obs["camera"])
    np.testing.assert_array_equal(encoded[MASK], obs[MASK])
    np.testing.assert_array_equal(encoded["gear"], np.eye(3)[obs["gear"]])
    assert encoded["camera"].dtype == tf.uint8 and len(policy.normalizer.variables) == 2


KINDS = {
    "vector": {"normalize_observations": True},
    "discrete": {"action": DISCRETE},
    "several": {"obs": SEVERAL, "normalize_observations": True},
    "memory": {"obs": SEVERAL, "memory_size": 4, "action": MULTI},
    "masked": {"obs": OBSERVATIONS["masked parts"], "action": DISCRETE},
    "lstm": {"network": "lstm"},
    "cnn": {"obs": PICTURE, "network": "cnn_small"},
}


@pytest.mark.parametrize("kwargs", KINDS.values(), ids=KINDS)
def test_a_restored_policy_is_the_saved_one(kwargs, tmp_path):
    policy, other = make(**kwargs), make(shaken=False, **kwargs)
    if policy.normalizer:
        policy.normalizer.update(batch(policy.observation_space, 50, seed=3))
    save_tree(tmp_path / "policy", policy.state())
    with pytest.raises(AssertionError):
        assert_alike(policy, other)
    other.restore(load_tree(tmp_path / "policy"))
    assert_alike(policy, other)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (
            {"obs": spaces.Dict(camera=CAMERA, pace=BOX)},
            "another observation space: .*speed.* this environment has .*pace",
        ),
        ({"action": spaces.Discrete(5)}, "another action space"),
        ({"hidden_sizes": (8,)}, "another network"),
        ({"critics": 1}, "another network"),
        ({"memory_size": 4}, "another network"),
        ({"normalize_observations": True}, "differ in normalize_observations"),
    ],
)
def test_another_policys_weights_are_refused(kwargs, message):
    saved = make(SEVERAL, DISCRETE).state()
    with pytest.raises(ValueError, match=message):
        make(**{"obs": SEVERAL, "action": DISCRETE, **kwargs}).restore(saved)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"vis_encode_type": "resnt"}, "unknown vis_encode_type 'resnt': did you mean 'resnet'"),
        ({"memory_size": 5}, "memory_size=5 is not valid: an even number"),
        ({"memory_size": 0}, "memory_size=0 is not valid: an even number"),
        ({"memory_size": -2}, "memory_size=-2 is not valid: an even number"),
        (
            {"memory_size": 4, "network": "lstm", "nlstm": 3},
            "memory_size=4 is not valid: needs a dense network, not 'lstm'",
        ),
        (
            {"memory_size": 4, "network": "cnn", "obs": PICTURE},
            "memory_size=4 is not valid: needs a dense network, not 'cnn'",
        ),
        ({"obs": SEVERAL, "network": "cnn"}, "Dict observations need a dense network: vis_encode_type and memory_size"),
        ({"obs": SEVERAL, "network": "cnn_lstm"}, "Dict observations need a dense network"),
        ({"obs": SEVERAL, "network": "lstm"}, "Dict observations need a dense network"),
        ({"network": "cnn"}, r"a convolutional network needs images .* not observations of shape \(3,\)"),
        ({"obs": spaces.Discrete(3), "normalize_observations": True}, "needs Box observations"),
        ({"network": "dnse"}, "unknown network 'dnse': did you mean 'dense'"),
        ({"network": "dense", "hiden_sizes": (3,)}, "unknown argument 'hiden_sizes' .* did you mean 'hidden_sizes'"),
        ({"action": spaces.Box(-np.inf, np.inf, (2,))}, "need bounds"),
    ],
)
def test_mistakes_are_named_in_one_line(kwargs, message):
    kwargs = {"network": "dense", "obs": BOX, "action": BOUNDED, **kwargs}
    env = SimpleNamespace(observation_space=kwargs.pop("obs"), action_space=kwargs.pop("action"))
    with pytest.raises(ValueError, match=message) as error:
        build_actor_critic(env, kwargs.pop("network"), head=SquashedGaussianHead, critics=2, **kwargs)
    assert "\n" not in str(error.value)


MODELS = {name: KINDS[name] for name in ("vector", "several", "memory", "masked", "lstm")}
MODELS |= {"deterministic": {"head": DeterministicHead}}


def first_of(obs):
    return {name: part[0] for name, part in obs.items()} if isinstance(obs, dict) else obs[0]


@pytest.mark.parametrize("kwargs", MODELS.values(), ids=MODELS)
def test_a_model_of_any_kind_steps_acts_and_judges(kwargs):
    policy = make(**kwargs)
    model, obs, action = PolicyModel(policy, rng=np.random.default_rng(0)), batch(policy.observation_space), policy.head
    actions, values, states, neglogps = model.step(obs)
    assert actions.shape == (ROWS, *action.action_shape) and values.shape == neglogps.shape == (ROWS,)
    assert all(policy.action_space.contains(one) for one in actions)
    np.testing.assert_allclose(model.value(obs), values, rtol=1e-4, atol=1e-5)
    assert (states is None) == (not policy.recurrent)
    chosen, after = model.act(obs, deterministic=True)
    alone, after_alone = model.act(first_of(obs), deterministic=True)
    assert alone.shape == action.action_shape
    np.testing.assert_allclose(alone, chosen[0], rtol=1e-4, atol=1e-6)
    if policy.recurrent:
        np.testing.assert_allclose(after_alone[0], after[0], rtol=1e-4, atol=1e-6)
        assert model.initial_state.shape == (1, policy.state_size)
        again, _ = model.act(obs, after, deterministic=True, mask=np.ones(ROWS, bool))
        np.testing.assert_allclose(again, chosen, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["vector", "memory"])
def test_a_loaded_model_acts_as_the_saved_one(kind, tmp_path):
    kwargs = MODELS[kind]
    policy = make(**kwargs)
    if policy.normalizer:
        policy.normalizer.update(batch(policy.observation_space, 50, seed=3))
    model, other = PolicyModel(policy), PolicyModel(make(shaken=False, **kwargs))
    model.actor.refresh()
    model.save(tmp_path / "model")
    other.load(tmp_path / "model")
    obs = batch(policy.observation_space)
    np.testing.assert_array_equal(*(one.act(obs, deterministic=True)[0] for one in (model, other)))
    np.testing.assert_array_equal(*(one.value(obs) for one in (model, other)))


def test_a_wrong_shape_of_a_part_is_named():
    model = PolicyModel(make(SEVERAL))
    with pytest.raises(ValueError, match=r"obs.shape=\(6, 2\) is not valid: .* has the shape \('N', 3\)"):
        model.act(batch(SEVERAL) | {"speed": np.zeros((6, 2))})
