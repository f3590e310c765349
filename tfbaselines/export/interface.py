"""Inputs and outputs of an exported policy: their names, shapes and types, the same for every target.

Inputs, in this order: `observations`, or `observations_PART` for each part of a Dict, raw as the environment gives
them; `states` [N, S] and `masks` [N] (1 at an episode's first step) of a recurrent policy; `noise` of a sampled one.
Outputs: `actions`, and `new_states` of a recurrent policy.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.envs.vec.observations import MASK, ONLY, parts_of
from tfbaselines.envs.vec.packed import opened
from tfbaselines.errors import UsageError
from tfbaselines.policy.encoding import observation_dtype

PREFIX = "observations"
STATES, MASKS, NOISE = "states", "masks", "noise"
ACTIONS, NEW_STATES = "actions", "new_states"

# Distributions of the noise, by the class of the action head.
NOISES = {
    "CategoricalHead": "Gumbel noise: -log(-log(u)), u uniform in (0, 1)",
    "MultiCategoricalHead": "Gumbel noise: -log(-log(u)), u uniform in (0, 1)",
    "GaussianHead": "standard normal",
    "SquashedGaussianHead": "standard normal",
    "BernoulliHead": "uniform in [0, 1)",
    "EpsilonGreedyHead": "zeros; with probability epsilon, numbers above all values",
}


@dataclass(frozen=True)
class Port:
    """One input or output.

    Attributes:
        name: its name in every target.
        shape: its shape in a batch without the batch's length, which comes first: () for one number a row.
        dtype: name of its numpy type.
        meaning: description for the card.
        part: name of the part of Dict observations, 'all' for an observation without parts; None for other ports.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    meaning: str
    part: str | None = None


@dataclass(frozen=True)
class Interface:
    """Inputs and outputs of an exported policy."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @property
    def observations(self) -> dict[str, Port]:
        """Inputs that are parts of observations, by the part's name."""
        return {port.part: port for port in self.inputs if port.part is not None}

    @property
    def recurrent(self) -> bool:
        """True if the policy has a memory."""
        return any(port.name == STATES for port in self.inputs)


def interface_of(model: Any, sampled: bool) -> Interface:
    """Describe the inputs and outputs of a model's policy."""
    policy = model.policy
    space = opened(policy.observation_space)
    scaled = bool(model.observations.normalization.get("ob"))
    named = isinstance(space, spaces.Dict)
    inputs = [_observation(name, part, named, scaled) for name, part in parts_of(space).items()]
    if model.observations.frames:
        inputs[0] = Port(**{**vars(inputs[0]), "meaning": f"{model.observations.frames} frames, the latest one last"})
    outputs = [_actions(policy)]
    if policy.recurrent:
        inputs.append(Port(STATES, (policy.state_size,), "float32", "memory: zeros at first, then new_states"))
        inputs.append(Port(MASKS, (), "float32", "1 if the observation is the first of an episode, otherwise 0"))
        outputs.append(Port(NEW_STATES, (policy.state_size,), "float32", "memory for the next step"))
    if sampled:
        inputs.append(_noise(policy.head))
    return Interface(tuple(inputs), tuple(outputs))


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
    if isinstance(space, spaces.Box) and space.shape:
        low, high = float(space.low.min()), float(space.high.max())
        return f"numbers from {low:g} to {high:g}"
    return str(space) if len(str(space)) < 80 else type(space).__name__
