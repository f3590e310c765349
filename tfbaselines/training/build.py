"""Build what arguments name: the policy of an algorithm, and behavior cloning that goes on while it learns.

Each gradient step of such a run is followed by one on demonstrations, with an Adam of its own; its learning rate is the
policy's times a strength that falls to 0.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tfbaselines.compiling import compiled
from tfbaselines.config.algorithm import Algorithm
from tfbaselines.config.config import Config, NetworkSpec
from tfbaselines.config.groups import Pretraining
from tfbaselines.demos import Demonstrations, load_demonstrations
from tfbaselines.demos.cloning import ADAM_EPSILON, Sequences, as_rows, imitation_loss, memory_after
from tfbaselines.demos.parts import as_policy_takes
from tfbaselines.envs.normalize import VecNormalize
from tfbaselines.envs.vec.base import find_wrapper
from tfbaselines.errors import bad_argument
from tfbaselines.learn.engine import Engine, Phase
from tfbaselines.learn.optimizers import Adam, restore_slots, slots
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.layers import compile_with_xla
from tfbaselines.policy.networks import get_network_builder
from tfbaselines.policy.own import OwnActorCritic, OwnNetworks, OwnPolicy, make_own
from tfbaselines.policy.policy import Policy, build_policy
from tfbaselines.training.model import Part, PolicyModel
from tfbaselines.training.run import Run

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
    names = ("value_network", "normalize_observations", "init_logstd", "ortho_init")
    shared = {name: getattr(config, name) for name in names if hasattr(config, name)}
    signals = getattr(config, "signals", None)
    if signals is not None:
        shared["value_streams"] = len(signals)
    previous = sees_previous_action(network, config)
    if isinstance(network, OwnNetworks):
        return make_own(OwnPolicy, network, env, shared | kind | {"comm": comm})
    check_network(network, config)
    if previous:
        from tfbaselines.policy.previous_action import PreviousActionPolicy

        kind = {"policy_class": PreviousActionPolicy, **kind}
    return build_policy(env, network, **shared, comm=comm, **kind, **config.network_kwargs)


def make_actor_critic(network: NetworkSpec, env: Any, config: Config, comm: Any = None, **kind: Any) -> "ActorCritic":
    """Make an actor and its critics, as make_policy does; `kind` replaces the config's arguments."""
    from tfbaselines.policy.actor_critic import build_actor_critic

    names = ("critics", "critic_layer_norm", "memory_size", "vis_encode_type", "normalize_observations")
    own = {name: getattr(config, name) for name in names if hasattr(config, name)}
    signals = getattr(config, "signals", None)
    if signals is not None:
        own["streams"] = len(signals)
    previous = sees_previous_action(network, config)
    if isinstance(network, OwnNetworks):
        arguments = own | kind | {"comm": comm}
        return make_own(OwnActorCritic, network, env, arguments.pop("kind", {}) | arguments)
    check_network(network, config)
    if previous:
        from tfbaselines.policy.previous_action import PreviousActionCritics

        own["policy_class"] = PreviousActionCritics
    return build_actor_critic(env, network, comm=comm, **own | kind, **config.network_kwargs)


def sees_previous_action(network: NetworkSpec, config: Config) -> bool:
    """Return True if the networks take the previous action too; networks of the user's own cannot."""
    previous = getattr(config, "prev_action", False)
    if previous and isinstance(network, OwnNetworks):
        raise bad_argument("prev_action", True, "networks of your own take observations alone")
    return previous


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


LOSS, STRENGTH = "pretraining/loss", "pretraining/strength"


class CloningBeside(Part):
    """Take gradient steps of behavior cloning; a Part of the model.

    Attributes:
        optimizer: optimizer of the steps.
        parts: parts of the model that cloning adds.

    Args:
        run: the run; its logs get the statistics.
        policy, demonstrations, arguments: what learns from what, and how.
        shown: normalizes demonstrated observations as the environments do now.
    """

    def __init__(
        self,
        run: Run,
        policy: BasePolicy,
        demonstrations: Demonstrations,
        arguments: Pretraining,
        shown: Callable[[np.ndarray], np.ndarray] = lambda obs: obs,
    ) -> None:
        self._run = run
        self.parts = [self]
        self._space = policy.observation_space
        self._arguments = arguments
        self._shown = shown
        self._size = arguments.batch_size
        self._sequences = None
        if policy.recurrent:
            length = arguments.sequence_length
            self._sequences = Sequences(demonstrations, length, policy.state_size)
            self._data = self._sequences.data
            self._size = max(1, self._size // length)
        else:
            self._data = as_rows(demonstrations)
        # Rows of a pass: steps, or sequences of them.
        self._most = len(self._data["obs"])
        if arguments.samples_per_update:
            length = arguments.sequence_length if policy.recurrent else 1
            self._most = min(self._most, max(1, arguments.samples_per_update // length))
        if arguments.passes is not None:
            self._size = min(self._size, self._most)
        self.optimizer, jit = Adam(epsilon=ADAM_EPSILON), compile_with_xla(policy, arguments.batch_size)
        phase = Phase("pretraining", partial(imitation_loss, policy), policy.acting_variables, self.optimizer)
        self._engine = Engine([phase], jit=jit, comm=run.comm)
        self._memory = compiled(partial(memory_after, policy), jit)

    @property
    def strength(self) -> float:
        """Learning rate of this update, as a share of the policy's."""
        steps, before = self._arguments.steps, self._run.timesteps - self._run.plan.steps_per_update
        left = max(0.0, 1.0 - before / steps) if steps else 1.0
        return left * self._arguments.strength

    def learn(self, model: PolicyModel, steps: int) -> None:
        """Take gradient steps while the strength is above 0; the run's next row has the statistics.

        Args:
            model: model of the policy, with an actor that follows the parameters.
            steps: number of the policy's gradient steps; num_epoch and samples_per_update take another number.
        """
        columns = self._run.columns
        strength = self.strength
        columns[STRENGTH] = strength
        if strength == 0.0:
            columns.pop(LOSS, None)
            return
        if self._sequences is not None:
            self._sequences.refresh(self._memory_of)
        rows = self._drawn(steps)
        batch = {name: array[rows] for name, array in self._data.items()}
        batch["obs"] = as_policy_takes(self._as_shown(batch["obs"]), self._space)
        indices = np.arange(len(rows), dtype=np.int32).reshape(-1, self._size)
        statistics = self._engine.minibatches(batch, indices, lr=strength * self._run.rates()["lr"])
        columns[LOSS] = self._run.check({LOSS: statistics["loss"]})[LOSS]
        model.actor.refresh()

    def _drawn(self, steps: int) -> np.ndarray:
        """Draw rows for as many minibatches as the policy takes, or shuffled rows for each pass."""
        rng, count, passes = self._run.rng, len(self._data["obs"]), self._arguments.passes
        if passes is None:
            return rng.integers(count, size=steps * self._size)
        used = self._most // self._size * self._size
        return np.concatenate([rng.permutation(count)[:used] for _ in range(passes)])

    def _as_shown(self, obs: np.ndarray) -> np.ndarray:
        return np.asarray(self._shown(obs), obs.dtype)

    def _memory_of(self, obs: np.ndarray, *others: np.ndarray) -> np.ndarray:
        seen = as_policy_takes(self._as_shown(obs), self._space)
        return self._memory(*tf.nest.map_structure(tf.constant, (seen, *others))).numpy()

    def state(self) -> dict[str, Any]:
        return {"pretraining": slots(self.optimizer)}

    def restore(self, state: dict[str, Any]) -> None:
        # A model that was trained without cloning has no such state.
        if "pretraining" in state:
            restore_slots(self.optimizer, state["pretraining"])


class NoCloning:
    """No cloning: the run learns from rewards alone."""

    parts: Sequence[Any] = ()

    def learn(self, model: PolicyModel, steps: int) -> None:
        """Take no gradient steps."""


def cloning_beside(run: Run, policy: BasePolicy) -> CloningBeside | NoCloning:
    """Return the cloning that a run's arguments (PretrainingConfig) declare; its `parts` belong to the model."""
    arguments = run.config.cloning
    if arguments is None:
        return NoCloning()
    demonstrations = load_demonstrations(arguments.demo_path, policy.observation_space, policy.action_space)
    normalized = find_wrapper(run.env, VecNormalize)
    shown = {} if normalized is None else {"shown": normalized.scaled}
    return CloningBeside(run, policy, demonstrations, arguments, **shown)
