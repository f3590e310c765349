"""Policies: made from an algorithm's arguments, and exported as a SavedModel, which TensorFlow alone can serve."""

import inspect
import os
import re
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from tfbaselines.compiling import compiled
from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.config import Config, NetworkSpec
from tfbaselines.envs.vec.observations import ONLY
from tfbaselines.envs.vec.packed import opened
from tfbaselines.errors import UsageError
from tfbaselines.files import replace_directory
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.encoding import observation_spec
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.policy import Policy, build_policy
from tfbaselines.policy.recurrent import one_step
from tfbaselines.training.model import PolicyModel

if TYPE_CHECKING:
    from tfbaselines.policy.actor_critic import ActorCritic
    from tfbaselines.policy.policy import DirectPolicy


def make_policy(network: NetworkSpec, env: Any, config: Config, comm: Any = None, **kind: Any) -> Policy:
    """Make a policy with a value function.

    Args:
        network: name or builder of the network.
        env: anything with observation_space and action_space.
        config: arguments of an algorithm with value_network and normalize_observations.
        comm: ranks that train together.
        kind: further arguments of build_policy, which the algorithm chooses.
    """
    check_network(network, config)
    shared = {"value_network": config.value_network, "normalize_observations": config.normalize_observations}
    signals = getattr(config, "signals", None)
    if signals is not None:
        shared["value_streams"] = len(signals)
    return build_policy(env, network, **shared, comm=comm, **kind, **config.network_kwargs)


def make_actor_critic(network: NetworkSpec, env: Any, config: Config, comm: Any = None, **kind: Any) -> "ActorCritic":
    """Make an actor and its critics, as make_policy does; `kind` replaces the config's arguments."""
    from tfbaselines.policy.actor_critic import build_actor_critic

    check_network(network, config)
    names = ("memory_size", "vis_encode_type", "normalize_observations")
    own = {name: getattr(config, name) for name in names if hasattr(config, name)}
    signals = getattr(config, "signals", None)
    if signals is not None:
        own["streams"] = len(signals)
    return build_actor_critic(env, network, comm=comm, **own | kind, **config.network_kwargs)


def make_direct_policy(
    network: NetworkSpec, env: Any, config: Config, comm: Any = None, certain: bool = True
) -> "DirectPolicy":
    """Make a policy without values, as make_policy does; for `certain` see DirectPolicy."""
    from tfbaselines.policy.policy import DirectPolicy
    from tfbaselines.policy.trunk import network_for

    check_network(network, config)
    network_fn = network_for(network, env.observation_space, **config.network_kwargs)
    own = {"certain": certain, "normalize_observations": config.normalize_observations, "comm": comm}
    return DirectPolicy(env.observation_space, env.action_space, network_fn, **own)


def saved_model(algorithm: Algorithm, network: NetworkSpec, env: Any, arguments: dict[str, Any]) -> PolicyModel:
    """Make the model of a saved run from its learn's arguments; it can load the weights, to play and evaluate."""
    config = algorithm.module.Config.of(arguments)
    make = getattr(algorithm.module, "make_policy", make_policy)
    return PolicyModel(make(network, env, config))


def check_network(network: NetworkSpec, config: Config) -> None:
    """Raise ValueError for arguments that neither the algorithm nor the network has, or both have."""
    parameters = inspect.signature(get_network_builder(network)).parameters.values()
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    named = {parameter.name: parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
    name = network if isinstance(network, str) else getattr(network, "__name__", repr(network))
    config.check_network(name, named, open_ended)


PREFIX = "observations"


def export_saved_model(policy: BasePolicy, normalization: dict[str, Any], directory: str) -> None:
    """Write the policy with its normalization, whole or not at all.

    The serving signature takes the environment's raw `observations` [N, ...], and returns `actions` (the most likely
    ones) and `values`. A recurrent policy also takes `states` [N, S] and `masks` [N] (1 at an episode's first step) and
    returns `states`, in the signature "onnx" as `new_states`: an output of ONNX has no input's name. Each part of Dict
    observations is an argument `observations_PART`; _ replaces all but letters and digits.

    Args:
        policy: policy to export.
        normalization: statistics of VecNormalize, as in a saved model; empty for none.
        directory: path of the export; it must not exist, or be an earlier export.
    """
    if os.path.exists(directory) and not os.path.isfile(os.path.join(directory, "saved_model.pb")):
        raise UsageError(f"cannot export to '{directory}': it exists and is not an exported model")
    parent = os.path.dirname(os.path.abspath(directory))
    try:
        os.makedirs(parent, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"cannot export to '{directory}': a part of its path is a file") from None
    work = tempfile.mkdtemp(prefix=".export-", dir=parent)
    try:
        module = _ServedPolicy(policy, normalization)
        tf.saved_model.save(module, work, signatures=dict(module.served))
        replace_directory(directory, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


class _ServedPolicy(tf.Module):
    def __init__(self, policy: BasePolicy, normalization: dict[str, Any]) -> None:
        super().__init__()
        # Attributes of the module, so that the SavedModel tracks their variables.
        self.networks = policy.modules
        self.parameters = [variable.value for variable in policy.trainable_variables]
        if policy.normalizer:
            self.statistics = policy.normalizer.variables
        spec = observation_spec(opened(policy.observation_space))
        parts = spec if isinstance(spec, dict) else {ONLY: spec}
        if normalization.get("ob"):
            # The policy learned from normalized observations; the served policy takes raw ones.
            parts[ONLY] = tf.TensorSpec(parts[ONLY].shape, tf.float32)
        named = isinstance(spec, dict)
        specs = {_argument(name) if named else PREFIX: part for name, part in parts.items()}
        if policy.recurrent:
            specs["states"] = tf.TensorSpec((None, policy.state_size), tf.float32)
            specs["masks"] = tf.TensorSpec((None,), tf.float32)

        def serve(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            obs = {name: inputs[_argument(name) if named else PREFIX] for name in parts}
            if ONLY in obs:
                obs[ONLY] = _normalize(obs[ONLY], normalization)
            shown = obs if named else obs[ONLY]
            with one_step():
                outputs = policy.forward(shown, inputs.get("masks"), inputs.get("states"))
            actions = policy.head.distribution(outputs.flat).mode()
            if isinstance(policy.action_space, spaces.Box):
                kind = actions.dtype.as_numpy_dtype
                low, high = (getattr(policy.action_space, bound).astype(kind) for bound in ("low", "high"))
                actions = tf.clip_by_value(actions, low, high)
                if policy.action_space.dtype.kind != "f":
                    actions = tf.cast(tf.round(actions), policy.action_space.dtype)
            results = {"actions": actions, "values": outputs.value}
            return results | ({"states": outputs.states} if policy.recurrent else {})

        def serve_to_onnx(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            results = serve(**inputs)
            return results | {"new_states": results.pop("states")}

        signature = {name: tf.TensorSpec(s.shape, s.dtype, name=name) for name, s in specs.items()}
        self.served = {"serving_default": compiled(serve).get_concrete_function(**signature)}
        if policy.recurrent:
            self.served["onnx"] = compiled(serve_to_onnx).get_concrete_function(**signature)


def _argument(part: str) -> str:
    """Return the name of a part's argument; _ replaces all but letters and digits."""
    return f"{PREFIX}_{re.sub(r'[^A-Za-z0-9_]', '_', part)}"


def _normalize(obs: tf.Tensor, normalization: dict[str, Any]) -> tf.Tensor:
    statistics = normalization.get("ob") if normalization else None
    if statistics is None:
        return obs
    deviation = np.sqrt(np.asarray(statistics["var"]) + normalization["epsilon"])
    clip = float(normalization["clipob"])
    centred = obs - tf.constant(np.asarray(statistics["mean"], np.float32))
    return tf.clip_by_value(centred / tf.constant(deviation.astype(np.float32)), -clip, clip)
