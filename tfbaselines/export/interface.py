"""Inputs and outputs of an exported policy, the same for every target, and what a target gets to write it.

Inputs, in this order: `observations`, or `observations_PART` for each part of a Dict, raw as the environment gives
them; `states` [N, S] and `masks` [N] (1 at an episode's first step) of a recurrent policy; `noise` of a sampled one.
Outputs: `actions`, and `new_states` of a recurrent policy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

PREFIX = "observations"
STATES, MASKS, NOISE = "states", "masks", "noise"
ACTIONS, NEW_STATES = "actions", "new_states"


@dataclass(frozen=True)
class Port:
    """One input or output.

    Attributes:
        name: name in every target.
        shape: shape of one row of a batch; () for one number.
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
    """Inputs and outputs of an exported policy.

    Attributes:
        joined: Joined (export/joined.py) if the policy takes the parts of an observation as one vector; None otherwise.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    joined: Any = None

    @property
    def observations(self) -> dict[str, Port]:
        """Inputs that are parts of observations, by the part's name."""
        return {port.part: port for port in self.inputs if port.part is not None}

    @property
    def recurrent(self) -> bool:
        """True if the policy has a memory."""
        return any(port.name == STATES for port in self.inputs)


@dataclass(frozen=True)
class Options:
    """Choices and shapes of an export.

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
