"""Models with policies of every kind, untrained but with weights of their own, and inputs for their exports."""

import functools
from types import SimpleNamespace

import acting
import actor_critics
import keras
import numpy as np
from gymnasium import spaces

from tfbaselines.algs.deepq.loss import CategoricalReturn, QuantileReturn
from tfbaselines.algs.deepq.q_network import QNetwork
from tfbaselines.algs.her.goal import GoalActorCritic
from tfbaselines.algs.qlearning.table import Cells, TablePolicy
from tfbaselines.envs.vec.observations import MASK, ONLY, parts_of
from tfbaselines.envs.vec.packed import PackedSpace, choices_of, opened
from tfbaselines.export.describe import expected, interface_of
from tfbaselines.export.description import SAMPLES, describe
from tfbaselines.export.interface import MASKS, NOISE, STATES, Options
from tfbaselines.policy.bounded import DeterministicHead
from tfbaselines.policy.distributions import make_pdtype
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.own import OwnActorCritic, OwnNetworks, OwnPolicy
from tfbaselines.policy.policy import DirectPolicy
from tfbaselines.policy.previous_action import PreviousActionCritics, PreviousActionPolicy
from tfbaselines.training.model import PolicyModel

BOX, MULTI = acting.BOX, actor_critics.MULTI
BOUNDED, CAMERA, PIXELS = actor_critics.BOUNDED, actor_critics.CAMERA, acting.PIXELS
SEVERAL = spaces.Dict(camera=CAMERA, speed=BOX, gear=spaces.Discrete(3, start=1))
GOALS = spaces.Dict(observation=BOX, achieved_goal=BOX, desired_goal=BOX)
CAMERAS = spaces.Box(0, 255, (20, 20, 2), np.uint8)
ACTIVATIONS = ("relu", "elu", "selu", "silu", "gelu", "softplus", "softsign", "leaky_relu", "sigmoid", "mish", "relu6")


def masked(*actions, obs=BOX):
    return PackedSpace(spaces.Dict({**parts_of(obs), MASK: spaces.MultiBinary(sum(actions))}))


def policy(network="mlp", obs=BOX, action=acting.DISCRETE, **kwargs):
    """One of policy/policy.py."""
    kwargs = {"num_hidden": 8} | kwargs if network == "mlp" else kwargs
    return acting.make(network, obs, action, **kwargs)


def shaken(made):
    actor_critics.shake(made)
    return made


def q_network(obs=BOX, **kwargs):
    return shaken(QNetwork(obs, acting.DISCRETE, get_network_builder("mlp")(num_hidden=8), hiddens=[8], **kwargs))


def goals(relative=False):
    network = get_network_builder("dense")(hidden_sizes=[8])
    made = shaken(GoalActorCritic(GOALS, BOUNDED, network, relative=relative))
    rng = np.random.default_rng(0)
    made.normalizer.update({name: rng.normal(1, 2, (50, 3)) for name in ("observation", "desired_goal")})
    return made


def table(space, action=acting.DISCRETE, **cells):
    return shaken(TablePolicy(space, action, Cells(parts_of(opened(space)).get(ONLY, space), **cells)))


def every_layer(shape):
    """A network of all layers that are read, merged in several ways."""
    layers = keras.layers
    x = inputs = keras.Input(shape)
    x = layers.Rescaling(1 / 255, -0.5)(x)
    x = layers.Conv2D(3, 3, dilation_rate=2, use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    a = layers.Conv2D(3, (3, 2), (2, 3), "same", activation="tanh")(layers.Dropout(0.5)(x))
    b = layers.LeakyReLU()(layers.Conv2D(3, (3, 2), (2, 3), "same")(x))
    x = layers.Concatenate()([layers.Average()([a, b]), layers.Maximum()([a, b]), layers.ELU()(a) * b])
    x = layers.LayerNormalization()(layers.Dense(4)(x))
    pooled = [layers.AveragePooling2D(2, 2, "same")(x), layers.MaxPooling2D(2, 1)(x)]
    rows = [layers.Flatten()(one) for one in pooled]
    rows += [layers.GlobalAveragePooling2D()(x), layers.GlobalMaxPooling2D()(x)]
    rows[0] = layers.Softmax()(layers.ReLU(max_value=1.0)(rows[0]) + 0.5)
    inner = keras.Sequential([keras.Input((rows[1].shape[-1],)), layers.Dense(5, "gelu"), layers.GaussianNoise(0.1)])
    rows[1] = layers.Subtract()([inner(rows[1]), layers.Dense(5)(rows[2])])
    rows[2] = layers.Multiply()([layers.Dense(4)(rows[2]), layers.Reshape((4,))(rows[3])])
    return keras.Model(inputs, layers.Add()([layers.Dense(6)(row) for row in rows]))


def every_activation(shape):
    inputs = keras.Input(shape)
    return keras.Model(inputs, keras.layers.Concatenate()([keras.layers.Dense(2, one)(inputs) for one in ACTIVATIONS]))


def spinning_up(observation_space, action_space):
    def model(*widths, outputs):
        inputs = [keras.Input((width,)) for width in widths]
        x = inputs[0] if len(inputs) == 1 else keras.layers.Concatenate()(inputs)
        return keras.Model(inputs, keras.layers.Dense(outputs)(keras.layers.Dense(8, "relu")(x)))

    return SimpleNamespace(pi=model(3, outputs=2), v=model(3, outputs=1), q=model(3, 2, outputs=1))


def own(kind, **kwargs):
    return shaken(kind(BOX, BOUNDED, OwnNetworks(spinning_up, {}), **kwargs))


def direct(action, **kwargs):
    return shaken(DirectPolicy(BOX, action, get_network_builder("mlp")(num_hidden=8), **kwargs))


NORMALIZED = {"normalize_observations": True}
POLICIES = {
    "categorical": lambda: policy(),
    "doubles": lambda: policy("mlp", acting.OBSERVATIONS["doubles"], BOUNDED, value_network="copy", **NORMALIZED),
    "integers": lambda: policy(action=spaces.Box(-1, 2, (2, 2), np.int32)),
    "bits": lambda: policy(action=spaces.MultiBinary(3)),
    "several choices": lambda: policy(obs=acting.OBSERVATIONS["multidiscrete"], action=MULTI),
    "discrete": lambda: policy(obs=acting.DISCRETE, layer_norm=True),
    "masked": lambda: policy(obs=masked(3, 2), action=MULTI),
    "masked parts": lambda: policy(obs=masked(4, obs=SEVERAL)),
    "parts": lambda: policy("mlp", PackedSpace(SEVERAL), BOUNDED, activation="relu"),
    "simba": lambda: policy("simba", width=8),
    "small cnn": lambda: policy("cnn_small", CAMERAS),
    "impala": lambda: policy("impala_cnn", acting.OBSERVATIONS["image"], BOUNDED, depths=[2, 3]),
    "images to convolutions": lambda: policy("conv_only", CAMERA, BOUNDED, convs=[(2, 3, 2)]),
    "lstm": lambda: policy("lstm", BOX, BOUNDED, nlstm=4, value_network="copy"),
    "normalized lstm": lambda: policy("lstm", PackedSpace(SEVERAL), nlstm=4, layer_norm=True),
    "cnn and lstm": lambda: policy("cnn_lstm", PIXELS, nlstm=4),
    "previous choice": lambda: policy("lstm", BOX, MULTI, nlstm=4, policy_class=PreviousActionPolicy),
    "previous numbers": lambda: policy("lstm", BOX, BOUNDED, nlstm=4, policy_class=PreviousActionPolicy),
    "every layer": lambda: policy(every_layer, CAMERA, BOUNDED),
    "direct": lambda: direct(BOUNDED, clip_observations=1.0),
    "direct choice": lambda: direct(acting.DISCRETE, certain=False),
    "squashed": lambda: actor_critics.make(**NORMALIZED),
    "deterministic": lambda: actor_critics.make(head=DeterministicHead, layer_norm=True),
    "memory": lambda: actor_critics.make(SEVERAL, MULTI, head=make_pdtype, memory_size=4),
    "memory of numbers": lambda: actor_critics.make(memory_size=4, policy_class=PreviousActionCritics),
    "own network": lambda: actor_critics.make(PIXELS, network="cnn_lstm"),
    "own policy": lambda: own(OwnPolicy),
    "own actor": lambda: own(OwnActorCritic, head=DeterministicHead, critics=1),
    "dueling": lambda: q_network(dueling=True),
    "masked categorical": lambda: q_network(masked(4).parts, returns=CategoricalReturn(5, -1, 2), layer_norm=True),
    "quantiles": lambda: q_network(returns=QuantileReturn(4), noisy=True, dueling=False),
    "table": lambda: table(BOX, grid_size=[4, 5, 3]),
    "table of numbers": lambda: table(spaces.MultiDiscrete([3, 2], start=[1, 0])),
    "goals": goals,
    "relative goals": lambda: goals(relative=True),
    "every activation": lambda: policy(every_activation, action=BOUNDED),
}
# Policies that together have every operation.
COVERING = (
    *("integers", "bits", "several choices", "masked parts", "impala", "every layer", "every activation", "memory"),
    *("previous numbers", "masked categorical", "table", "relative goals"),
)


@functools.cache
def exported(name, sampled=False):
    """Options of a policy, its program and its weights; None if it takes no noise."""
    model = made(name)
    if sampled and type(model.policy.head) not in SAMPLES:
        return None
    given = options(model, sampled)
    return given, *describe(model.policy, {}, given.interface)


@functools.cache
def made(name):
    return PolicyModel(POLICIES[name]())


def options(model, sampled=False, rows=20, to="numpy"):
    """Options with random inputs, and the model's answers as expected outputs."""
    interface, rng = interface_of(model, sampled), np.random.default_rng(1)
    space = opened(model.policy.observation_space)
    space.seed(0)
    samples = [space.sample() if isinstance(space, spaces.Dict) else {ONLY: space.sample()} for _ in range(rows)]
    if model.policy.masked:
        first = np.cumsum([0, *_parts_of(model.policy.action_space)[:-1]])
        for sample in samples:
            sample[MASK][first] = 1
    inputs = {port.name: np.stack([one[part] for one in samples]) for part, port in interface.observations.items()}
    if interface.recurrent:
        inputs |= {STATES: rng.normal(size=(rows, model.policy.state_size)), MASKS: rng.integers(0, 2, rows)}
    if sampled:
        inputs[NOISE] = model.policy.head.draw_noise(np.random.default_rng(0), (rows,))
    inputs = {port.name: np.ascontiguousarray(inputs[port.name], port.dtype) for port in interface.inputs}
    outputs = expected(model, interface, inputs, sampled)
    return Options(to, sampled, "float32", interface, inputs, outputs, "random samples", [])


def _parts_of(action):
    return [choices_of(action)] if isinstance(action, spaces.Discrete) else action.nvec.tolist()


def operations(name):
    """The kinds of operations in a policy's program."""
    _, program, _ = exported(name)
    steps = [*program["body"], *program["act"]["operations"]]
    return {(one["kind"], one["settings"].get("name", one["settings"].get("how"))) for one in steps}
