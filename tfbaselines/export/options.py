"""What a target gets to write an export: its inputs and outputs, test vectors of the environment, and the score."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tfbaselines.envs.vec.observations import ONLY
from tfbaselines.export.interface import ACTIONS, MASKS, NEW_STATES, NOISE, STATES, Interface, interface_of
from tfbaselines.export.play import play

# Observations of the test vectors.
VECTORS = 1000
SEED = 0


@dataclass(frozen=True)
class Options:
    """How to export a policy.

    Attributes:
        to: the target's name.
        sampled: sample actions from the input `noise`.
        precision: 'float32', 'float16' or 'int8'.
        interface: inputs and outputs.
        inputs: [1000, ...] test vectors, by the names of inputs.
        outputs: [1000, ...] expected outputs, by the names of outputs.
        source: origin of the observations, for the card.
        returns: returns of the episodes played; empty without environments.
    """

    to: str
    sampled: bool
    precision: str
    interface: Interface
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    source: str
    returns: list[float]


def options_of(model: Any, to: str, sampled: bool, precision: str, episodes: int) -> Options:
    """Play the model in its environment, and return the options with test vectors and returns."""
    interface = interface_of(model, sampled)
    played = play(model, VECTORS, episodes, SEED, deterministic=not sampled)
    inputs = {port.name: played.observations[part] for part, port in interface.observations.items()}
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
    obs = parts[ONLY] if list(parts) == [ONLY] else parts
    with model.acting_alone(np.random.default_rng(SEED)):
        actions, states = model.act(obs, inputs.get(STATES), not sampled, inputs.get(MASKS))
    dtypes = {port.name: port.dtype for port in interface.outputs}
    outputs = {ACTIONS: np.asarray(actions).astype(dtypes[ACTIONS])}
    return outputs if states is None else outputs | {NEW_STATES: states}
