"""A population: many members with different parameters, each acting on one observation, in one call per step.

Policies of dense layers act in numpy: each layer is one product of all members' activations [M, 1, inputs] with all
members' kernels [M, inputs, outputs]. Other policies act through one compiled function of all members' parameters.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbaselines.arrays import require_memory
from tfbaselines.compiling import compiled
from tfbaselines.policy.actor import NumpyActor, acts_in_numpy
from tfbaselines.policy.base import BasePolicy
from tfbaselines.policy.encoding import observation_spec
from tfbaselines.policy.mirror import ArrayFunction, NumpyCopies

FLOAT_BYTES = 4


class StackedCopies(NumpyCopies):
    """Views of the members' parameters: an array [M, ...] for each variable.

    Args:
        parameters: [M, P] parameters of each member, all variables one after the other.
        variables: variables of the policy, in that order.
    """

    def __init__(self, parameters: np.ndarray, variables: list[keras.Variable]) -> None:
        super().__init__()
        ends = np.cumsum([int(np.prod(variable.shape)) for variable in variables]).tolist()
        begins = [0, *ends[:-1]]
        self._views = {
            id(variable): parameters[:, begin:end].reshape(len(parameters), *variable.shape)
            for variable, begin, end in zip(variables, begins, ends, strict=True)
        }

    def of(self, variable: keras.Variable) -> np.ndarray:
        return self._views[id(variable)]

    def _product(self, kernel: np.ndarray) -> ArrayFunction:
        return lambda x: np.matmul(x[:, None], kernel)[:, 0]


class NumpyPopulation:
    """Members that act in numpy.

    Args:
        policy: a policy of dense layers; its parameters are not used.
        members: number of members M.
    """

    def __init__(self, policy: BasePolicy, members: int) -> None:
        self._parameters = _allocated(policy, members)
        self._actor = NumpyActor(policy, StackedCopies(self._parameters, policy.trainable_variables))

    def place(self, member: int, parameters: np.ndarray) -> None:
        """Set the parameters [P] of a member."""
        self._parameters[member] = parameters

    def ready(self) -> None:
        """Read the policy's present statistics of observations."""
        self._actor.refresh()

    def choose(self, obs: np.ndarray, states: Any, episode_start: Any) -> tuple[np.ndarray, None]:
        """Choose actions [M, ...] for observations [M, ...]; return them and no states."""
        return self._actor.act(obs, None), None


class GraphPopulation:
    """Members that act through one compiled function: convolutional, recurrent and unusual networks.

    Args:
        policy: any policy; its parameters are not used.
        members: number of members M.
    """

    def __init__(self, policy: BasePolicy, members: int) -> None:
        variables = policy.trainable_variables
        self._parameters = tf.Variable(_allocated(policy, members), trainable=False)
        self._states = policy.initial_state(members)
        signature = [observation_spec(policy.observation_space, members)]
        if policy.recurrent:
            signature += [tf.TensorSpec((members,), tf.float32), tf.TensorSpec(self._states.shape, tf.float32)]

        def one(inputs: tuple) -> tuple:
            """Run the policy with one member's parameters [P], on its observation, episode_start and state."""
            parameters, obs, *memory = inputs
            parts = tf.split(parameters, [int(np.prod(variable.shape)) for variable in variables])
            mapping = [(v, tf.reshape(part, v.shape)) for v, part in zip(variables, parts, strict=True)]
            with keras.StatelessScope(state_mapping=mapping):
                outputs = policy.forward(obs[None], *(part[None] for part in memory))
            return (outputs.flat[0], *(() if outputs.states is None else (outputs.states[0],)))

        def choose(obs: tf.Tensor, *memory: tf.Tensor) -> tuple:
            flat, *states = tf.vectorized_map(one, (self._parameters.value(), obs, *memory))
            actions = policy.head.distribution(flat).mode()
            return (tf.cast(actions, policy.head.action_dtype), *states)

        # Trace once even if functions run eagerly: eager calls would rebuild the map in every step.
        self._choose = compiled(choose).get_concrete_function(*signature)

    def place(self, member: int, parameters: np.ndarray) -> None:
        """Set the parameters [P] of a member."""
        self._parameters[member].assign(parameters)

    def ready(self) -> None:
        """Do nothing: the compiled function reads the policy's statistics of observations."""

    def choose(
        self, obs: np.ndarray, states: np.ndarray | None, episode_start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Choose actions [M, ...]; return them and new states [M, S] or None.

        Args:
            obs: [M, ...] observations.
            states: [M, S] recurrent states; None for a feed-forward policy.
            episode_start: [M], whether each observation is the first of an episode.
        """
        memory = () if states is None else (np.asarray(episode_start, np.float32), states)
        actions, *new_states = self._choose(*tf.nest.map_structure(tf.convert_to_tensor, (obs, *memory)))
        return actions.numpy(), new_states[0].numpy() if new_states else None


Population = NumpyPopulation | GraphPopulation


def make_population(policy: BasePolicy, members: int) -> Population:
    """Make the fastest population of a policy.

    Args:
        policy: policy of each member.
        members: number of members that act at once.
    """
    return (NumpyPopulation if acts_in_numpy(policy) else GraphPopulation)(policy, members)


def flat_parameters(policy: BasePolicy) -> np.ndarray:
    """Return the policy's parameters [P], all variables one after the other."""
    return np.concatenate([variable.numpy().ravel() for variable in policy.trainable_variables])


def _allocated(policy: BasePolicy, members: int) -> np.ndarray:
    size = sum(int(np.prod(variable.shape)) for variable in policy.trainable_variables)
    require_memory(members * size * FLOAT_BYTES, "num_env", "the population's parameters")
    return np.zeros((members, size), np.float32)
