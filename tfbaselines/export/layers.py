"""Keras networks as operations of a program: layers of known kinds, in a row or as any graph without loops.

A layer counts as known if it is exactly of a kind below: a subclass may compute something else.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from tfbaselines.algs.deepq.q_network import NoisyDense
from tfbaselines.errors import UsageError
from tfbaselines.export.program import LARGEST, Program, Value, flat
from tfbaselines.policy import layers as own
from tfbaselines.policy.recurrent import LAYER_NORM_EPSILON, MaskedLSTM
from tfbaselines.policy.residual import ResidualBlock

kinds = keras.layers

# Targets that take any network.
TAKE_ANY = "savedmodel, litert and onnx"


def refused(what: str) -> UsageError:
    """Build the error for a part that the plain operations cannot compute."""
    return UsageError(f"cannot write {what} as plain operations: the targets that can are {TAKE_ANY}")


def run_network(program: Program, network: Any, inputs: Any, state: Value | None = None) -> tuple[Value, Value | None]:
    """Record a network or layer; return its output as one row, and its new state if it has memory.

    Args:
        inputs: input of the network, or a mapping of inputs by name.
        state: recurrent state, for a network with memory.
    """
    if not _is_known_model(network):
        return flat(_layer(program, network, inputs)), None
    given = network.inputs if isinstance(network, keras.Sequential) else network.input
    if state is None:
        return flat(_model(program, network, _matched(given, inputs))[0]), None
    # Networks with memory take [inputs, episode_start, states]; a state of zeros starts an episode.
    own_inputs, _, states = given
    latent, new_state = _model(program, network, _matched(own_inputs, inputs) | {id(states): state})
    return flat(latent), new_state


def _matched(given: Any, inputs: Any) -> dict[int, Value]:
    """Map the ids of a model's input tensors to values; names with slashes have dots in Keras."""
    if isinstance(given, list | tuple) and len(given) == 1:
        (given,) = given
    if isinstance(given, Mapping):
        return {id(tensor): inputs[name] for name, tensor in given.items()}
    return {id(given): inputs}


def _model(program: Program, model: keras.Model, known: dict[int, Value]) -> list[Value]:
    """Record a model, given the values of its inputs by the tensors' ids; return the values of its outputs."""
    if isinstance(model, keras.Sequential):
        (x,) = known.values()
        for layer in model.layers:
            x = _layer(program, layer, x)
        return [x]
    known = {id(tensor): _shaped(known[id(tensor)], tensor) for tensor in model.inputs if id(tensor) in known}
    nodes = model._nodes_by_depth
    for node in itertools.chain.from_iterable(nodes[depth] for depth in sorted(nodes, reverse=True)):
        if not node.is_input:
            outputs = _node(program, node, known)
            known |= {id(tensor): value for tensor, value in zip(node.output_tensors, outputs, strict=True)}
    return [known[id(tensor)] for tensor in model.outputs]


def _is_known_model(layer: Any) -> bool:
    """Check that a model is a graph or a row of layers; a subclass may compute something else."""
    return isinstance(layer, keras.Model) and type(layer).__name__ in ("Functional", "Sequential")


def _shaped(value: Value, tensor: Any) -> Value:
    return Value(value.number, tuple(tensor.shape[1:]))


def _node(program: Program, node: Any, known: Mapping[int, Value]) -> list[Value]:
    """Record one use of a layer or operation in a graph."""
    operation, tensors = node.operation, node.input_tensors
    # Only the flag for the start of an episode has no value.
    values = [known.get(id(tensor)) for tensor in tensors]
    if isinstance(operation, MaskedLSTM):
        x, _, state = values
        return list(run_lstm(program, operation, x, state))
    if _is_known_model(operation):
        given = {id(tensor): value for tensor, value in zip(operation.inputs, values, strict=True) if value is not None}
        return _model(program, operation, given)
    if type(operation) in MERGES:
        return [MERGES[type(operation)](program, operation, values)]
    if not isinstance(operation, keras.Layer):
        return [_keras_function(program, node, values)]
    return [_layer(program, operation, *values)]


def _layer(program: Program, layer: Any, *values: Value) -> Value:
    if _is_known_model(layer) and len(values) == 1:
        return _model(program, layer, {id(layer.inputs[0]): values[0]})[0]
    if type(layer) not in LAYERS or len(values) != 1:
        raise refused(f"the layer '{layer.name}' of kind {type(layer).__name__}")
    return LAYERS[type(layer)](program, layer, values[0])


def _keras_function(program: Program, node: Any, values: Sequence[Value]) -> Value:
    """Record a function of keras.ops in a graph: arithmetic of two values of one shape or with a number."""
    name = type(node.operation).__name__
    operands = [*node.arguments.args, *node.arguments.kwargs.values()]
    how = ARITHMETIC.get(name)
    if how and len(values) == 2 == len(operands) and values[0].shape == values[1].shape:
        return program.combine(how, *values)
    if how and len(operands) == 2 and isinstance(operands[1], int | float):
        number = operands[1]
        change = {"add": {"plus": number}, "subtract": {"minus": number}, "multiply": {"times": number}}
        if how in change:
            return program.affine(values[0], **change[how])
    if name.lower() in ACTIVATIONS and len(operands) == 1:
        return ACTIVATIONS[name.lower()](program, values[0])
    raise refused(f"the function keras.ops.{name.lower()} in a network")


ARITHMETIC = {name.capitalize(): name for name in ("add", "subtract", "multiply", "maximum", "minimum")}


def run_lstm(program: Program, cell: MaskedLSTM, x: Value, state: Value) -> tuple[Value, Value]:
    """Record one step of an LSTM; return h and the new state (c, h). The cell's class has the formulas."""
    width = cell.width
    c, h = (program.slice(state, begin, begin + width) for begin in (0, width))
    zx = program.dense(flat(x), cell.wx.numpy(), None if cell.layer_norm else cell.b.numpy())
    zh = program.dense(h, cell.wh.numpy())
    if cell.layer_norm:
        zx, zh = _lstm_norm(program, zx, cell.gx, cell.bx), _lstm_norm(program, zh, cell.gh, cell.bh)
        zx = program.affine(zx, plus=cell.b.numpy())
    z = program.combine("add", zx, zh)
    gates = program.activation(program.slice(z, 0, 3 * width), "sigmoid")
    i, f, o = (program.slice(gates, k * width, (k + 1) * width) for k in range(3))
    u = program.activation(program.slice(z, 3 * width, 4 * width), "tanh")
    kept, added = program.combine("multiply", f, c), program.combine("multiply", i, u)
    c = program.combine("add", kept, added)
    shown = _lstm_norm(program, c, cell.gc, cell.bc) if cell.layer_norm else c
    h = program.combine("multiply", o, program.activation(shown, "tanh"))
    return h, program.concat([c, h])


def _lstm_norm(program: Program, x: Value, gain: keras.Variable, bias: keras.Variable) -> Value:
    return program.layer_norm(x, gain.numpy(), bias.numpy(), LAYER_NORM_EPSILON)


def activated(program: Program, x: Value, function: Any) -> Value:
    """Record an activation of Keras or TensorFlow; another function is refused."""
    name = getattr(function, "__name__", type(function).__name__)
    if getattr(function, "__module__", "").split(".")[0] not in ("keras", "tensorflow") or name not in ACTIVATIONS:
        raise refused(f"the activation '{name}'")
    return ACTIVATIONS[name](program, x)


def _times_sigmoid(program: Program, x: Value) -> Value:
    return program.combine("multiply", x, program.activation(x, "sigmoid"))


def _leaky(program: Program, x: Value, slope: float = 0.2) -> Value:
    # Slopes are below 1.
    return program.combine("maximum", x, program.affine(x, times=slope))


def _selu(program: Program, x: Value) -> Value:
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    above = program.activation(x, "relu")
    below = program.clip(program.activation(x, "elu"), -LARGEST, 0.0)
    return program.combine("add", program.affine(above, times=scale), program.affine(below, times=scale * alpha))


def _gelu(program: Program, x: Value) -> Value:
    share = program.activation(program.affine(x, times=0.5**0.5), "erf")
    return program.combine("multiply", x, program.affine(share, minus=-1.0, times=0.5))


def _hard_sigmoid(program: Program, x: Value) -> Value:
    return program.clip(program.affine(x, minus=-3.0, times=1 / 6), 0.0, 1.0)


def _mish(program: Program, x: Value) -> Value:
    share = program.activation(program.activation(x, "softplus"), "tanh")
    return program.combine("multiply", x, share)


def _plain(name: str) -> Callable[[Program, Value], Value]:
    return lambda program, x: program.activation(x, name)


# Activations by Keras's and TensorFlow's names.
ACTIVATIONS: dict[str, Callable[[Program, Value], Value]] = {
    **{name: _plain(name) for name in ("relu", "tanh", "sigmoid", "exp", "elu", "softplus", "softsign")},
    "linear": lambda program, x: x,
    "exponential": _plain("exp"),
    "relu6": lambda program, x: program.clip(x, 0.0, 6.0),
    "hard_tanh": lambda program, x: program.clip(x, -1.0, 1.0),
    "hard_sigmoid": _hard_sigmoid,
    "silu": _times_sigmoid,
    "swish": _times_sigmoid,
    "leaky_relu": _leaky,
    "selu": _selu,
    "gelu": _gelu,
    "mish": _mish,
    "softmax": lambda program, x: program.softmax(x, x.shape[-1]),
}


def _same(program: Program, layer: Any, x: Value) -> Value:
    return x


def _reshaped(program: Program, layer: Any, x: Value) -> Value:
    return Value(x.number, tuple(layer.compute_output_shape((1, *x.shape))[1:]))


def _dense(program: Program, layer: Any, x: Value) -> Value:
    bias = layer.bias.numpy() if layer.use_bias else None
    return activated(program, program.dense(x, layer.kernel.numpy(), bias), layer.activation)


def _noisy_dense(program: Program, layer: NoisyDense, x: Value) -> Value:
    # The noise belongs to training.
    return activated(program, program.dense(x, layer.kernel.numpy(), layer.bias.numpy()), layer.activation)


def _conv2d(program: Program, layer: Any, x: Value) -> Value:
    if layer.data_format != "channels_last" or layer.groups != 1:
        raise refused(f"the layer '{layer.name}' of kind Conv2D with channels first or in groups")
    kernel = layer.kernel.numpy()
    bias = layer.bias.numpy() if layer.use_bias else np.zeros(kernel.shape[-1])
    return activated(
        program, program.conv2d(x, kernel, bias, layer.strides, layer.dilation_rate, layer.padding), layer.activation
    )


def _pool2d(how: str) -> Callable[[Program, Any, Value], Value]:
    def record(program: Program, layer: Any, x: Value) -> Value:
        if layer.data_format != "channels_last":
            raise refused(f"the layer '{layer.name}' with channels first")
        return program.pool2d(x, how, layer.pool_size, layer.strides, layer.padding)

    return record


def _global_pool2d(how: str) -> Callable[[Program, Any, Value], Value]:
    def record(program: Program, layer: Any, x: Value) -> Value:
        if layer.data_format != "channels_last":
            raise refused(f"the layer '{layer.name}' with channels first")
        pooled = program.pool2d(x, how, x.shape[:2], x.shape[:2], "valid")
        return pooled._replace(shape=tuple(layer.compute_output_shape((1, *x.shape))[1:]))

    return record


def _layer_norm(program: Program, layer: Any, x: Value) -> Value:
    if list(np.atleast_1d(layer.axis)) not in ([-1], [len(x.shape)]):
        raise refused(f"the layer '{layer.name}' of kind LayerNormalization over other axes than the last")
    width = x.shape[-1]
    gamma = np.ones(width) if layer.gamma is None else layer.gamma.numpy()
    beta = np.zeros(width) if layer.beta is None else layer.beta.numpy()
    return program.layer_norm(x, gamma, beta, layer.epsilon)


def _batch_norm(program: Program, layer: Any, x: Value) -> Value:
    if layer.axis not in (-1, len(x.shape)):
        raise refused(f"the layer '{layer.name}' of kind BatchNormalization over another axis than the last")
    mean, variance = layer.moving_mean.numpy(), layer.moving_variance.numpy()
    gamma = 1.0 if layer.gamma is None else layer.gamma.numpy()
    beta = 0.0 if layer.beta is None else layer.beta.numpy()
    return program.affine(x, minus=mean, times=gamma / np.sqrt(variance + layer.epsilon), plus=beta)


def _rescaling(program: Program, layer: Any, x: Value) -> Value:
    return program.affine(x, times=layer.scale, plus=layer.offset)


def _residual_block(program: Program, block: ResidualBlock, x: Value) -> Value:
    change = x
    for layer in (block.norm, block.expand, block.contract):
        change = _layer(program, layer, change)
    return program.combine("add", x, change)


def _relu(program: Program, layer: Any, x: Value) -> Value:
    if layer.threshold or layer.negative_slope:
        raise refused(f"the layer '{layer.name}' of kind ReLU with a slope or threshold")
    return program.activation(x, "relu") if layer.max_value is None else program.clip(x, 0.0, layer.max_value)


def _elu(program: Program, layer: Any, x: Value) -> Value:
    if layer.alpha != 1.0:
        raise refused(f"the layer '{layer.name}' of kind ELU with alpha={layer.alpha}")
    return program.activation(x, "elu")


def _softmax(program: Program, layer: Any, x: Value) -> Value:
    if layer.axis not in (-1, len(x.shape)):
        raise refused(f"the layer '{layer.name}' of kind Softmax over another axis than the last")
    return program.softmax(x, x.shape[-1])


RESHAPES = (kinds.Flatten, kinds.Reshape)
# Layers that change nothing while acting.
TRAINING_ALONE = (
    *(kinds.InputLayer, kinds.Identity, kinds.ActivityRegularization, kinds.Dropout, kinds.SpatialDropout2D),
    *(kinds.GaussianDropout, kinds.GaussianNoise, kinds.AlphaDropout),
)
LAYERS: dict[type, Callable[[Program, Any, Value], Value]] = {
    **dict.fromkeys(RESHAPES, _reshaped),
    **dict.fromkeys(TRAINING_ALONE, _same),
    **dict.fromkeys((kinds.Dense, own.Dense), _dense),
    NoisyDense: _noisy_dense,
    kinds.Conv2D: _conv2d,
    kinds.MaxPooling2D: _pool2d("max"),
    kinds.AveragePooling2D: _pool2d("average"),
    kinds.GlobalMaxPooling2D: _global_pool2d("max"),
    kinds.GlobalAveragePooling2D: _global_pool2d("average"),
    kinds.Activation: lambda program, layer, x: activated(program, x, layer.activation),
    kinds.ReLU: _relu,
    kinds.LeakyReLU: lambda program, layer, x: _leaky(program, x, layer.negative_slope),
    kinds.ELU: _elu,
    kinds.Softmax: _softmax,
    kinds.LayerNormalization: _layer_norm,
    kinds.BatchNormalization: _batch_norm,
    kinds.Rescaling: _rescaling,
    ResidualBlock: _residual_block,
}


def _merge(how: str) -> Callable[[Program, Any, Sequence[Value]], Value]:
    return lambda program, layer, values: program.combine(how, *values)


def _average(program: Program, layer: Any, values: Sequence[Value]) -> Value:
    return program.affine(program.combine("add", *values), times=1 / len(values))


def _concatenate(program: Program, layer: Any, values: Sequence[Value]) -> Value:
    if layer.axis not in (-1, len(values[0].shape)):
        raise refused(f"the layer '{layer.name}' of kind Concatenate over another axis than the last")
    return program.concat(values)


MERGES: dict[type, Callable[[Program, Any, Sequence[Value]], Value]] = {
    kinds.Add: _merge("add"),
    kinds.Subtract: _merge("subtract"),
    kinds.Multiply: _merge("multiply"),
    kinds.Maximum: _merge("maximum"),
    kinds.Minimum: _merge("minimum"),
    kinds.Average: _average,
    kinds.Concatenate: _concatenate,
}
