"""The graph of an exported policy: from raw observations to actions, for SavedModel, LiteRT and ONNX."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.compiling import compiled
from tfbaselines.envs.vec.observations import ONLY
from tfbaselines.export.interface import ACTIONS, MASKS, NEW_STATES, NOISE, PREFIX, STATES, Interface
from tfbaselines.export.joined import Joined
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.encoding import encode, encoded_shape
from tfbaselines.policy.recurrent import one_step

VALUES = "values"

Outputs = Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]


class ServedPolicy(tf.Module):
    """Serve a policy's actions on raw observations.

    Args:
        model: the model.
        interface: inputs and outputs.
        batch: length of a batch; None for any.
    """

    def __init__(self, model: Any, interface: Interface, batch: int | None = None) -> None:
        super().__init__()
        policy: BasePolicy = model.policy
        self._policy = policy
        self._normalization = model.observations.normalization
        self._interface = interface
        self._specs = {
            port.name: tf.TensorSpec((batch, *port.shape), tf.as_dtype(port.dtype), name=port.name)
            for port in interface.inputs
        }

    @property
    def signature(self) -> list[tf.TensorSpec]:
        """Specifications of the inputs in their order."""
        return list(self._specs.values())

    def function(self, outputs: Outputs) -> Any:
        """Return the concrete function of the inputs; `outputs` chooses from actions, values and new_states."""
        function = compiled(lambda **inputs: outputs(self._act(inputs))).get_concrete_function(**self._specs)
        # A SavedModel tracks attributes of the module: the variables, without Keras's layers. The graph's order is
        # arbitrary.
        place = {id(tensor): number for number, tensor in enumerate(function.captured_inputs)}
        self.tracked = sorted(function.graph.variables, key=lambda variable: place[id(variable.handle)])
        return function

    def positional(self, outputs: Outputs) -> Any:
        """Return the compiled function of the inputs in their order."""
        return compiled(lambda *inputs: outputs(self._act(dict(zip(self._specs, inputs, strict=True)))))

    def _act(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        obs = {part: inputs[port.name] for part, port in self._interface.observations.items()}
        joined = self._interface.joined
        if joined is not None:
            obs = {ONLY: _join(obs, joined)}
        if ONLY in obs:
            obs[ONLY] = _normalize(obs[ONLY], self._normalization)
        policy, shown = self._policy, obs[ONLY] if joined is not None or PREFIX in inputs else obs
        with one_step():
            outputs = policy.forward(shown, inputs.get(MASKS), inputs.get(STATES))
        distribution = policy.head.distribution(outputs.flat)
        actions = distribution.sample(inputs[NOISE]) if NOISE in inputs else distribution.mode()
        results = {ACTIONS: _bounded(actions, policy.action_space), VALUES: outputs.value}
        if policy.recurrent:
            results[NEW_STATES] = policy.after_action(outputs.states, actions)
        return results


def of_interface(results: dict[str, tf.Tensor], interface: Interface) -> dict[str, tf.Tensor]:
    """Return the outputs of an interface in their types."""
    return {port.name: tf.cast(results[port.name], port.dtype) for port in interface.outputs}


def _join(obs: dict[str, tf.Tensor], joined: Joined) -> tf.Tensor:
    """Join a batch of parts to vectors [N, D]."""
    rows = []
    for name, space in joined.parts.items():
        part = tf.cast(obs[name], joined.whole.dtype) if joined.discrete else encode(obs[name], space)
        rows.append(tf.reshape(part, (-1, math.prod(space.shape if joined.discrete else encoded_shape(space)))))
    return tf.concat(rows, axis=-1)


def _bounded(actions: tf.Tensor, space: spaces.Space) -> tf.Tensor:
    if not isinstance(space, spaces.Box):
        return actions
    kind = actions.dtype.as_numpy_dtype
    actions = tf.clip_by_value(actions, *(getattr(space, bound).astype(kind) for bound in ("low", "high")))
    return actions if space.dtype.kind == "f" else tf.cast(tf.round(actions), space.dtype)


def _normalize(obs: tf.Tensor, normalization: dict[str, Any]) -> tf.Tensor:
    statistics = normalization.get("ob") if normalization else None
    if statistics is None:
        return obs
    deviation = np.sqrt(np.asarray(statistics["var"]) + normalization["epsilon"])
    clip = float(normalization["clipob"])
    centered = obs - tf.constant(np.asarray(statistics["mean"], np.float32))
    return tf.clip_by_value(centered / tf.constant(deviation.astype(np.float32)), -clip, clip)
