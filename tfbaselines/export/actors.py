"""Policies as operations: from the parts of an observation to the parameters of the action distribution."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from tfbaselines.algs.deepq.loss import CategoricalReturn
from tfbaselines.algs.deepq.q_network import QNetwork
from tfbaselines.algs.her.goal import GoalActorCritic
from tfbaselines.algs.qlearning.table import TablePolicy
from tfbaselines.envs.vec.observations import MASK, ONLY, parts_of
from tfbaselines.envs.vec.packed import opened
from tfbaselines.envs.wrappers import ACHIEVED, DESIRED, OBSERVATION
from tfbaselines.export.layers import run_lstm, run_network
from tfbaselines.export.program import Program, Value, flat
from tfbaselines.policy.actor_critic import ActorCritic
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.encoding import FORBIDDEN, Normalizer, numeric_parts, without_mask
from tfbaselines.policy.policy import DirectPolicy, Policy
from tfbaselines.policy.previous_action import PREVIOUS, PreviousActionCritics, PreviousActionPolicy, SeesPreviousAction
from tfbaselines.policy.trunk import NetworkTrunk, Trunk

Parts = dict[str, Value]


def raw(program: Program, observations: Parts, normalization: Mapping[str, Any]) -> Parts:
    """Apply VecNormalize's statistics, which exist for observations without parts."""
    statistics = normalization.get("ob") if normalization else None
    if statistics is None or ONLY not in observations:
        return observations
    deviation = np.sqrt(np.asarray(statistics["var"]) + normalization["epsilon"])
    limit = float(normalization["clipob"])
    scaled = program.affine(observations[ONLY], minus=statistics["mean"], times=1.0 / deviation)
    return observations | {ONLY: program.clip(scaled, -limit, limit)}


def encode_part(program: Program, x: Value, space: spaces.Space) -> Value:
    """Encode one part of an observation: discrete values become rows of a one and zeros."""
    if isinstance(space, spaces.Discrete):
        return program.one_hot(x, [int(space.n)], [int(space.start)])
    if isinstance(space, spaces.MultiDiscrete):
        return program.one_hot(x, space.nvec.ravel().tolist(), np.ravel(space.start).tolist())
    return x


def _normalized(program: Program, x: Value, normalizer: Normalizer) -> Value:
    return program.affine(x, minus=normalizer.mean, times=1.0 / np.asarray(normalizer.std, np.float64))


def _preprocessed(program: Program, policy: BasePolicy, parts: Parts) -> Parts:
    """Repeat BasePolicy.preprocess; a table takes observations as they are."""
    if not policy.one_hot:
        return parts
    space = opened(policy.observation_space)
    encoded = {name: encode_part(program, parts[name], part) for name, part in parts_of(space).items()}
    numeric = numeric_parts(space) if isinstance(space, spaces.Dict) else encoded
    for name in numeric:
        if policy.normalizer:
            normalizer = policy.normalizer[name] if isinstance(space, spaces.Dict) else policy.normalizer
            encoded[name] = _normalized(program, encoded[name], normalizer)
        if policy.clip is not None:
            encoded[name] = program.clip(encoded[name], -policy.clip, policy.clip)
    return encoded


def _preprocessed_goals(program: Program, policy: GoalActorCritic, parts: Parts) -> Parts:
    """Repeat GoalActorCritic.preprocess."""
    space = policy.observation_space
    encoded = {name: encode_part(program, parts[name], space[name]) for name in (OBSERVATION, DESIRED)}
    if policy.relative:
        achieved = encode_part(program, parts[ACHIEVED], space[ACHIEVED])
        encoded[DESIRED] = program.combine("subtract", encoded[DESIRED], achieved)
    for name in encoded:
        if name in policy.normalizer:
            clipped = program.clip(encoded[name], -policy.clip_inputs, policy.clip_inputs)
            normalized = _normalized(program, clipped, policy.normalizer[name])
            encoded[name] = program.clip(normalized, -policy.clip, policy.clip)
    return encoded


PREPROCESSING: dict[Callable, Callable[[Program, Any, Parts], Parts]] = {
    BasePolicy.preprocess: _preprocessed,
    GoalActorCritic.preprocess: _preprocessed_goals,
}


@dataclass(frozen=True)
class Parameters:
    """Parameters of an action distribution.

    Attributes:
        numbers: logits, values or means; of a Gaussian without a fixed deviation also its logarithm.
        deviation: standard deviation of a Gaussian if observations do not change it, or None.
    """

    numbers: Value
    deviation: np.ndarray | None = None


Acted = tuple[Parameters, Value | None]


def _networks_input(policy: Any, encoded: Parts) -> Any:
    seen = without_mask(opened(policy.observation_space))
    rest = {name: part for name, part in encoded.items() if name != MASK}
    return rest if isinstance(seen, spaces.Dict) else rest[ONLY]


def _allowed(program: Program, policy: BasePolicy, numbers: Value, encoded: Parts) -> Value:
    """Lower the numbers of forbidden actions."""
    if not policy.masked:
        return numbers
    return program.combine("add", numbers, program.affine(encoded[MASK], minus=1.0, times=-FORBIDDEN))


def _network_actor(program: Program, policy: Any, encoded: Parts, state: Value | None) -> Acted:
    """Repeat Policy.forward and DirectPolicy.forward, values apart."""
    return _network_heads(program, policy, _networks_input(policy, encoded), encoded, state)


def _network_heads(program: Program, policy: Any, x: Any, encoded: Parts, state: Value | None) -> Acted:
    network, second = policy.network, getattr(policy, "value_network", None)
    size = getattr(network, "state_size", None) or 0
    latent, new_state = run_network(program, network, x, program.slice(state, 0, size) if size else None)
    if state is not None and size < state.size:
        # Its state is a part of the policy's.
        _, other = run_network(program, second, x, program.slice(state, size, state.size))
        new_state = other if new_state is None else program.concat([new_state, other])
    if policy.pi_layer is not None:
        latent, _ = run_network(program, policy.pi_layer, latent)
    deviation = None if policy.logstd is None else np.exp(policy.logstd.numpy()[0])
    return Parameters(_allowed(program, policy, latent, encoded), deviation), new_state


def _actor_with_previous_action(program: Program, policy: PreviousActionPolicy, encoded: Parts, state: Value) -> Acted:
    x = _networks_input(policy, encoded)
    previous, memory = _split(program, policy, state)
    x = (x if isinstance(x, dict) else {ONLY: x}) | {PREVIOUS: previous}
    return _network_heads(program, policy, x, encoded, memory)


def _trunk_actor_with_previous_action(
    program: Program, policy: PreviousActionCritics, encoded: Parts, state: Value
) -> Acted:
    previous, memory = _split(program, policy, state)
    return _trunk_actor(program, policy, {**encoded, PREVIOUS: previous}, memory)


def _split(program: Program, policy: SeesPreviousAction, state: Value) -> tuple[Value, Value]:
    """Split a state into the previous action and the rest."""
    memory = state.size - policy.action_width
    return program.slice(state, memory, state.size), program.slice(state, 0, memory)


def _trunk(program: Program, trunk: Trunk | NetworkTrunk, encoded: Parts, state: Value | None) -> tuple:
    if isinstance(trunk, NetworkTrunk):
        return run_network(program, trunk.modules[0], encoded[ONLY], state)
    rows = [
        run_network(program, trunk.encoders[name], encoded[name])[0] if name in trunk.encoders else flat(encoded[name])
        for name in trunk.names
    ]
    features = program.concat(rows)
    return (features, None) if trunk.cell is None else run_lstm(program, trunk.cell, features, state)


def _trunk_actor(program: Program, policy: ActorCritic, encoded: Parts, state: Value | None) -> Acted:
    """Repeat the actor of ActorCritic.forward."""
    size = policy.trunk.state_size
    features, new_state = _trunk(program, policy.trunk, encoded, program.slice(state, 0, size) if size else None)
    if policy.critic_trunk.state_size:
        # Its state is a part of the policy's.
        _, other = _trunk(program, policy.critic_trunk, encoded, program.slice(state, size, state.size))
        new_state = program.concat([new_state, other])
    for network in filter(None, (policy.network, policy.pi_layer)):
        features, _ = run_network(program, network, features)
    return Parameters(_allowed(program, policy, features, encoded)), new_state


def _q_actor(program: Program, policy: QNetwork, encoded: Parts, state: None) -> Acted:
    """Repeat QNetwork.forward, up to a number that all actions share."""
    x, _ = _trunk(program, policy.trunk, encoded, None)
    if policy.network is not None:
        x, _ = run_network(program, policy.network, x)
    return Parameters(_allowed(program, policy, _q_values(program, policy.q_head, x), encoded)), None


def _q_values(program: Program, head: Any, features: Value) -> Value:
    actions, returns = head.actions, head.returns
    kernel, bias, hidden = _branch(program, head.action_layers, features, (actions, returns.atoms))
    if not isinstance(returns, CategoricalReturn):
        # Values are means of quantiles, or the only number. The state's value shifts all actions alike.
        return program.dense(hidden, kernel.mean(axis=2), bias.mean(axis=1))
    if not head.state_layers:
        logits = program.dense(hidden, kernel.reshape(len(kernel), -1), bias.ravel())
    else:
        kernel, bias = kernel - kernel.mean(axis=1, keepdims=True), bias - bias.mean(axis=0)
        advantages = program.dense(hidden, kernel.reshape(len(kernel), -1), bias.ravel())
        kernel, bias, hidden = _branch(program, head.state_layers, features, (1, returns.atoms))
        state = program.dense(hidden, np.tile(kernel[:, 0], actions), np.tile(bias[0], actions))
        logits = program.combine("add", state, advantages)
    return program.weighted_sum(program.softmax(logits, returns.atoms), returns.support)


def _branch(program: Program, layers: list, features: Value, shape: tuple[int, int]) -> tuple:
    """Record the hidden layers; return kernel [n, *shape] and bias [*shape] of the last layer, and its input."""
    *hidden, last = layers
    for layer in hidden:
        features, _ = run_network(program, layer, features)
    return last.kernel.numpy().reshape(-1, *shape), last.bias.numpy().reshape(shape), features


def _table_actor(program: Program, policy: TablePolicy, encoded: Parts, state: None) -> Acted:
    """Repeat TablePolicy.forward."""
    (x,) = (part for name, part in encoded.items() if name != MASK)
    cells = policy.cells
    width = cells.high.astype(np.float64) - cells.low
    place = program.affine(x, minus=cells.low, times=cells.sizes / width)
    row = program.clip(place, 0.0, cells.sizes - 1.0)
    values = program.gather(row, policy.table.numpy(), cells.sizes.tolist())
    return Parameters(_allowed(program, policy, values, encoded)), None


ACTORS: dict[Callable, Callable[..., Acted]] = {
    Policy.forward: _network_actor,
    DirectPolicy.forward: _network_actor,
    PreviousActionPolicy.forward: _actor_with_previous_action,
    ActorCritic.forward: _trunk_actor,
    PreviousActionCritics.forward: _trunk_actor_with_previous_action,
    QNetwork.forward: _q_actor,
    TablePolicy.forward: _table_actor,
}
