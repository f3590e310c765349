"""A policy as a program of plain operations, from raw observations to actions: for targets without TensorFlow.

The program has three parts: `body` computes the parameters of the action distribution, `act` continues to the most
likely action, and `sample` to an action drawn from noise.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.algs.deepq.q_network import EpsilonGreedyHead
from tfbaselines.envs.vec.observations import ONLY, parts_of
from tfbaselines.envs.vec.packed import opened
from tfbaselines.errors import warn
from tfbaselines.export import TOLERANCE, numpy_policy
from tfbaselines.export.actors import ACTORS, PREPROCESSING, Parameters, encode_part, raw
from tfbaselines.export.interface import ACTIONS, Interface, Options
from tfbaselines.export.joined import Joined
from tfbaselines.export.layers import refused
from tfbaselines.export.numpy_target import ROWS, answers
from tfbaselines.export.program import Operation, Program, Value, flat
from tfbaselines.export.vectors import compare
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.bounded import LOG_STD_BOUNDS, DeterministicHead, SquashedGaussianHead
from tfbaselines.policy.distributions import (
    BernoulliHead,
    CategoricalHead,
    GaussianHead,
    MultiCategoricalHead,
    make_pdtype,
)
from tfbaselines.policy.own import GivenActions
from tfbaselines.policy.policy import CertainHead
from tfbaselines.policy.previous_action import SeesPreviousAction

# A program as JSON, and its weights by name.
Described = tuple[dict[str, Any], dict[str, np.ndarray]]


def described(model: Any, options: Options) -> Described:
    """Describe a model's policy; warn if the operations do not repeat the model's actions."""
    program, weights = describe(model.policy, model.observations.normalization, options.interface)
    few = slice(0, ROWS)
    inputs, outputs = ({name: rows[few] for name, rows in part.items()} for part in (options.inputs, options.outputs))
    difference = compare(answers(numpy_policy.Policy(program, weights), inputs), outputs)
    if difference > TOLERANCE:
        warn(f"actions of the export, which computes in float32, differ by up to {difference:.2g} from the model's")
    return program, weights


def describe(policy: BasePolicy, normalization: Mapping[str, Any], interface: Interface) -> Described:
    """Describe a policy with its normalization (empty for none); UsageError for what plain operations cannot compute.

    Returns:
        The program: `inputs`, `state` (zeros where an episode starts), `noise` and `action` with their sizes; `body`,
        `act` and `sample` (None for a deterministic policy) with operations. And the weights.
    """
    kind = type(policy)
    if kind.forward not in ACTORS or kind.preprocess not in PREPROCESSING:
        raise refused(f"a policy of kind {kind.__name__}")
    program = Program()
    joined = interface.joined
    parts = parts_of(opened(policy.observation_space)) if joined is None else joined.parts
    observations = {name: program.value(part.shape or (1,)) for name, part in parts.items()}
    seen = observations if joined is None else {ONLY: _joined(program, observations, joined)}
    state = program.value((policy.state_size,)) if policy.recurrent else None
    networks_parts = PREPROCESSING[kind.preprocess](program, policy, raw(program, seen, normalization))
    parameters, new_state = ACTORS[kind.forward](program, policy, networks_parts, state)
    count = len(program.operations)
    action = _mode(program, policy, parameters)
    act = _ending(program, policy, count, action, new_state)
    noise = sample = None
    if type(policy.head) in SAMPLES:
        begin = len(program.operations)
        noise = program.value(policy.head.noise_shape)
        drawn = SAMPLES[type(policy.head)](program, policy, parameters, noise)
        sample = _ending(program, policy, begin, drawn, new_state)
    ports = interface.observations
    inputs = [
        {"part": name, "name": ports[name].name, "shape": list(ports[name].shape), **_row(value)}
        for name, value in observations.items()
    ]
    (port,) = (port for port in interface.outputs if port.name == ACTIONS)
    document = {
        "inputs": inputs,
        "state": None if state is None else _row(state),
        "noise": None if noise is None else _row(noise),
        "action": {"shape": list(port.shape), "dtype": port.dtype, "size": action.size},
        "body": _operations(program.operations[:count]),
        "act": act,
        "sample": sample,
        "sizes": program.sizes,
    }
    return document, program.weights


def _joined(program: Program, parts: Mapping[str, Value], joined: Joined) -> Value:
    """Join parts to the vector that the policy takes."""
    encoded = [x if joined.discrete else encode_part(program, x, joined.parts[name]) for name, x in parts.items()]
    return program.concat([flat(x) for x in encoded])


def _row(value: Value) -> dict[str, int]:
    return {"value": value.number, "size": value.size}


def _operations(operations: list[Operation]) -> list[dict[str, Any]]:
    return [{**one._asdict(), "inputs": list(one.inputs)} for one in operations]


def _ending(program: Program, policy: BasePolicy, begin: int, action: Value, state: Value | None) -> dict[str, Any]:
    """Bound a Box action as `act` of a model does, complete the state, and return the operations from `begin`."""
    drawn, space = action, policy.action_space
    if isinstance(space, spaces.Box):
        action = program.clip(action, space.low, space.high)
        action = action if space.dtype.kind == "f" else program.activation(action, "round")
    if isinstance(policy, SeesPreviousAction):
        state = program.concat([state, flat(encode_part(program, drawn, space))])
    number = None if state is None else state.number
    return {"operations": _operations(program.operations[begin:]), "action": action.number, "state": number}


def _mode(program: Program, policy: BasePolicy, parameters: Parameters) -> Value:
    head = policy.head
    kind = type(make_pdtype(policy.action_space)) if isinstance(head, CertainHead) else type(head)
    if kind not in MODES:
        raise refused(f"actions of kind {kind.__name__}")
    return MODES[kind](program, policy, parameters)


def _choice(program: Program, policy: BasePolicy, numbers: Value) -> Value:
    space = policy.action_space
    if isinstance(space, spaces.Discrete):
        return program.argmax(numbers, [int(space.n)], [int(space.start)])
    return program.argmax(numbers, space.nvec.tolist(), np.ravel(space.start).tolist())


def _scaled(program: Program, policy: BasePolicy, x: Value) -> Value:
    squashed = program.activation(x, "tanh")
    return program.affine(squashed, times=policy.head.limit, plus=policy.head.center)


def _mean(program: Program, policy: BasePolicy, parameters: Parameters) -> Value:
    return program.slice(parameters.numbers, 0, policy.head.width)


def _noisy(program: Program, policy: BasePolicy, parameters: Parameters, noise: Value, bounds: tuple | None) -> Value:
    width = policy.head.width
    if parameters.deviation is not None:
        moved = program.affine(noise, times=parameters.deviation)
    else:
        logstd = program.slice(parameters.numbers, width, 2 * width)
        logstd = logstd if bounds is None else program.clip(logstd, *bounds)
        moved = program.combine("multiply", program.activation(logstd, "exp"), noise)
    return program.combine("add", _mean(program, policy, parameters), moved)


def _mode_choice(program: Program, policy: BasePolicy, parameters: Parameters) -> Value:
    return _choice(program, policy, parameters.numbers)


def _sample_choice(program: Program, policy: BasePolicy, parameters: Parameters, noise: Value) -> Value:
    return _choice(program, policy, program.combine("add", parameters.numbers, noise))


def _mode_squashed(program: Program, policy: BasePolicy, parameters: Parameters) -> Value:
    return _scaled(program, policy, _mean(program, policy, parameters))


def _sample_gaussian(program: Program, policy: BasePolicy, parameters: Parameters, noise: Value) -> Value:
    return _noisy(program, policy, parameters, noise, None)


def _sample_squashed(program: Program, policy: BasePolicy, parameters: Parameters, noise: Value) -> Value:
    return _scaled(program, policy, _noisy(program, policy, parameters, noise, LOG_STD_BOUNDS))


def _mode_bits(program: Program, policy: BasePolicy, parameters: Parameters) -> Value:
    return program.activation(parameters.numbers, "step")


def _sample_bits(program: Program, policy: BasePolicy, parameters: Parameters, noise: Value) -> Value:
    probabilities = program.activation(parameters.numbers, "sigmoid")
    return program.activation(program.combine("subtract", probabilities, noise), "step")


MODES: dict[type, Callable[[Program, Any, Parameters], Value]] = {
    CategoricalHead: _mode_choice,
    MultiCategoricalHead: _mode_choice,
    EpsilonGreedyHead: _mode_choice,
    GaussianHead: _mean,
    BernoulliHead: _mode_bits,
    DeterministicHead: _mode_squashed,
    SquashedGaussianHead: _mode_squashed,
    GivenActions: _mean,
}
# A head that is not here takes no noise.
SAMPLES: dict[type, Callable[[Program, Any, Parameters, Value], Value]] = {
    CategoricalHead: _sample_choice,
    MultiCategoricalHead: _sample_choice,
    EpsilonGreedyHead: _sample_choice,
    GaussianHead: _sample_gaussian,
    BernoulliHead: _sample_bits,
    SquashedGaussianHead: _sample_squashed,
}
