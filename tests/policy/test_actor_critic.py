"""Actors with critics over every kind of observation and action."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from actor_critics import (
    ACTIONS,
    BOUNDED,
    BOX,
    CAMERA,
    DISCRETE,
    KINDS,
    MULTI,
    OBSERVATIONS,
    PICTURE,
    ROWS,
    SEVERAL,
    WHOLE,
    assert_alike,
    assert_whole,
    batch,
    copied,
    make,
    memory_of,
    noise_of,
    shown,
    view_of,
)
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK, ONLY
from tfbaselines.policy.actor import make_actor
from tfbaselines.policy.actor_critic import build_actor_critic
from tfbaselines.policy.bounded import DeterministicHead, SquashedGaussianHead
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.training.checkpoint import load_tree, save_tree


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
    assert policy.masked and (policy.mirror() is None) == (obs == "masked parts" or memory_size is not None)
    assert_whole(policy)


@pytest.mark.parametrize("action", [BOUNDED, DISCRETE], ids=["box", "discrete"])
@pytest.mark.parametrize("network", WHOLE)
def test_networks_with_convolutions_or_memory_take_the_observation_itself(network, action):
    policy = make(WHOLE[network][0], action, network)
    assert policy.network is None and policy.convolutional == ("cnn" in network)
    assert policy.state_size == (12 if "lstm" in network else 0)
    assert_whole(policy)


@pytest.mark.parametrize(("network", "obs", "count"), [("dense", BOX, 1 + 2), ("cnn_small", PICTURE, 2)])
def test_a_network_is_built_where_it_is_used_and_once_to_look(network, obs, count):
    """By the actor and two critics, or as the trunk of each side."""
    shapes = []

    def builder():
        network_fn = get_network_builder(network)()

        def noted(input_shape):
            shapes.append(input_shape)
            return network_fn(input_shape)

        return noted

    build_actor_critic(SimpleNamespace(observation_space=obs, action_space=BOUNDED), builder, critics=2)
    assert len(shapes) == 1 + count


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
        ({"obs": SEVERAL, "network": "cnn"}, "Dict observations need a dense network, mlp or dense: vis_encode_type"),
        ({"obs": SEVERAL, "network": "cnn_lstm"}, "Dict observations need a dense network"),
        ({"obs": SEVERAL, "network": "lstm"}, "Dict observations need a dense network"),
        (
            {"obs": spaces.Box(0, 1, (36, 36, 3), np.float32), "vis_encode_type": "nature_cnn"},
            r"vis_encode_type='nature_cnn' is not valid: images are uint8 \[H, W, C\]",
        ),
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


def test_layer_normalization_of_critics_alone_against_a_loop():
    policy = make(critics=3, critic_layer_norm=True, activation="tanh")
    assert not any("normalization" in variable.path for variable in policy.acting_variables)
    view, actions = view_of(policy), np.float32([[0.1, 2.1], [0.5, 2.4]] * (ROWS // 2))
    rows = np.concatenate([np.reshape(view.encoded, (ROWS, -1)), actions], axis=1).astype(np.float64)
    values = []
    for critic in policy.critics:
        *hidden, kernel, bias = (variable.numpy() for variable in critic.trainable_variables)
        x = rows
        for k in range(0, len(hidden), 4):
            x = x @ hidden[k] + hidden[k + 1]
            x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
            x = np.tanh(x * hidden[k + 2] + hidden[k + 3])
        values.append((x @ kernel + bias)[:, 0])
    found = policy.q(view, tf.constant(actions))
    np.testing.assert_allclose(found, values, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(policy.least(found), np.min(values, axis=0), rtol=1e-3, atol=1e-4)


def test_layer_normalization_of_critics_needs_a_dense_network():
    for network in ("cnn", "lstm"):
        with pytest.raises(ValueError, match="critic_layer_norm=True is not valid: needs a dense network"):
            make(WHOLE[network][0], network=network, critic_layer_norm=True)
