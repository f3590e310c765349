import inspect
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfbaselines.policy.copies import NumpyCopies
from tfbaselines.policy.layers import has_convolutions, named_activation
from tfbaselines.policy.networks import NETWORKS, get_network_builder, mlp, register

IMAGE, VECTOR = (44, 40, 2), (5,)
RECURRENT = ["lstm", "cnn_lstm", "cnn_lnlstm", "impala_cnn_lstm"]
# A table stands for no network at all.
BUILT_IN = [name for name in NETWORKS if name != "table"]


def input_shape(name):
    return VECTOR if name in ("mlp", "dense", "simba", "lstm") else IMAGE


def build(name, shape=None, **kwargs):
    return get_network_builder(name)(**kwargs)(shape or input_shape(name))


def batch(shape, rows=4):
    numbers = np.random.default_rng(0).integers(0, 256, (rows, *shape))
    return numbers.astype(np.uint8) if len(shape) == 3 else (numbers / 255).astype(np.float32)


@pytest.fixture
def registry():
    """Whatever a test registers is gone afterwards."""
    before = dict(NETWORKS)
    yield NETWORKS
    NETWORKS.clear()
    NETWORKS.update(before)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_network_builds_and_runs(name):
    network = build(name)
    x = batch(input_shape(name))
    if name in RECURRENT:
        states = np.zeros((2, network.state_size), np.float32)
        latent, states = network([x, np.zeros(4, np.float32), states])
        assert latent.shape == (4, network.state_size // 2) and states.shape == (2, network.state_size)
        assert tf.reduce_any(states != 0.0)
    else:
        assert not hasattr(network, "state_size")
        latent = network(x)
        assert latent.shape == (4, *network.output_shape[1:])
    assert np.isfinite(latent).all() and np.ptp(latent, axis=0).max() > 0
    assert has_convolutions(network) == (input_shape(name) == IMAGE)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_argument_has_a_default(name):
    parameters = inspect.signature(get_network_builder(name)).parameters.values()
    assert all(p.default is not p.empty for p in parameters if p.kind is not p.VAR_KEYWORD)


@pytest.mark.parametrize(
    ("name", "kwargs", "width"),
    [
        ("mlp", {"num_layers": 3, "num_hidden": 7}, 7),
        ("dense", {"hidden_sizes": [9, 8, 7]}, 7),
        ("dense", {}, 256),
        ("cnn_simple", {}, 256),
        ("lstm", {"nlstm": 6}, 6),
        ("cnn_lstm", {"nlstm": 6, "conv_fn": "impala_cnn"}, 6),
        ("cnn_lstm", {"nlstm": 6, "conv_fn": keras.layers.Flatten()}, 6),
        ("cnn_lnlstm", {"nlstm": 6}, 6),
        ("impala_cnn_lstm", {"nlstm": 6, "layer_norm": True}, 6),
        ("conv_only", {"convs": [(5, 3, 2), (6, 3, 1)]}, 6),
    ],
)
def test_arguments_say_the_width(name, kwargs, width):
    output = build(name, **kwargs).output_shape
    assert (output[0] if isinstance(output, list) else output)[-1] == width


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [("mlp", {"num_layers": 3, "num_hidden": 4, "activation": "relu"}), ("dense", {"hidden_sizes": (6, 5, 4)})],
)
def test_dense_layers_are_a_chain_of_products_and_activations(name, kwargs):
    network = build(name, **kwargs)
    assert len(network.trainable_variables) == 6
    expected = x = batch(VECTOR)
    for layer in network.trainable_variables[::2]:
        expected = np.maximum(expected @ layer.numpy(), 0.0)
    np.testing.assert_allclose(network(x), expected, rtol=1e-4, atol=1e-6)


def test_mlp_takes_an_activation_function():
    np.testing.assert_array_equal(build("mlp", activation=lambda x: 0.0 * x + 2.0)(batch(VECTOR)), 2.0)


def test_mlp_normalises_before_its_activation():
    latent = build("mlp", num_hidden=16, layer_norm=True, activation="linear")(batch(VECTOR))
    np.testing.assert_allclose(np.mean(latent, axis=-1), 0.0, atol=1e-5)
    np.testing.assert_allclose(np.std(latent, axis=-1), 1.0, atol=1e-4)


def test_dense_begins_after_glorot():
    variables = build("dense", (90,), hidden_sizes=[70, 50]).trainable_variables
    for kernel, bias in zip(variables[::2], variables[1::2], strict=True):
        bound = np.sqrt(6 / sum(kernel.shape))
        assert 0.98 * bound < np.abs(kernel).max() <= bound and not np.any(bias)


@pytest.mark.parametrize("name", ["mlp", "dense", "lstm"])
def test_tables_are_flattened(name):
    assert build(name, (3, 4)).trainable_variables[0].shape[0] == 12


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((84, 84, 4), [(21, 21, 16), (11, 11, 32)]),
        ((20, 40, 1), [(5, 10, 16), (3, 5, 32)]),
        ((19, 40, 3), [(10, 20, 16), (10, 20, 32)]),
        ((1, 1, 3), [(1, 1, 16), (1, 1, 32)]),
    ],
)
def test_small_pictures_keep_more_of_their_rows(shape, sizes):
    network = build("cnn_simple", shape)
    assert [network.get_layer(name).output.shape[1:] for name in ("c1", "c2")] == sizes
    assert np.isfinite(network(batch(shape))).all()


@pytest.mark.parametrize(("pad", "size"), [("VALID", 2), ("SAME", 6), ("same", 6)])
def test_padding_keeps_rows_and_columns(pad, size):
    network = build("cnn", pad=pad)
    assert network.get_layer("c3").output.shape[1] == size


@pytest.mark.parametrize(("name", "least"), [("cnn", 36), ("cnn_lstm", 36), ("cnn_small", 20)])
def test_images_that_are_too_small_are_refused(name, least):
    assert build(name, (least, least, 1)).inputs
    for shape, hint in (((least, least - 1, 1), "conv_only"), ((3, least, least), "channels come last")):
        with pytest.raises(ValueError, match=rf"at least {least} x {least} pixels, .* \({shape[0]}, .*: .*{hint}"):
            build(name, shape)
    if name != "cnn_lstm":
        assert build(name, (least - 1, least, 1), pad="SAME").inputs


def test_channels_that_seem_to_come_first_are_warned_of_once(capsys):
    for shape in ((3, 16, 15), (3, 16, 15), (4, 4, 16), (5, 9, 9), (12, 12, 4)):
        build("conv_only", shape)
    assert capsys.readouterr().err.count("warning: observations of shape (3, 16, 15) are taken for images of 15 ") == 1
    build("conv_only", (1, 5, 5))
    assert "channels come last" in capsys.readouterr().err


def test_pixels_are_scaled():
    layer = build("conv_only", convs=[(1, 1, 1)]).layers[1]
    np.testing.assert_allclose(layer(np.array([[0.0, 51.0, 255.0]])), [[0.0, 0.2, 1.0]], rtol=1e-6)


@pytest.mark.parametrize("name", ["mlp", "cnn", "lstm"])
def test_kernels_begin_orthogonal_and_biases_zero(name):
    gain = 1.0 if name == "lstm" else np.sqrt(2.0)
    for variable in build(name).trainable_variables:
        value = variable.numpy().reshape(-1, variable.shape[-1])
        if variable.name in ("bias", "b"):
            np.testing.assert_array_equal(value, 0.0)
        else:
            value = value if value.shape[0] < value.shape[1] else value.T
            np.testing.assert_allclose(value @ value.T, gain**2 * np.eye(len(value)), atol=1e-4)


@pytest.mark.parametrize("name", BUILT_IN)
def test_no_two_kernels_begin_alike(name):
    network, again = build(name), build(name)
    kernels = [v.numpy() for v in network.trainable_variables + again.trainable_variables if np.ptp(v.numpy()) > 0]
    pairs = [(a, b) for a, b in itertools.combinations(kernels, 2) if a.shape == b.shape]
    assert pairs and not any(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", [name for name in BUILT_IN if input_shape(name) == IMAGE])
def test_convolutions_refuse_vectors(name):
    with pytest.raises(ValueError, match=r"needs images \[rows, columns, channels\], not observations of shape \(5,\)"):
        build(name, VECTOR)


def test_a_network_of_ones_own_is_known_by_its_name(registry):
    @register("twice")
    def twice(factor=2.0):
        """Doubles."""

        def network_fn(input_shape):
            inputs = keras.Input(input_shape)
            return keras.Model(inputs, keras.layers.Rescaling(factor)(inputs))

        return network_fn

    x = batch(VECTOR)
    np.testing.assert_allclose(build("twice", VECTOR)(x), 2 * x)
    np.testing.assert_allclose(build("twice", VECTOR, factor=3.0)(x), 3 * x)
    assert get_network_builder("twice").__doc__ == "Doubles."
    with pytest.raises(ValueError, match="unknown argument 'facto' of network 'twice': did you mean 'factor'"):
        build("twice", VECTOR, facto=3.0)
    assert build(twice, VECTOR, factor=1.0)(x).shape == x.shape


def test_a_network_may_take_any_arguments(registry):
    given = []
    register("any")(lambda **kwargs: lambda shape: given.append(kwargs) or build("mlp", shape))
    get_network_builder("any")(a=1)(VECTOR)
    assert given == [{"a": 1}]


def test_a_module_is_imported_for_its_network(registry, tmp_path, monkeypatch):
    text = "from tfbaselines.policy.networks import mlp, register\nregister('narrow')(lambda: mlp(num_hidden=3))\n"
    (tmp_path / "own_networks.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert build("own_networks:narrow", VECTOR).output_shape[-1] == 3
    with pytest.raises(ValueError, match="unknown network 'narow': did you mean 'narrow'"):
        get_network_builder("own_networks:narow")
    (tmp_path / "unknown_networks.py").write_text("def wide():\n    pass\n")
    with pytest.raises(ValueError, match=r'unknown_networks does not register it: put @register\("wide"\) above it$'):
        get_network_builder("unknown_networks:wide")


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("mpl", {}, "unknown network 'mpl': did you mean 'mlp'"),
        (None, {}, "network=None is not valid: the name of a network, such as mlp, or a function"),
        ("?", {}, r"unknown network '\?': choose from cnn, cnn_lnlstm"),
        ("no_such_module:mlp", {}, "network='no_such_module:mlp' is not valid: module 'no_such_module' cannot"),
        ("mlp", {"num_hiden": 3}, "unknown argument 'num_hiden' of network 'mlp': did you mean 'num_hidden'"),
        ("cnn", {"???": 3}, "of network 'cnn': it has pad, one_dim_bias"),
        ("mlp", {"num_layers": -1}, "num_layers=-1 is not valid: at least 0"),
        ("mlp", {"num_hidden": -1}, "num_hidden=-1 is not valid: at least 1"),
        ("lstm", {"nlstm": 0}, "nlstm=0 is not valid: at least 1"),
        ("dense", {"hidden_sizes": [4, 0]}, r"hidden_sizes=\[4, 0\] is not valid: each at least 1"),
        ("impala_cnn", {"depths": []}, r"depths=\[\] is not valid: at least one number, each at least 1"),
        ("dense", {"activation": "rleu"}, "unknown activation 'rleu': did you mean 'relu'"),
        ("mlp", {"activation": "thn"}, "unknown activation 'thn': did you mean 'tanh'"),
        ("mlp", {"activation": "thn", "layer_norm": True}, "unknown activation 'thn': did you mean 'tanh'"),
        ("cnn", {"pad": "some"}, "pad='some' is not valid: 'VALID' or 'SAME'"),
        ("cnn_lstm", {"conv_fn": "nature"}, "unknown conv_fn 'nature': did you mean 'nature_cnn'"),
    ],
)
def test_mistakes_are_named_in_one_line(name, kwargs, message):
    with pytest.raises(ValueError, match=message) as error:
        build(name, **kwargs)
    assert "\n" not in str(error.value)


def tower(X):
    """A network as baselines takes it."""
    return keras.layers.Dense(5, activation="tanh")(keras.layers.Flatten()(X))


def test_a_function_of_a_tensor_is_the_network_itself():
    first, second = (get_network_builder(tower)()((2, 3)) for _ in range(2))
    assert first.output_shape == (None, 5) and first is not second

    @register("builds_a_tower")
    def builds(width=4):
        def network_fn(x):
            return keras.layers.Dense(width)(x)

        return network_fn

    for network in ("builds_a_tower", builds):
        assert get_network_builder(network)(width=7)((3,)).output_shape == (None, 7)
    assert get_network_builder(mlp(num_hidden=9))()((3,)).output_shape == (None, 9)
    del NETWORKS["builds_a_tower"]


@pytest.mark.parametrize("name", ["mlp", "dense", "cnn_simple"])
def test_a_network_may_stand_within_another(name):
    inner = NETWORKS[name]()
    shape = (12, 12, 2) if name == "cnn_simple" else (3,)
    network = get_network_builder(lambda X: keras.layers.Dense(4)(inner(X)))()(shape)
    assert network.output_shape == (None, 4) and len(network.trainable_weights) > 4
    kernels = [np.asarray(weight) for weight in network.trainable_weights]
    again = get_network_builder(lambda X: keras.layers.Dense(4)(inner(X)))()(shape)
    assert again.trainable_weights[0] is not network.trainable_weights[0] and len(again.trainable_weights) == len(
        kernels
    )


def test_networks_that_are_neither_are_one_line():
    for network, words in (
        (keras.layers.Dense(3), "network='Dense' is not valid: a function that makes the layers"),
        (keras.Sequential([keras.layers.Dense(3)]), "network='Sequential' is not valid: a function that"),
        (lambda: lambda x, nenv: x, "recurrent networks have names"),
        (lambda x, nenv: x, "recurrent networks have names"),
        (lambda x: (x, {}), "not tuple"),
        (lambda input_shape: None, "a function of the input's shape must return a Keras model, it returned None"),
        (lambda: None, "network=None is not valid: a function of one tensor, or a builder"),
    ):
        with pytest.raises(ValueError, match=words) as error:
            get_network_builder(network)()((3,))
        assert "\n" not in str(error.value)


class Sub(keras.Model):
    """A model that has no shapes before it is called."""

    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(7, "relu")

    def call(self, x):
        return self.hidden(x)


@pytest.mark.parametrize(
    "make", [Sub, lambda: keras.layers.Dense(7), lambda: keras.Sequential([keras.layers.Dense(7)])]
)
def test_models_without_shapes_are_applied(make):
    network = get_network_builder(lambda input_shape: make())()(VECTOR)
    assert network(batch(VECTOR)).shape == (4, 7) and len(network.trainable_variables) == 2


def of_torch(name):
    return type(name, (), {"__module__": "torch.nn.modules.activation"})


def function_of_torch(name):
    def function(x):
        raise AssertionError("it takes tensors of PyTorch")

    function.__name__, function.__module__ = name, "torch.nn.functional"
    return function


@pytest.mark.parametrize(
    ("activation", "name"),
    [
        (of_torch("Tanh"), "tanh"),
        (of_torch("ReLU"), "relu"),
        (of_torch("LogSigmoid")(), "log_sigmoid"),
        (of_torch("Identity"), "linear"),
        (function_of_torch("relu"), "relu"),
        (tf.nn.relu, "relu"),
        (tf.tanh, "tanh"),
        (tf.nn.leaky_relu, "leaky_relu"),
        (keras.layers.ReLU, "relu"),
        (keras.activations.elu, "elu"),
    ],
)
def test_activations_of_other_libraries_are_taken_by_their_names(activation, name):
    assert named_activation(activation) == name
    layer = build("mlp", activation=activation).layers[-1]
    assert layer.activation is keras.activations.get(name)


def test_activations_of_other_libraries_that_keras_lacks_are_one_line():
    for activation, words in ((of_torch("RReLU"), "unknown activation 'RReLU'"), (of_torch("LeakyReLU"), "LeakyReLU")):
        with pytest.raises(ValueError, match=words) as error:
            build("mlp", activation=activation)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["cnn_lstm", "cnn_lnlstm"])
def test_arguments_of_the_convolutions_reach_them(name):
    small = get_network_builder(name)(nlstm=4, pad="SAME", one_dim_bias=True)((12, 12, 1))
    assert [layer.padding for layer in small.layers if isinstance(layer, keras.layers.Conv2D)] == ["same"] * 3
    with pytest.raises(ValueError, match="unknown argument 'padd' of network 'cnn_lstm': did you mean 'pad'"):
        get_network_builder(name)(padd="SAME")

    def features(x, width):
        return keras.layers.Dense(width)(keras.layers.Flatten()(x))

    assert get_network_builder(name)(conv_fn=features, width=3)((4, 4, 1)).trainable_variables[0].shape == (16, 3)


def test_simba_against_a_loop():
    network = get_network_builder("simba")(width=6, blocks=2)((3,))
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=weight.shape).astype(np.float32) for weight in network.get_weights()]
    network.set_weights(weights)

    def normalized(x, gamma, beta):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * gamma + beta

    x = rows = rng.normal(size=(5, 3)).astype(np.float32)
    kernel, bias, *blocks, gamma, beta = weights
    x = x @ kernel + bias
    for k in (0, 6):
        hidden = np.maximum(normalized(x, *blocks[k : k + 2]) @ blocks[k + 2] + blocks[k + 3], 0.0)
        x = x + hidden @ blocks[k + 4] + blocks[k + 5]
    np.testing.assert_allclose(network(rows), normalized(x, gamma, beta), rtol=1e-3, atol=1e-4)
    copies = NumpyCopies()
    function = copies.function([network])
    copies.refresh()
    np.testing.assert_allclose(function(rows), normalized(x, gamma, beta), rtol=1e-3, atol=1e-4)
