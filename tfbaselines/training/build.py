"""Policies from an algorithm's arguments, for learn, evaluate, play and export."""

import inspect
from typing import TYPE_CHECKING, Any

from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.config import Config, NetworkSpec
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.policy import Policy, build_policy
from tfbaselines.training.model import PolicyModel

if TYPE_CHECKING:
    from tfbaselines.policy.actor_critic import ActorCritic
    from tfbaselines.policy.direct import DirectPolicy


def make_policy(network: NetworkSpec, env: Any, config: Config, comm: Any = None, **kind: Any) -> Policy:
    """Make a policy with a value function.

    Args:
        network: name or builder of the network.
        env: anything with observation_space and action_space.
        config: arguments of an algorithm with value_network and normalize_observations.
        comm: ranks that train together.
        kind: estimate_q and policy_class, which the algorithm chooses.
    """
    check_network(network, config)
    shared = {"value_network": config.value_network, "normalize_observations": config.normalize_observations}
    signals = getattr(config, "signals", None)
    if signals is not None:
        shared["value_streams"] = len(signals)
    return build_policy(env, network, **shared, comm=comm, **kind, **config.network_kwargs)


def make_actor_critic(network: NetworkSpec, env: Any, config: Config, comm: Any = None, **kind: Any) -> "ActorCritic":
    """Make an actor and its critics.

    Args:
        network: name or builder of the network.
        env: anything with observation_space and action_space.
        config: arguments of an off-policy algorithm.
        comm: ranks that train together.
        kind: further arguments of build_actor_critic, which the algorithm chooses; they replace the config's.
    """
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
    """Make a policy without values.

    Args:
        network: name or builder of the network.
        env: anything with observation_space and action_space.
        config: arguments of an algorithm with normalize_observations.
        comm: ranks that train together.
        certain: see DirectPolicy.
    """
    from tfbaselines.policy.direct import DirectPolicy

    check_network(network, config)
    network_fn = get_network_builder(network)(**config.network_kwargs)
    own = {"certain": certain, "normalize_observations": config.normalize_observations, "comm": comm}
    return DirectPolicy(env.observation_space, env.action_space, network_fn, **own)


def saved_model(algorithm: Algorithm, network: NetworkSpec, env: Any, arguments: dict[str, Any]) -> PolicyModel:
    """Make the model of a saved run, which can then load its weights, for playing and evaluating.

    Args:
        algorithm: declaration of the run's algorithm.
        network: name or builder of the network.
        env: an environment with the run's spaces.
        arguments: further arguments of the run's learn.
    """
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
