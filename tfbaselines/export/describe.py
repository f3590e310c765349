"""Description of a model for its export: inputs and outputs, test vectors of the environment, and the score."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK, ONLY, parts_of
from tfbaselines.envs.vec.packed import opened
from tfbaselines.errors import UsageError
from tfbaselines.export.interface import (
    ACTIONS,
    MASKS,
    NEW_STATES,
    NOISE,
    PREFIX,
    STATES,
    Interface,
    Options,
    Port,
)
from tfbaselines.export.joined import joined_of
from tfbaselines.export.play import play
from tfbaselines.policy.encoding import observation_dtype

# Observations of the test vectors.
VECTORS = 1000
SEED = 0

# Distributions of the noise, by the class of the action head.
NOISES = {
    "CategoricalHead": "Gumbel noise: -log(-log(u)), u uniform in (0, 1)",
    "MultiCategoricalHead": "Gumbel noise: -log(-log(u)), u uniform in (0, 1)",
    "GaussianHead": "standard normal",
    "SquashedGaussianHead": "standard normal",
    "BernoulliHead": "uniform in [0, 1)",
    "EpsilonGreedyHead": "zeros; with probability epsilon, numbers above all values",
}


def options_of(model: Any, to: str, sampled: bool, precision: str, episodes: int) -> Options:
    """Play the model in its environment, and return the options with test vectors and returns."""
    interface = interface_of(model, sampled)
    played = play(model, VECTORS, episodes, SEED, deterministic=not sampled)
    parts = played.observations if interface.joined is None else interface.joined.split(played.observations[ONLY])
    inputs = {port.name: parts[part] for part, port in interface.observations.items()}
    if interface.recurrent:
        inputs |= {STATES: played.states, MASKS: played.masks}
    if sampled:
        inputs[NOISE] = model.policy.head.draw_noise(np.random.default_rng(SEED), (VECTORS,))
    inputs = {port.name: np.ascontiguousarray(inputs[port.name], port.dtype) for port in interface.inputs}
    outputs = expected(model, interface, inputs, sampled)
    return Options(to, sampled, precision, interface, inputs, outputs, played.source, played.returns)


def expected(
    model: Any, interface: Interface, inputs: dict[str, np.ndarray], sampled: bool = False
) -> dict[str, np.ndarray]:
    """Compute the outputs of model.act for raw observations; a sampled model draws the noise of the inputs."""
    parts = {part: inputs[port.name] for part, port in interface.observations.items()}
    obs = observed(parts, interface)
    with model.acting_alone(np.random.default_rng(SEED)):
        actions, states = model.act(obs, inputs.get(STATES), not sampled, inputs.get(MASKS))
    dtypes = {port.name: port.dtype for port in interface.outputs}
    outputs = {ACTIONS: np.asarray(actions).astype(dtypes[ACTIONS])}
    return outputs if states is None else outputs | {NEW_STATES: states}


def observed(parts: dict[str, np.ndarray], interface: Interface) -> Any:
    """Return a batch of parts in the form that the model takes."""
    if interface.joined is not None:
        return interface.joined.join(parts)
    return parts[ONLY] if list(parts) == [ONLY] else parts


def interface_of(model: Any, sampled: bool) -> Interface:
    """Describe the inputs and outputs of a model's policy."""
    policy = model.policy
    space, joined = opened(policy.observation_space), joined_of(model)
    scaled = bool(model.observations.normalization.get("ob"))
    parts = parts_of(space) if joined is None else joined.parts
    named = isinstance(space, spaces.Dict) or joined is not None
    inputs = [_observation(name, part, named, scaled) for name, part in parts.items()]
    if model.observations.frames:
        inputs[0] = replace(inputs[0], meaning=f"{model.observations.frames} frames, the latest one last")
    outputs = [_actions(policy)]
    if policy.recurrent:
        inputs.append(Port(STATES, (policy.state_size,), "float32", "memory: zeros at first, then new_states"))
        inputs.append(Port(MASKS, (), "float32", "1 if the observation is the first of an episode, otherwise 0"))
        outputs.append(Port(NEW_STATES, (policy.state_size,), "float32", "memory for the next step"))
    if sampled:
        inputs.append(_noise(policy.head))
    return Interface(tuple(inputs), tuple(outputs), joined)


def argument(part: str) -> str:
    """Return the name of a part's input; _ replaces all but letters and digits."""
    return f"{PREFIX}_{re.sub(r'[^A-Za-z0-9_]', '_', part)}"


def _observation(name: str, space: spaces.Space, named: bool, scaled: bool) -> Port:
    # A policy that learned from normalized observations takes raw ones, which the export normalizes.
    dtype = np.dtype(np.float32) if scaled and name == ONLY else observation_dtype(space)
    meaning = "1 for each allowed action, 0 for a forbidden one" if name == MASK else _words(space)
    return Port(argument(name) if named else PREFIX, tuple(space.shape or ()), dtype.name, meaning, name)


def _actions(policy: Any) -> Port:
    space = policy.action_space
    if isinstance(space, spaces.Box):
        dtype = policy.head.action_dtype if space.dtype.kind == "f" else space.dtype
    else:
        dtype = np.dtype(np.int64)
    return Port(ACTIONS, tuple(policy.head.action_shape), np.dtype(dtype).name, _words(space))


def _noise(head: Any) -> Port:
    name = type(head).__name__
    if name not in NOISES:
        raise UsageError("sampled=True: this policy is deterministic, there is nothing to sample")
    return Port(NOISE, tuple(head.noise_shape), "float32", NOISES[name])


def _words(space: spaces.Space) -> str:
    if isinstance(space, spaces.Box) and space.shape and space.is_bounded():
        low, high = float(space.low.min()), float(space.high.max())
        return f"numbers from {low:g} to {high:g}"
    if isinstance(space, spaces.Box):
        return "numbers"
    return str(space) if len(str(space)) < 80 else type(space).__name__
