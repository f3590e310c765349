from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.policy.base import CLIP_NORMALIZED
from tfbaselines.policy.encoding import observation_spec
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.policy import build_policy
from tfbaselines.training.checkpoint import load_tree, save_tree

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (36, 36, 2), np.uint8)
DISCRETE = spaces.Discrete(4, start=-1)
OBSERVATIONS = {
    "box": BOX,
    "doubles": spaces.Box(-1, 1, (2, 3), np.float64),
    "discrete": DISCRETE,
    "multidiscrete": spaces.MultiDiscrete([3, 2], start=[1, 0]),
    "table": spaces.MultiDiscrete([[2, 3], [4, 2]]),
    "multibinary": spaces.MultiBinary([2, 2]),
}
ACTIONS = {
    "discrete": DISCRETE,
    "multidiscrete": spaces.MultiDiscrete([3, 2], start=[1, 0]),
    "box": spaces.Box(-1, 1, (2, 2), np.float32),
    "multibinary": spaces.MultiBinary(5),
}


def make(network="mlp", obs=BOX, action=DISCRETE, value_network=None, **kwargs):
    kwargs = {"num_hidden": 8, **kwargs} if network == "mlp" else kwargs
    return build_policy(SimpleNamespace(observation_space=obs, action_space=action), network, value_network, **kwargs)


def batch(space=BOX, rows=6):
    space.seed(0)
    dtype = observation_spec(space).dtype.as_numpy_dtype
    return tf.constant(np.stack([space.sample() for _ in range(rows)]).astype(dtype))


def narrow(input_shape):
    inputs = keras.Input(input_shape)
    return keras.Model(inputs, keras.layers.Dense(5, name="narrow")(inputs))


def names(policy):
    return [variable.path for variable in policy.trainable_variables]


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("obs", OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_every_space_goes_in_and_comes_out(obs, action):
    policy = make(obs=obs, action=action)
    flat, value, states, _ = policy.forward(batch(obs))
    assert flat.shape == (6, policy.head.param_size) and value.shape == (6,) and states is None
    assert policy.head.distribution(flat).mode().shape == (6, *action.shape)
    assert np.ptp(value) > 0


@pytest.mark.parametrize("network", ["cnn_small", "conv_only", "impala_cnn", "cnn_lstm", "mlp", "dense", "lstm"])
def test_images_go_in(network):
    policy = make(network, IMAGE)
    memory = (np.zeros(6), policy.initial_state(2)) if policy.recurrent else ()
    assert policy.convolutional and policy.forward(batch(IMAGE), *memory).flat.shape == (6, 4)


@pytest.mark.parametrize("value_network", [None, "shared"])
def test_a_shared_latent_has_one_network(value_network):
    policy = make(value_network=value_network)
    assert policy.value_network is None and len(names(policy)) == 8


def test_a_copy_is_a_network_of_the_same_kind_with_numbers_of_its_own():
    policy = make(value_network="copy", num_layers=3)
    one, other = policy.network.trainable_variables, policy.value_network.trainable_variables
    assert [v.shape for v in one] == [v.shape for v in other] and not np.array_equal(one[0], other[0])
    before = policy.forward(batch())
    other[0].assign(other[0] + 1.0)
    after = policy.forward(batch())
    np.testing.assert_array_equal(before.flat, after.flat)
    assert np.abs(before.value - after.value).max() > 1e-3


def test_the_value_network_may_be_another_one_by_name_or_builder():
    other = make("lstm", value_network="mlp", nlstm=4)
    assert other.state_size == 8 and other.value_network.output_shape == (None, 64)
    assert make(value_network=lambda: narrow).value_network.output_shape == (None, 5)
    assert make(lambda width: narrow, width=2, value_network="copy").value_network.output_shape == (None, 5)
    with pytest.raises(ValueError, match="unknown network 'cpoy'"):
        make(value_network="cpoy")


def test_variables_come_in_the_originals_order():
    policy = make(action=ACTIONS["box"], value_network="copy", num_layers=1)
    kinds = [*["mlp_fc0/kernel", "mlp_fc0/bias"] * 2, "pi/kernel", "pi/bias", "logstd", "vf/kernel", "vf/bias"]
    assert names(policy) == kinds
    assert policy.trainable_variables[2] is policy.value_network.trainable_variables[0]


def test_a_latent_as_wide_as_the_head_is_the_heads_output():
    policy = make(num_hidden=4)
    assert policy.pi_layer is None and not any(name.startswith("pi") for name in names(policy))
    np.testing.assert_array_equal(policy.forward(batch()).flat, policy.network(batch()))


def test_logstd_begins_at_zero_and_is_the_same_in_every_row():
    policy = make(action=ACTIONS["box"])
    np.testing.assert_array_equal(policy.forward(batch()).flat[:, 4:], 0.0)
    policy.logstd.assign([[1.0, 2.0, 3.0, 4.0]])
    np.testing.assert_array_equal(policy.forward(batch()).flat[:, 4:], np.tile([1.0, 2.0, 3.0, 4.0], (6, 1)))


def test_estimate_q_gives_a_value_per_action():
    assert make(estimate_q=True).forward(batch()).value.shape == (6, 4)
    with pytest.raises(ValueError, match=r"estimate_q=True is not valid: needs a Discrete action space, not Box"):
        make(action=ACTIONS["box"], estimate_q=True)


@pytest.mark.parametrize("value_network", [None, "copy"])
def test_recurrent_states_of_both_networks_lie_side_by_side(value_network):
    policy = make("lstm", value_network=value_network, nlstm=3)
    size = 12 if value_network else 6
    assert policy.recurrent and policy.state_size == size
    np.testing.assert_array_equal(policy.initial_state(2), np.zeros((2, size)))
    states = np.random.default_rng(0).normal(size=(2, size)).astype(np.float32)
    _, _, new_states, _ = policy.forward(batch(), np.zeros(6), states)
    changed = states.copy()
    changed[:, 6:] += 1.0
    flat, value, *_ = policy.forward(batch(), np.zeros(6), states)
    flat_changed, value_changed, *_ = policy.forward(batch(), np.zeros(6), changed)
    assert new_states.shape == (2, size) and np.abs(new_states - states).max() > 1e-3
    np.testing.assert_array_equal(flat, flat_changed)
    assert np.array_equal(value, value_changed) == (value_network is None)


def test_a_feed_forward_policy_has_no_state():
    assert not make().recurrent and make().initial_state(3) is None


@pytest.mark.parametrize("obs", [BOX, OBSERVATIONS["doubles"], IMAGE], ids=["box", "doubles", "image"])
def test_observations_are_normalised_by_what_was_seen(obs):
    policy = make("cnn_small" if obs is IMAGE else "mlp", obs, normalize_observations=True)
    seen = np.random.default_rng(0).normal(3, 2, (500, *obs.shape))
    policy.normalizer.update(seen)
    x = batch(obs)
    expected = np.clip((x.numpy() - seen.mean(0)) / seen.std(0), -CLIP_NORMALIZED, CLIP_NORMALIZED)
    np.testing.assert_allclose(policy.preprocess(x), expected, rtol=1e-2, atol=1e-2)
    assert np.isfinite(policy.forward(x).value).all()


def test_normalised_observations_are_clipped():
    policy = make(normalize_observations=True)
    policy.normalizer.update(np.random.default_rng(0).normal(size=(50, 3)))
    np.testing.assert_array_equal(policy.preprocess(tf.constant([[99.0, -99.0, 0.0]]))[0, :2], [5.0, -5.0])


def test_compiled_functions_see_new_statistics():
    policy = make(normalize_observations=True)
    compiled = tf.function(lambda obs: policy.forward(obs).value)
    before = compiled(batch())
    policy.normalizer.update(np.random.default_rng(0).normal(3, 2, (50, 3)))
    assert np.abs(compiled(batch()) - before).max() > 1e-4
    np.testing.assert_allclose(compiled(batch()), policy.forward(batch()).value, rtol=1e-5, atol=1e-6)


def test_numbers_alone_are_normalised():
    with pytest.raises(ValueError, match=r"normalize_observations=True is not valid: needs Box observations"):
        make(obs=DISCRETE, normalize_observations=True)


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"value_network": "copy", "action": ACTIONS["box"], "normalize_observations": True},
        {"network": "lstm", "nlstm": 3},
        {"obs": OBSERVATIONS["table"], "action": ACTIONS["multibinary"], "layer_norm": True},
        {"network": "impala_cnn", "obs": IMAGE, "value_network": "copy", "depths": (1,) * 6},
    ],
    ids=["plain", "normalised", "lstm", "layer_norm", "over 100 variables"],
)
def test_a_restored_policy_is_the_saved_one(kwargs, tmp_path):
    policy, other = make(**kwargs), make(**kwargs)
    if policy.normalizer:
        policy.normalizer.update(np.random.default_rng(0).normal(3, 2, (50, 3)))
    save_tree(tmp_path / "model", policy.state())
    other.restore(load_tree(tmp_path / "model"))
    for one, two in zip(policy.trainable_variables, other.trainable_variables, strict=True):
        np.testing.assert_array_equal(one, two)
    memory = (np.zeros(6), policy.initial_state(2)) if policy.recurrent else ()
    x = batch(policy.observation_space)
    np.testing.assert_array_equal(policy.forward(x, *memory).flat, other.forward(x, *memory).flat)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"obs": spaces.Box(-1, 1, (4,))}, r"another observation space: Box\(shape=\[3\].*has Box\(shape=\[4\]"),
        ({"action": spaces.Discrete(5)}, "another action space: .*n=4, start=-1.*n=5, start=0"),
        ({"num_hidden": 9}, r"weights 1 of 8 are .*mlp_fc0/kernel \(3, 8\), those of this network .*kernel \(3, 9\)"),
        ({"value_network": "copy"}, "another network"),
        ({"normalize_observations": True}, "differ in normalize_observations"),
    ],
)
def test_another_policys_weights_are_refused(kwargs, message):
    policy = make(**kwargs)
    before = policy.state()["weights"]
    with pytest.raises(ValueError, match=message) as error:
        policy.restore(make().state())
    assert "\n" not in str(error.value)
    np.testing.assert_equal(policy.state()["weights"], before)


@pytest.mark.parametrize(
    ("space", "batch_size", "expected"),
    [
        (BOX, 5, tf.TensorSpec((5, 3), tf.float32)),
        (OBSERVATIONS["doubles"], None, tf.TensorSpec((None, 2, 3), tf.float32)),
        (DISCRETE, None, tf.TensorSpec((None,), tf.int64)),
        (IMAGE, None, tf.TensorSpec((None, 36, 36, 2), tf.uint8)),
    ],
)
def test_compiled_functions_take_observations_in_their_own_type(space, batch_size, expected):
    assert observation_spec(space, batch_size) == expected


def test_a_policy_is_not_called_as_the_originals_function_is():
    with pytest.raises(ValueError) as caught:
        make()(1, 1, None)
    assert str(caught.value) == (
        "build_policy returns the policy itself, which is not called: use policy.forward(observations), or the "
        "model that learn(network, env, total_timesteps=0) returns, which has step, act and value"
    )


def test_a_policy_announces_wide_layers(capsys):
    make(obs=spaces.Discrete(200_000), num_hidden=1)
    assert capsys.readouterr().err.count("the observations Discrete(200000) make wide layers") == 1


def test_initial_deviation_and_initialization():
    drawn = {"action": ACTIONS["box"], "value_network": "copy", "init_logstd": -2.0}
    policy, plain = make(ortho_init=False, **drawn), make(**drawn)
    np.testing.assert_array_equal(policy.logstd.numpy(), np.full((1, 4), -2.0, np.float32))
    assert make(action=ACTIONS["discrete"], init_logstd=1.0).logstd is None
    kernels = {p: [v.numpy() for v in p.trainable_variables if v.path.endswith("kernel")] for p in (policy, plain)}
    for kernel, orthogonal in zip(kernels[policy], kernels[plain], strict=True):
        bound = 1.0 / np.sqrt(len(kernel))
        assert 0.6 * bound < np.abs(kernel).max() <= bound
        gram = orthogonal @ orthogonal.T if len(orthogonal) < len(orthogonal.T) else orthogonal.T @ orthogonal
        np.testing.assert_allclose(gram, gram[0, 0] * np.eye(len(gram)), atol=1e-5)
    assert not np.allclose(kernels[policy][0], kernels[policy][2])


@pytest.mark.parametrize(("name", "kwargs"), [("mlp", {"num_layers": 0}), ("dense", {"hidden_sizes": ()})])
def test_without_layers_the_latent_is_the_flat_observation(name, kwargs):
    network = get_network_builder(name)(**kwargs)((2, 3))
    rows = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    np.testing.assert_array_equal(network(keras.ops.convert_to_tensor(rows)), rows.reshape(2, 6))
    assert not network.weights
